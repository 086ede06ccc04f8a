package lint

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// cells is a set of cells of the cost table that NCCL has today, as bits.
type cells uint32

func cellBit(a policy.Algo, p policy.Proto) cells { return 1 << (int(a)*tuning.NumProtos + int(p)) }

func cellsOf(set policy.CellSet) (c cells) { return cellsWhere(set.Contains) }

func cellsWhere(has func(policy.Algo, policy.Proto) bool) (c cells) {
	for a := range policy.Algo(tuning.NumAlgos) {
		for p := range policy.Proto(tuning.NumProtos) {
			if has(a, p) {
				c |= cellBit(a, p)
			}
		}
	}
	return c
}

// each calls f for every cell of the set.
func (c cells) each(f func(policy.Algo, policy.Proto)) {
	cellsWhere(func(a policy.Algo, p policy.Proto) bool {
		if c&cellBit(a, p) != 0 {
			f(a, p)
		}
		return false
	})
}

// String names the algorithms, and the protocols where not all are in.
func (c cells) String() string {
	var all []string
	for a := range policy.Algo(tuning.NumAlgos) {
		var protos []string
		for p := range policy.Proto(tuning.NumProtos) {
			if c&cellBit(a, p) != 0 {
				protos = append(protos, p.String())
			}
		}
		switch len(protos) {
		case 0:
		case tuning.NumProtos:
			all = append(all, a.String())
		default:
			all = append(all, a.String()+"/"+strings.Join(protos, "|"))
		}
	}
	return strings.Join(all, ", ")
}

// offered returns the cells that NCCL offers on some machine for a collective and
// the communicators of a key: what NCCL 2.21 to 2.30 model and allow at all, with
// the limits that follow from the numbers of nodes and ranks.
func offered(coll policy.Coll, k key) cells {
	perNode := k.perNode // the most ranks on a node, or fewer
	if perNode == uneven {
		perNode = k.ranks/k.nodes + 1
	}
	// PAT wants one rank on every node.
	onePerNode := perNode <= 1 && (k.nodes < 0 || k.ranks < 0 || k.nodes == k.ranks)
	collNet := perNode <= tuning.MaxDirectRanks
	oneNode := k.nodes == 1
	allReduce := coll == policy.CollAllReduce
	gathers := coll == policy.CollAllGather || coll == policy.CollReduceScatter
	return cellsWhere(func(a policy.Algo, p policy.Proto) bool {
		simple := p == policy.ProtoSimple
		switch a {
		case policy.AlgoRing:
			return true
		case policy.AlgoTree:
			return allReduce
		case policy.AlgoCollNetDirect:
			return simple && collNet && (allReduce || gathers)
		case policy.AlgoCollNetChain:
			return simple && collNet && allReduce
		case policy.AlgoNVLS:
			return simple && (allReduce || gathers && perNode <= tuning.MaxNVLSRanks)
		case policy.AlgoNVLSTree:
			return simple && allReduce && !oneNode
		case policy.AlgoPAT:
			return simple && gathers && onePerNode
		}
		return true
	})
}

// offered is offered for all collectives that the row is for.
func (r *row) offered() (c cells) {
	for _, coll := range r.Colls() {
		c |= offered(coll, r.key)
	}
	return c
}
