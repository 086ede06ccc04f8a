package nccl

import (
	"math"
	"slices"
)

// PerCell is a value for each cell of the cost table.
type PerCell[T any] [NumAlgos][NumProtos]T

// CostTable holds NCCL's predicted time in microseconds per algorithm and protocol. It has the shape of the table that
// NCCL hands to a tuner.
type CostTable PerCell[float32]

// Unavailable is the value of a cell that NCCL does not offer.
const Unavailable float32 = -1

// Cells yields all cells of the cost table, row by row.
func Cells(yield func(Algo, Proto) bool) {
	for a := range Algo(NumAlgos) {
		for p := range Proto(NumProtos) {
			if !yield(a, p) {
				return
			}
		}
	}
}

// Costs is a cost table as a tuner is given it: some releases have fewer algorithms, and
// later ones may have more.
type Costs struct {
	Micros   []float32 // rows one after the other
	NumProto int
	// AvailableOnly says that the cells tell which are available but not what
	// they cost, as with ABINoCosts.
	AvailableOnly bool
}

// Everything is a table on which all is available and nothing is known of NCCL's own pick.
func Everything() Costs {
	return Costs{Micros: make([]float32, NumAlgos*NumProtos), NumProto: NumProtos, AvailableOnly: true}
}

// available: NCCL never chooses a cell below zero, nor one that is not below
// FLT_MAX, the value its search starts from.
func available(micros float32) bool { return micros >= 0 && micros < math.MaxFloat32 }

// cheapest is what NCCL's search for the least cost finds, cell after cell: the first
// and the last of the cells that have it.
type cheapest struct {
	first, last int // -1: none is available
	micros      float32
}

func (c *cheapest) see(cell int, micros float32) {
	switch {
	case !available(micros):
	case c.first < 0 || micros < c.micros:
		*c = cheapest{cell, cell, micros}
	case micros == c.micros:
		c.last = cell
	}
}

// Choose returns what NCCL chooses from the table by itself; algo and proto are -1 where
// nothing is available. Of cells of equal cost it takes the first one, algorithm before
// protocol, and from Models on the last one.
func (t *CostTable) Choose(v Version) (algo Algo, proto Proto, micros float32) {
	best := cheapest{-1, -1, Unavailable}
	for a, row := range t {
		for p, us := range row {
			best.see(a*NumProtos+p, us)
		}
	}
	cell := best.first
	if v.Has(Models) {
		cell = best.last
	}
	algo, proto = split(cell, NumProtos)
	return algo, proto, best.micros
}

// Own returns the cell that any release chooses from the table by itself; -1 where that
// is not known, or where there is nothing to choose from. tied says that it is among
// cells of equal cost, of which releases take different ones.
func (c Costs) Own() (algo Algo, proto Proto, tied bool) {
	if c.AvailableOnly {
		return -1, -1, false
	}
	best := cheapest{first: -1, last: -1}
	for i, micros := range c.Micros {
		best.see(i, micros)
	}
	if best.first != best.last {
		return -1, -1, true
	}
	algo, proto = split(best.first, c.NumProto)
	return algo, proto, false
}

// Cheapest returns the cheapest available cell of a set, the first of equals; -1 where
// there is none.
func (c Costs) Cheapest(has func(Algo, Proto) bool) (Algo, Proto) {
	best := cheapest{first: -1}
	for i, micros := range c.Micros {
		if has(split(i, c.NumProto)) {
			best.see(i, micros)
		}
	}
	return split(best.first, c.NumProto)
}

func split(cell, numProto int) (Algo, Proto) {
	if cell < 0 {
		return -1, -1
	}
	return Algo(cell / numProto), Proto(cell % numProto)
}

// Cell is the place of a cell in Micros.
func (c *Costs) Cell(a Algo, p Proto) int { return int(a)*c.NumProto + int(p) }

// Offers reports whether NCCL can use a cell.
func (c *Costs) Offers(a Algo, p Proto) bool {
	return int(p) < c.NumProto && c.Cell(a, p) < len(c.Micros) && available(c.Micros[c.Cell(a, p)])
}

// MakeCheapest returns the cost at which a cell beats all others: its own if it
// does so already, else the next number below the cheapest other one, so that
// there is no tie and the estimate stays believable. No positive cost beats a cell
// that costs 0: then ok is false.
func (c Costs) MakeCheapest(a Algo, p Proto) (micros float32, write, ok bool) {
	cell := c.Cell(a, p)
	other := float32(math.MaxFloat32)
	for i, m := range c.Micros {
		if i != cell && available(m) {
			other = min(other, m)
		}
	}
	switch {
	case c.AvailableOnly:
		return 0, true, true
	case c.Micros[cell] < other:
		return c.Micros[cell], false, true
	}
	micros = math.Nextafter32(other, 0)
	return micros, true, micros > 0
}

// Choosing returns the table with a cost for the cell at which NCCL chooses it: its
// own, if that does, else one just below all others. Where another cell costs nothing,
// there is none and the table stays as it is.
func (c Costs) Choosing(a Algo, p Proto) Costs {
	cell := c.Cell(a, p)
	if cell >= len(c.Micros) {
		return c
	}
	offered := c
	offered.Micros = slices.Clone(c.Micros)
	if !available(offered.Micros[cell]) {
		offered.Micros[cell] = math.MaxFloat32
	}
	if micros, _, ok := offered.MakeCheapest(a, p); ok {
		offered.Micros[cell] = micros
		return offered
	}
	return c
}

// guardedRing: NCCL multiplies ring's costs by 1024 where FP8 sums would lose
// precision. No measured pair of configurations is this far apart.
const guardedRing = 250

// RingIsGuarded reports NCCL's precision guard: every ring cell far above the
// cheapest other one.
func (c Costs) RingIsGuarded() bool {
	if c.AvailableOnly {
		return false
	}
	ring, other := float32(math.MaxFloat32), float32(math.MaxFloat32)
	for i, micros := range c.Micros {
		switch a, _ := split(i, c.NumProto); {
		case !available(micros):
		case a == AlgoRing:
			ring = min(ring, micros)
		default:
			other = min(other, micros)
		}
	}
	return other < math.MaxFloat32 && ring < math.MaxFloat32 && ring > guardedRing*other
}
