package tuning

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/release"
)

// Choice is what NCCL would run for one collective.
type Choice struct {
	Algo, Proto int     // NCCL's numbers; both -1 when no cell is available
	Micros      float32 // predicted time in microseconds
	Channels    int     // at most that many channels, 1..64
	Warps       int     // warps per block
}

// Limits of NCCL 2.30.7 (device.h).
const (
	MaxChannels    = 64
	MaxThreads     = 640 // per block
	MaxDirectRanks = 8   // ranks per node that CollNet can serve
	MaxNVLSRanks   = 32  // ranks per node that NVLS serves for AllGather and ReduceScatter

	warpSize = 32
)

// Choose returns what NCCL would run without a tuner.
func (t *Tuning) Choose(coll int, bytes int64, pipeOps int) Choice {
	return t.ChooseFrom(t.Table(coll, bytes, pipeOps), bytes)
}

// ChooseFrom returns what NCCL would run given that table: the smallest cell that is not negative, the first one on
// a tie (algorithm before protocol; the last one from release.Models on), then channels and warps by size.
func (t *Tuning) ChooseFrom(table CostTable, bytes int64) Choice {
	best := Choice{Algo: -1, Proto: -1, Micros: math.MaxFloat32}
	lastWins := t.NCCL.Has(release.Models)
	for a := range table {
		for p, us := range table[a] {
			if us >= 0 && (us < best.Micros || us == best.Micros && lastWins && best.Algo >= 0) {
				best.Algo, best.Proto, best.Micros = a, p, us
			}
		}
	}
	if best.Algo < 0 {
		return Choice{Algo: -1, Proto: -1, Micros: Unavailable}
	}
	best.Channels, best.Warps = t.ChannelsAndWarps(best.Algo, best.Proto, bytes)
	return best
}

// ChannelsAndWarps returns how many channels and warps per block NCCL gives a collective of that size when nobody
// asks for something else: small sizes first lose channels, then threads.
func (t *Tuning) ChannelsAndWarps(algo, proto int, bytes int64) (channels, warps int) {
	channels = t.NChannels
	threads := t.MaxThreads[algo][proto]
	threshold := t.ThreadThresholds[algo][proto]
	tooSmall := func() bool { return bytes < int64(channels)*int64(threads)*threshold }

	switch algo {
	case AlgoCollNetDirect:
		channels = t.collNetChannels(channels, threads, threshold, bytes)
	case AlgoNVLS, AlgoNVLSTree:
		channels = t.NVLSChannels
		if algo == AlgoNVLS && t.NNodes > 1 && t.NCCL.Has(release.CappedNVLSChannels) {
			channels = min(channels, t.NChannels)
		}
	case AlgoPAT:
		if t.NCCL.Has(release.Models) && t.NRanks != t.NNodes {
			channels = min(channels, t.NVLSChannels)
			break
		}
		fallthrough
	default:
		for channels >= 2 && tooSmall() {
			channels--
		}
		for threads%128 == 0 && threads > 0 && tooSmall() {
			threads /= 2
		}
	}
	if proto == ProtoSimple {
		switch algo {
		case AlgoRing:
			threads += warpSize // one more warp for synchronisation
		case AlgoTree:
			threads += 4 * warpSize
		}
	}
	if threads/warpSize < 3 {
		threads = 3 * warpSize
	}
	if algo == AlgoTree || algo == AlgoPAT {
		threads = MaxThreads
	}
	return channels, threads / warpSize
}

// collNetChannels lowers the channels in stages (16, 8, 4, 2, 1); at one and a half times a stage the threshold
// halves, for good.
func (t *Tuning) collNetChannels(channels, threads int, threshold, bytes int64) int {
	for stage := 16; stage >= 1; stage /= 2 {
		for {
			if bytes >= int64(channels)*int64(threads)*int64(t.CollNetHeads)*threshold {
				return channels
			}
			if channels <= stage {
				break
			}
			if channels == stage+stage/2 {
				threshold /= 2
			}
			channels--
		}
	}
	return channels
}
