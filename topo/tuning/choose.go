package tuning

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// Choice is what NCCL would run for one collective.
type Choice struct {
	nccl.Config         // NoCell where none is available; at most that many channels, 1..64
	Micros      float32 // predicted time in microseconds
	Warps       int     // warps per block
}

// Choose returns NCCL's choice.
func (t *Tuning) Choose(coll nccl.Coll, bytes int64, pipeOps int) Choice {
	return t.ChooseFrom(t.Table(coll, bytes, pipeOps), bytes)
}

// ChooseFrom returns NCCL's choice from a table: the cell that it chooses, then channels and warps by size.
func (t *Tuning) ChooseFrom(table nccl.CostTable, bytes int64) (c Choice) {
	if c.Cell, c.Micros = table.Choose(t.NCCL); c.Known() {
		c.Channels, c.Warps = t.ChannelsAndWarps(c.Algo, c.Proto, bytes)
	}
	return c
}

// Channels is how many channels an algorithm has at most.
func (t *Tuning) Channels(algo nccl.Algo) int {
	switch {
	case algo == nccl.AlgoNVLS && t.Nodes > 1 && t.NCCL.Has(nccl.CappedNVLSChannels), t.isSharedPAT(algo):
		return min(t.NChannels, t.NVLSChannels)
	case algo == nccl.AlgoNVLS, algo == nccl.AlgoNVLSTree:
		return t.NVLSChannels
	}
	return t.NChannels
}

// isSharedPAT reports whether the algorithm is PAT with several ranks on a node, which has rules of its own.
func (t *Tuning) isSharedPAT(algo nccl.Algo) bool {
	return algo == nccl.AlgoPAT && t.Ranks != t.Nodes && t.NCCL.Has(nccl.Models)
}

// ChannelsAndWarps returns NCCL's number of channels, and of warps per block, for a collective of that size. Small
// sizes first lose channels, then threads.
func (t *Tuning) ChannelsAndWarps(algo nccl.Algo, proto nccl.Proto, bytes int64) (channels, warps int) {
	channels = t.Channels(algo)
	threads := t.MaxThreads[algo][proto]
	threshold := t.ThreadThresholds[algo][proto]
	tooSmall := func() bool { return bytes < int64(channels)*int64(threads)*threshold }

	switch {
	case algo == nccl.AlgoCollNetDirect:
		channels = t.collNetChannels(channels, threads, threshold, bytes)
	case algo == nccl.AlgoNVLS, algo == nccl.AlgoNVLSTree, t.isSharedPAT(algo): // the same number at any size
	default:
		for channels >= 2 && tooSmall() {
			channels--
		}
		for threads%128 == 0 && threads > 0 && tooSmall() {
			threads /= 2
		}
	}
	if proto == nccl.ProtoSimple {
		switch algo {
		case nccl.AlgoRing:
			threads += nccl.WarpSize // one more warp for synchronisation
		case nccl.AlgoTree:
			threads += 4 * nccl.WarpSize
		}
	}
	if threads/nccl.WarpSize < 3 {
		threads = 3 * nccl.WarpSize
	}
	if algo == nccl.AlgoTree || algo == nccl.AlgoPAT {
		threads = nccl.MaxThreads
	}
	return channels, threads / nccl.WarpSize
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
