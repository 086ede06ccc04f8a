package nccl

// Versions of the tuner ABI by what they brought.
const (
	ABINoCosts = 2 // tells which cells there are but not what they cost
	ABIRegBuff = 4 // tells whether buffers are registered
	ABIComms   = 5 // tells the communicator's number, NVLink domains and constants
	ABIChunks  = 6 // asks for chunk sizes
	NewestABI  = 7 // that is known here
)

// abis are the versions of the tuner ABI by the release that brought them (nccl_tuner.h).
var abis = []struct {
	since Version
	abi   int
}{{23206, 7}, {23003, 6}, {22803, 5}, {22403, 4}, {22203, 3}, {Oldest, 2}}

// WithTuner holds the releases from the first that has a tuner here to the newest that is known here at all.
var WithTuner = Releases{Oldest, abis[0].since}

// ABI returns the newest version of the tuner ABI that both the release and a library have; 0 for none. If has
// is nil, the library has all.
func (v Version) ABI(has func(abi int) bool) int {
	for _, t := range abis {
		if v >= t.since && (has == nil || has(t.abi)) {
			return t.abi
		}
	}
	return 0
}

// AvailableV2 is the table of ABI v2 (ABINoCosts), where NCCL tells only whether there is a network that reduces, and
// NVLS. NCCL 2.21 does what a tuner says without a check, so only what it has in every build and on every machine
// counts as available: LL128 does not, because on some machines it corrupts data.
func AvailableV2(coll Coll, nodes int, collNet, nvls bool) Costs {
	c := Costs{Micros: make([]float32, int(AlgoPAT)*NumProtos), NumProto: NumProtos, AvailableOnly: true}
	allReduce, oneNode := coll == CollAllReduce, nodes == 1
	for i := range c.Micros {
		cell := cellAt(i, NumProtos)
		has := cell.Proto != ProtoLL128
		switch cell.Algo {
		case AlgoCollNetDirect, AlgoCollNetChain:
			has = collNet && allReduce
		case AlgoNVLS:
			has = nvls && (oneNode || collNet && allReduce)
		case AlgoNVLSTree:
			has = nvls && !oneNode
		}
		if !has || !Offers(coll, cell) {
			c.Micros[i] = Unavailable
		}
	}
	return c
}
