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
