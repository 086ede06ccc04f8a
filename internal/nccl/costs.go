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

// Choose returns what NCCL chooses from the table, and what it costs; NoCell where nothing is
// available. Of cells of equal cost NCCL takes the first one, algorithm before protocol, and
// from Models on the last one.
func (t *CostTable) Choose(v Version) (Cell, float32) {
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
	return cellAt(cell, NumProtos), best.micros
}

// Own returns the cell that every release chooses from the table; NoCell where that is not
// known, or where there is nothing to choose from. tied says that several cells have the
// least cost: releases differ in which of them they choose.
func (c Costs) Own() (own Cell, tied bool) {
	if c.AvailableOnly {
		return NoCell, false
	}
	best := cheapest{first: -1, last: -1}
	for i, micros := range c.Micros {
		best.see(i, micros)
	}
	if best.first != best.last {
		return NoCell, true
	}
	return cellAt(best.first, c.NumProto), false
}

// Cheapest returns the cheapest available cell of a set, the first of equals; NoCell where
// there is none.
func (c Costs) Cheapest(has func(Cell) bool) Cell {
	best := cheapest{first: -1}
	for i, micros := range c.Micros {
		if has(cellAt(i, c.NumProto)) {
			best.see(i, micros)
		}
	}
	return cellAt(best.first, c.NumProto)
}

// cellAt returns the cell at a place of a flat table; NoCell for -1.
func cellAt(i, numProto int) Cell {
	if i < 0 {
		return NoCell
	}
	return Cell{Algo(i / numProto), Proto(i % numProto)}
}

// Index is the place of a cell in Micros.
func (c *Costs) Index(cell Cell) int { return int(cell.Algo)*c.NumProto + int(cell.Proto) }

// Offers reports whether NCCL can use a cell.
func (c *Costs) Offers(cell Cell) bool {
	return int(cell.Proto) < c.NumProto && c.Index(cell) < len(c.Micros) && available(c.Micros[c.Index(cell)])
}

// MakeCheapest returns the cost at which a cell beats all others: its own if it
// does so already, else the next number below the cheapest other one, so that
// there is no tie and the estimate stays believable. No positive cost beats a cell
// that costs 0: then ok is false.
func (c Costs) MakeCheapest(cell Cell) (micros float32, write, ok bool) {
	at := c.Index(cell)
	other := float32(math.MaxFloat32)
	for i, m := range c.Micros {
		if i != at && available(m) {
			other = min(other, m)
		}
	}
	switch {
	case c.AvailableOnly:
		return 0, true, true
	case c.Micros[at] < other:
		return c.Micros[at], false, true
	}
	micros = math.Nextafter32(other, 0)
	return micros, true, micros > 0
}

// Choosing returns the table with a cost for the cell at which NCCL chooses it: its
// own, if that does, else one just below all others. Where another cell costs nothing,
// there is none and the table stays as it is.
func (c Costs) Choosing(cell Cell) Costs {
	at := c.Index(cell)
	if at >= len(c.Micros) {
		return c
	}
	offered := c
	offered.Micros = slices.Clone(c.Micros)
	if !available(offered.Micros[at]) {
		offered.Micros[at] = math.MaxFloat32
	}
	if micros, _, ok := offered.MakeCheapest(cell); ok {
		offered.Micros[at] = micros
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
		switch {
		case !available(micros):
		case cellAt(i, c.NumProto).Algo == AlgoRing:
			ring = min(ring, micros)
		default:
			other = min(other, micros)
		}
	}
	return other < math.MaxFloat32 && ring < math.MaxFloat32 && ring > guardedRing*other
}
