package lint

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// cells is a set of cells of the cost table that NCCL has today, as bits.
type cells uint32

func cellBit(a nccl.Algo, p nccl.Proto) cells { return 1 << (int(a)*nccl.NumProtos + int(p)) }

func cellsOf(set policy.CellSet) (c cells) { return cellsWhere(set.Contains) }

func cellsWhere(has func(nccl.Algo, nccl.Proto) bool) (c cells) {
	for a, p := range nccl.Cells {
		if has(a, p) {
			c |= cellBit(a, p)
		}
	}
	return c
}

// each calls f for every cell of the set.
func (c cells) each(f func(nccl.Algo, nccl.Proto)) {
	for a, p := range nccl.Cells {
		if c&cellBit(a, p) != 0 {
			f(a, p)
		}
	}
}

// String names the algorithms, and the protocols where not all are in.
func (c cells) String() string {
	var all []string
	for a := range nccl.Algo(nccl.NumAlgos) {
		var protos []string
		for p := range nccl.Proto(nccl.NumProtos) {
			if c&cellBit(a, p) != 0 {
				protos = append(protos, p.String())
			}
		}
		switch len(protos) {
		case 0:
		case nccl.NumProtos:
			all = append(all, a.String())
		default:
			all = append(all, a.String()+"/"+strings.Join(protos, "|"))
		}
	}
	return strings.Join(all, ", ")
}

// offered returns the cells that NCCL offers on some machine for a collective and the communicators
// of a key: what NCCL 2.21 to 2.31 model and allow at all, with the limits that follow from the
// numbers of nodes and ranks.
func offered(coll nccl.Coll, k key) cells {
	onNode := k.wants[policy.RanksPerNode] // the most ranks on a node, or fewer
	if onNode == uneven {
		onNode = k.wants[policy.Ranks]/k.wants[policy.Nodes] + 1
	}
	// PAT wants one rank on every node, or since 2.31 several nodes.
	onePerNode := onNode <= 1 && (k.wants[policy.Nodes] < 0 || k.wants[policy.Ranks] < 0 || k.wants[policy.Nodes] == k.wants[policy.Ranks])
	fits := func(a nccl.Algo) bool {
		switch a {
		case nccl.AlgoCollNetDirect, nccl.AlgoCollNetChain:
			return onNode <= nccl.MaxDirectRanks
		case nccl.AlgoNVLS:
			return coll == nccl.CollAllReduce || onNode <= nccl.MaxNVLSRanks
		case nccl.AlgoNVLSTree:
			return k.wants[policy.Nodes] != 1
		case nccl.AlgoPAT:
			return onePerNode || k.wants[policy.Nodes] != 1
		}
		return true
	}
	return cellsWhere(func(a nccl.Algo, p nccl.Proto) bool { return nccl.Offers(coll, a, p) && fits(a) })
}

// offered is offered for all collectives that the row is for.
func (r *row) offered() (c cells) {
	for _, coll := range r.Colls() {
		c |= offered(coll, r.key)
	}
	return c
}
