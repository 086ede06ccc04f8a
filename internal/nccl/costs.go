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

// TunerOnly is the value of a cell that NCCL offers to a tuner and to NCCL_ALGO, and never chooses by itself. It is no
// estimate.
const TunerOnly float32 = math.MaxFloat32 / 2

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

// Everything is a table in which every cell is available and NCCL's choice is not known.
func Everything() Costs {
	return Costs{Micros: make([]float32, NumAlgos*NumProtos), NumProto: NumProtos, AvailableOnly: true}
}

// available: NCCL never chooses a cell below zero, nor one that is not below
// FLT_MAX, the value its search starts from.
func available(micros float32) bool { return micros >= 0 && micros < math.MaxFloat32 }

// Costs is the table as a tuner is given it.
func (t *CostTable) Costs() Costs {
	c := Costs{NumProto: NumProtos}
	for _, row := range t {
		c.Micros = append(c.Micros, row[:]...)
	}
	return c
}

// least returns the first and the last of those cells of a set that have the least cost; NoCell if none is
// available. A nil set has all cells.
func (c Costs) least(has func(Cell) bool) (first, last Cell) {
	first, last = NoCell, NoCell
	least := float32(math.MaxFloat32)
	for i, micros := range c.Micros {
		cell := cellAt(i, c.NumProto)
		switch {
		case !available(micros) || has != nil && !has(cell):
		case micros < least:
			first, last, least = cell, cell, micros
		case micros == least:
			last = cell
		}
	}
	return first, last
}

// Choose returns what NCCL chooses from the table, and what it costs; NoCell where nothing is
// available. Of cells of equal cost NCCL takes the first one, algorithm before protocol, and
// from Models on the last one.
func (t *CostTable) Choose(v Version) (Cell, float32) {
	first, last := t.Costs().least(nil)
	switch {
	case !first.Known():
		return NoCell, Unavailable
	case v.Has(Models):
		return last, t[last.Algo][last.Proto]
	}
	return first, t[first.Algo][first.Proto]
}

// NCCLChoice returns the cell that every release chooses from the table; NoCell where that is not
// known, or where there is nothing to choose from. tied says that several cells have the
// least cost: releases differ in which of them they choose.
func (c Costs) NCCLChoice() (choice Cell, tied bool) {
	if c.AvailableOnly {
		return NoCell, false
	}
	first, last := c.least(nil)
	if first != last {
		return NoCell, true
	}
	return first, false
}

// Cheapest returns the cheapest available cell of a set, the first of equals; NoCell where
// there is none.
func (c Costs) Cheapest(has func(Cell) bool) Cell {
	first, _ := c.least(has)
	return first
}

// cellAt returns the cell at a place of a flat table.
func cellAt(i, numProto int) Cell { return Cell{Algo(i / numProto), Proto(i % numProto)} }

// Index is the place of a cell in Micros.
func (c *Costs) Index(cell Cell) int { return int(cell.Algo)*c.NumProto + int(cell.Proto) }

// Offers reports whether NCCL can use a cell.
func (c *Costs) Offers(cell Cell) bool {
	return int(cell.Proto) < c.NumProto && c.Index(cell) < len(c.Micros) && available(c.Micros[c.Index(cell)])
}

// MakeCheapest returns the cost at which a cell beats all others: its own if it does so already, else the next
// number below the cheapest other one, so that there is no tie and the estimate stays believable. ok is false
// if another cell costs 0, because no positive cost beats that.
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

// Choosing returns the table, changed if necessary so that NCCL chooses the cell: its cost is then just below
// all others. If another cell costs nothing, no cost does that, and the table stays as it is.
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
