package simulate

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Tuning is NCCL's cost model of one communicator. All that the package uses of
// it is in this file.
type Tuning = tuning.Tuning

// costs asks a Tuning in the terms of package policy.
type costs struct{ t *Tuning }

// cell is an algorithm with a protocol, run for one collective.
type cell struct {
	coll  policy.Coll
	algo  policy.Algo
	proto policy.Proto
}

// colls are all collectives, in NCCL's order.
func colls() (all []policy.Coll) {
	for c := range tuning.NumColls {
		all = append(all, policy.Coll(c))
	}
	return all
}

// cells returns what NCCL offers for a collective, in the order ring, tree, then
// the others as NCCL numbers them, which is how people sweep.
func (c costs) cells(coll policy.Coll) (all []cell) {
	table := c.t.Table(int(coll), 1<<20, 1)
	algos := []int{tuning.AlgoRing, tuning.AlgoTree}
	for a := range tuning.NumAlgos {
		if a != tuning.AlgoRing && a != tuning.AlgoTree {
			algos = append(algos, a)
		}
	}
	for _, a := range algos {
		for p := range tuning.NumProtos {
			if table[a][p] >= 0 {
				all = append(all, cell{coll, policy.Algo(a), policy.Proto(p)})
			}
		}
	}
	return all
}

// latency is in microseconds.
func (c costs) latency(x cell) float64 { return float64(c.t.Latencies[x.coll][x.algo][x.proto]) }

// bandwidth is in GB/s of the collective's bytes; 0: not offered.
func (c costs) bandwidth(x cell) float64 { return float64(c.t.Bandwidths[x.coll][x.algo][x.proto]) }

func (c costs) nodes() int { return c.t.NNodes }
func (c costs) ranks() int { return c.t.NRanks }

// channels is how many channels the algorithm has at most.
func (c costs) channels(a policy.Algo) int {
	if a == policy.AlgoNVLS || a == policy.AlgoNVLSTree {
		return c.t.NVLSChannels
	}
	return c.t.NChannels
}

// choose returns what NCCL runs by itself. ok is false where nothing is offered.
func (c costs) choose(coll policy.Coll, bytes uint64) (x cell, channels int, ok bool) {
	choice := c.t.Choose(int(coll), int64(bytes), 1)
	if choice.Algo < 0 {
		return cell{}, 0, false
	}
	return cell{coll, policy.Algo(choice.Algo), policy.Proto(choice.Proto)}, choice.Channels, true
}
