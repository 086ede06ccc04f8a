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
