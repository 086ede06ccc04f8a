package policy

import "fmt"

// ParseAlgo reads an algorithm's name in any of the spellings in use.
func ParseAlgo(s string) (Algo, error) {
	if a, ok := algoNames.parse(s); ok {
		return a, nil
	}
	return 0, fmt.Errorf("%w)", algoNames.unknown("algorithm", s))
}

// ParseProto reads a protocol's name in any of the spellings in use.
func ParseProto(s string) (Proto, error) {
	if p, ok := protoNames.parse(s); ok {
		return p, nil
	}
	return 0, fmt.Errorf("%w)", protoNames.unknown("protocol", s))
}

// ChannelsCanBeSet reports whether a tuner may name a channel count for an
// algorithm: with the others NCCL does not check it against what it has.
func ChannelsCanBeSet(a Algo, nodes int) bool { return channelsAreSafe(a, nodes) }
