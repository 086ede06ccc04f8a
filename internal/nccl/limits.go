package nccl

// Limits of NCCL 2.30.7 (device.h).
const (
	MaxChannels    = 64
	MaxThreads     = 640 // per block
	MaxDirectRanks = 8   // ranks per node that CollNet can serve
	MaxNVLSRanks   = 32  // ranks per node that NVLS serves for AllGather and ReduceScatter

	WarpSize = 32
)

// Numbers of NCCL's for the CPUs whose times differ (graph.h, NCCL 2.30.7).
const (
	ArchX86 = 1
	ArchARM = 3
)

// Grain is the smallest chunk of a protocol in bytes. NCCL rounds a chunk down
// to a multiple of it; less than one grain becomes 0 and breaks the collective.
func (p Proto) Grain() uint64 {
	switch p {
	case ProtoLL:
		return 16
	case ProtoLL128:
		return 1920
	}
	return 512
}

// ChannelsCanBeSet reports whether a tuner may name a channel count for an algorithm. For CollNet, and for
// NVLS over several nodes, NCCL does not check it against what the communicator has (scheduleCollTasksToPlan
// in its src/enqueue.cc, 2.22 to 2.30). It checks that of NVLSTree.
func ChannelsCanBeSet(a Algo, nodes int) bool {
	switch a {
	case AlgoTree, AlgoRing, AlgoNVLSTree, AlgoPAT:
		return true
	case AlgoNVLS:
		return nodes == 1
	}
	return false
}

// ChannelsAreChecked reports whether NCCL checks a tuner's channel count against what the communicator has,
// wherever it uses it. Where it does not, a larger count crashes the job. A tuner cannot know the right count:
// NCCL does not tell it the limits that a communicator was created with (ncclConfig_t.maxCTAs).
func ChannelsAreChecked(coll Coll, a Algo, nodes int, uncheckedAllGather bool) bool {
	return ChannelsCanBeSet(a, nodes) && !(coll == CollAllGather && uncheckedAllGather)
}

// BusFactor is busbw/algbw of n ranks, from nccl-tests' PERFORMANCE.md.
func (c Coll) BusFactor(n float64) float64 {
	switch c {
	case CollAllReduce:
		return 2 * (n - 1) / n
	case CollAllGather, CollReduceScatter:
		return (n - 1) / n
	}
	return 1
}
