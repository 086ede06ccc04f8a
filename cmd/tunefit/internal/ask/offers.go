package ask

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Offers says which cells NCCL has for the calls.
type Offers struct {
	Never  []nccl.Cell           // what it does not have; an algorithm or a protocol of -1 is any
	Micros map[nccl.Cell]float32 // all that it has, instead of its estimates; empty: what these have
}

// limit changes NCCL's table to what a test says.
func (o *Offers) limit(table []float32) {
	for i := range table {
		at := CellAt(i)
		if len(o.Micros) > 0 {
			table[i] = nccl.Unavailable
			if micros, ok := o.Micros[at]; ok {
				table[i] = micros
			}
		}
		if slices.ContainsFunc(o.Never, func(c nccl.Cell) bool {
			return (c.Algo < 0 || c.Algo == at.Algo) && (c.Proto < 0 || c.Proto == at.Proto)
		}) {
			table[i] = nccl.Unavailable
		}
	}
}
