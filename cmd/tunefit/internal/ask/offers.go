package ask

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Offers says which cells NCCL has for the calls.
type Offers struct {
	Only, Never []CellName            // of those that its costs have; nothing in only: all
	Micros      map[nccl.Cell]float32 // instead of its costs: all that it has
}

// CellName names cells: -1 is any.
type CellName nccl.Cell

func (n CellName) names(c nccl.Cell) bool {
	return (n.Algo < 0 || n.Algo == c.Algo) && (n.Proto < 0 || n.Proto == c.Proto)
}

// limit makes of NCCL's table what a test says.
func (o *Offers) limit(table []float32) {
	for i := range table {
		at := CellAt(i)
		in := func(names []CellName) bool {
			return slices.ContainsFunc(names, func(n CellName) bool { return n.names(at) })
		}
		if o.Micros != nil {
			table[i] = nccl.Unavailable
			if micros, ok := o.Micros[at]; ok {
				table[i] = micros
			}
		}
		if in(o.Never) || len(o.Only) > 0 && !in(o.Only) {
			table[i] = nccl.Unavailable
		}
	}
}
