package policy

import "fmt"

// AlgoNamed is ParseAlgo for words that are most likely no algorithm: it makes no
// error to explain that.
func AlgoNamed(s string) (Algo, bool) { return algoNames.parse(s) }

// ProtoNamed is the same for protocols.
func ProtoNamed(s string) (Proto, bool) { return protoNames.parse(s) }

// ParseAlgo reads an algorithm's name in any of the spellings in use.
func ParseAlgo(s string) (Algo, error) {
	if a, ok := AlgoNamed(s); ok {
		return a, nil
	}
	return 0, fmt.Errorf("%w)", algoNames.unknown("algorithm", s))
}

// ParseProto reads a protocol's name in any of the spellings in use.
func ParseProto(s string) (Proto, error) {
	if p, ok := ProtoNamed(s); ok {
		return p, nil
	}
	return 0, fmt.Errorf("%w)", protoNames.unknown("protocol", s))
}
