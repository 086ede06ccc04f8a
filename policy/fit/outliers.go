package fit

import (
	"cmp"
	"math"
	"slices"
)

const (
	// outlierRatio is how far off an outlier is at least, in ln(us): a factor of
	// 1.5. Steps between sizes are real and common; a lone spike against its
	// neighbours in size and in channels is not.
	outlierRatio = 0.4055
	// outlierNoise is what an outlier's time is taken to be worth: a guess within
	// a factor of 1.6.
	outlierNoise = 0.5
	// fewDefaults are too few sizes to tell which one sticks out.
	fewDefaults = 4
)

// flagOutliers marks cells that stick out to the same side from the line between
// their neighbours in size and from the line between those in channels.
func (g *Group) flagOutliers() {
	least := max(outlierRatio, 6*g.Noise)
	for _, cells := range g.families() {
		channelsOf := func(c *Cell) uint64 { return uint64(c.Config.Channels) }
		bytesOf := func(c *Cell) uint64 { return c.Bytes }
		inSize := offLines(cells, channelsOf, bytesOf)
		inChannels := offLines(cells, bytesOf, channelsOf)
		for i := range cells {
			a, b := inSize[i], inChannels[i] // false comparisons where NaN
			cells[i].Outlier = math.Abs(a) > least && math.Abs(b) > least && (a > 0) == (b > 0)
		}
	}
}

// flagDefaultOutliers marks sizes at which the library's own choice took far less or
// far more than at the sizes around, which agree among themselves. A default that is bad
// over a range of sizes is not marked, nor is one that several sweeps confirm, or that
// took as long when it was forced: NCCL may really choose badly there.
func (g *Group) flagDefaultOutliers() {
	least := max(outlierRatio, 6*g.Noise)
	if len(g.Default) < fewDefaults {
		return
	}
	for i := range g.Default {
		others := slices.Delete(slices.Clone(g.Default[max(0, i-2):min(len(g.Default), i+3)]), min(i, 2), min(i, 2)+1)
		lone := true
		for k := range others {
			lone = lone && !(math.Abs(offLine(others, k)) > least/2) // NaN at the ends
		}
		g.Default[i].Outlier = lone && math.Abs(offNeighbours(g.Default, i)) > least && !g.confirmed(g.Default[i], least)
	}
}

// offNeighbours is offLine, and at the ends how much longer a smaller size took than
// the next larger one.
func offNeighbours(cells []Cell, i int) float64 {
	switch n := len(cells); {
	case i == 0:
		return max(0, math.Log(cells[0].Micros/cells[1].Micros))
	case i == n-1:
		return min(0, math.Log(cells[i].Micros/cells[i-1].Micros))
	}
	return offLine(cells, i)
}

// confirmed reports whether something else says that a default took so long.
func (g *Group) confirmed(d Cell, least float64) bool {
	forced, ok := g.at(d.Config, d.Bytes)
	return ok && math.Abs(math.Log(forced.Micros/d.Micros)) < least/2 || d.Sources > 1 && d.Apart == 0
}

// offLine is how far ln(us) of a cell is above the line between those before and after
// it, whatever their configurations; NaN where there are not two.
func offLine(cells []Cell, i int) float64 {
	if i < 1 || i+1 >= len(cells) {
		return math.NaN()
	}
	before, c, after := &cells[i-1], &cells[i], &cells[i+1]
	t := math.Log(float64(c.Bytes)/float64(before.Bytes)) / math.Log(float64(after.Bytes)/float64(before.Bytes))
	y0, y1 := math.Log(before.Micros), math.Log(after.Micros)
	return math.Log(c.Micros) - y0 - t*(y1-y0)
}

// offLines is how far ln(us) of each cell is above the line between its
// neighbours on the same line of the grid; NaN where there are not two.
func offLines(cells []Cell, line, at func(*Cell) uint64) []float64 {
	order := make([]int, len(cells))
	off := make([]float64, len(cells))
	for i := range order {
		order[i], off[i] = i, math.NaN()
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &cells[i], &cells[j]
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(at(a), at(b)))
	})
	for k := 1; k+1 < len(order); k++ {
		before, c, after := &cells[order[k-1]], &cells[order[k]], &cells[order[k+1]]
		if line(before) != line(c) || line(after) != line(c) {
			continue
		}
		x0, x, x1 := float64(at(before)), float64(at(c)), float64(at(after))
		t := math.Log(x/x0) / math.Log(x1/x0)
		y0, y1 := math.Log(before.Micros), math.Log(after.Micros)
		off[order[k]] = math.Log(c.Micros) - y0 - t*(y1-y0)
	}
	return off
}
