package ask

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Offers says which cells NCCL has for the calls. In Only and Never an algorithm or a protocol of -1 is any.
type Offers struct {
	Only, Never []nccl.Cell           // of those that its costs have; nothing in Only: all
	Micros      map[nccl.Cell]float32 // instead of its costs: all that it has
}

// limit makes of NCCL's table what a test says.
func (o *Offers) limit(table []float32) {
	for i := range table {
		at := CellAt(i)
		in := func(cells []nccl.Cell) bool {
			return slices.ContainsFunc(cells, func(c nccl.Cell) bool {
				return (c.Algo < 0 || c.Algo == at.Algo) && (c.Proto < 0 || c.Proto == at.Proto)
			})
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
