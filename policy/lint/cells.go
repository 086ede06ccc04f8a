package lint

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// cells is a set of cells of the cost table that NCCL has today, as bits.
type cells uint32

func cellBit(c nccl.Cell) cells { return 1 << (int(c.Algo)*nccl.NumProtos + int(c.Proto)) }

func cellsOf(set policy.CellSet) (c cells) { return cellsWhere(set.Contains) }

func cellsWhere(has func(nccl.Cell) bool) (c cells) {
	for a, p := range nccl.Cells {
		if cell := (nccl.Cell{Algo: a, Proto: p}); has(cell) {
			c |= cellBit(cell)
		}
	}
	return c
}

// all lists the cells of the set.
func (c cells) all() (list []nccl.Cell) {
	for a, p := range nccl.Cells {
		if cell := (nccl.Cell{Algo: a, Proto: p}); c&cellBit(cell) != 0 {
			list = append(list, cell)
		}
	}
	return list
}

// String names the algorithms, and the protocols where not all are in.
func (c cells) String() string {
	var all []string
	for a := range nccl.Algo(nccl.NumAlgos) {
		var protos []string
		for p := range nccl.Proto(nccl.NumProtos) {
			if c&cellBit(nccl.Cell{Algo: a, Proto: p}) != 0 {
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
	onePerNode := onNode <= 1 &&
		(k.wants[policy.Nodes] < 0 || k.wants[policy.Ranks] < 0 || k.wants[policy.Nodes] == k.wants[policy.Ranks])
	fits := func(a nccl.Algo) bool {
		switch a {
		case nccl.AlgoCollNetDirect, nccl.AlgoCollNetChain:
			return onNode <= nccl.MaxDirectRanks
		case nccl.AlgoNVLS:
			return coll == nccl.CollAllReduce || onNode <= nccl.MaxNVLSRanks
		case nccl.AlgoNVLSTree:
			return k.wants[policy.Nodes] != 1
		case nccl.AlgoPAT:
			return onePerNode || k.wants[policy.Nodes] != 1 && k.nccl.Overlaps(since(nccl.PATOnManyRanks))
		}
		return true
	}
	return cellsWhere(func(c nccl.Cell) bool { return nccl.Offers(coll, c) && fits(c.Algo) })
}

// since holds the releases that have a change.
func since(c nccl.Change) nccl.Releases {
	return nccl.Releases{Min: nccl.Version(c), Max: nccl.AnyRelease.Max}
}

// offered is offered for all collectives that the row is for.
func (r *row) offered() (c cells) {
	for _, coll := range r.Colls() {
		c |= offered(coll, r.key)
	}
	return c
}
