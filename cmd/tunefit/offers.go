package main

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// offers says which cells NCCL has for the calls.
type offers struct {
	only, never []cellName       // of those that its costs have; nothing in only: all
	micros      map[cell]float32 // instead of its costs: all that it has
}

// cellName names cells: -1 is any.
type cellName cell

func (n cellName) names(algo nccl.Algo, proto nccl.Proto) bool {
	return (n.algo < 0 || n.algo == algo) && (n.proto < 0 || n.proto == proto)
}

// limit makes of NCCL's table what a test says.
func (o *offers) limit(table []float32) {
	for i := range table {
		at := cellAt(i)
		in := func(names []cellName) bool {
			return slices.ContainsFunc(names, func(n cellName) bool { return n.names(at.algo, at.proto) })
		}
		if o.micros != nil {
			table[i] = nccl.Unavailable
			if micros, ok := o.micros[at]; ok {
				table[i] = micros
			}
		}
		if in(o.never) || len(o.only) > 0 && !in(o.only) {
			table[i] = nccl.Unavailable
		}
	}
}
