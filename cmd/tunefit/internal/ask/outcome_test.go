package ask

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// NCCL 2.21 tells a tuner only whether there is NVLS and a network that reduces, and does what the tuner says
// unchecked: no row may get what is not there.
func TestAvailableToABIWithoutCosts(t *testing.T) {
	const plain, trees = "ring/ll ring/simple", "tree/ll tree/simple ring/ll ring/simple"
	const collNet = " collnet_direct/simple collnet_chain/simple"
	for _, c := range []struct {
		coll  nccl.Coll
		nodes int
		has   []nccl.Algo
		want  string
	}{
		{nccl.CollBroadcast, 1, []nccl.Algo{nccl.AlgoNVLS, nccl.AlgoCollNetChain}, plain},
		{nccl.CollAllReduce, 1, nil, trees},
		{nccl.CollAllReduce, 1, []nccl.Algo{nccl.AlgoNVLS}, trees + " nvls/simple"},
		{nccl.CollAllReduce, 1, []nccl.Algo{nccl.AlgoCollNetChain}, trees + collNet},
		{nccl.CollAllReduce, 2, nil, trees},
		{nccl.CollAllReduce, 2, []nccl.Algo{nccl.AlgoNVLSTree}, trees + " nvls_tree/simple"},
		{nccl.CollAllReduce, 2, []nccl.Algo{nccl.AlgoCollNetChain}, trees + collNet},
		{nccl.CollAllReduce, 2, []nccl.Algo{nccl.AlgoCollNetChain, nccl.AlgoNVLS},
			trees + collNet + " nvls/simple nvls_tree/simple"},
		{nccl.CollAllGather, 1, []nccl.Algo{nccl.AlgoNVLS}, plain + " nvls/simple"},
		{nccl.CollAllGather, 1, []nccl.Algo{nccl.AlgoCollNetChain}, plain},
		{nccl.CollReduceScatter, 2, []nccl.Algo{nccl.AlgoNVLS, nccl.AlgoCollNetChain}, plain},
	} {
		table := make([]float32, nccl.NumAlgos*nccl.NumProtos)
		for i := range table {
			table[i] = nccl.Unavailable
		}
		for _, algo := range c.has {
			table[int(algo)*nccl.NumProtos+int(nccl.ProtoSimple)] = 10
		}
		q := Question{Call: nccl.Call{Coll: c.coll, Bytes: 1 << 20},
			Comm: policy.Comm{Comm: nccl.Comm{Nodes: c.nodes, Ranks: 8 * c.nodes}}, PipeOps: 1}
		var got []string
		for i, cost := range q.query(table, nccl.ABINoCosts).Costs.Micros {
			if cost >= 0 {
				got = append(got, nccl.Algo(i/nccl.NumProtos).String()+"/"+nccl.Proto(i%nccl.NumProtos).String())
			}
		}
		if all := strings.Join(got, " "); all != c.want {
			t.Errorf("%s on %d nodes with %v: %s\nwant %s", c.coll, c.nodes, c.has, all, c.want)
		}
	}
}
