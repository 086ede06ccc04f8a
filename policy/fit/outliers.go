package fit

import "math"

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
		bySize := newAxis(cells, func(c Cell) (line, at uint64) { return uint64(c.Config.Channels), c.Bytes })
		byChannels := newAxis(cells, func(c Cell) (line, at uint64) { return c.Bytes, uint64(c.Config.Channels) })
		for i := range cells {
			a, ok1 := bySize.offLine(i)
			b, ok2 := byChannels.offLine(i)
			cells[i].Outlier = ok1 && ok2 && math.Abs(a) > least && math.Abs(b) > least && (a > 0) == (b > 0)
		}
	}
}

// axis finds a cell's neighbours in one direction.
type axis struct {
	cells []Cell
	place func(Cell) (line, at uint64)
	next  map[[2]uint64]int // cell by line and rank on it
	rank  []int
}

func newAxis(cells []Cell, place func(Cell) (line, at uint64)) *axis {
	a := &axis{cells: cells, place: place, next: make(map[[2]uint64]int, len(cells)), rank: make([]int, len(cells))}
	// Cells are ordered by channels, then size: on either kind of line they come
	// in ascending order.
	seen := map[uint64]int{}
	for i, c := range cells {
		line, _ := place(c)
		a.rank[i] = seen[line]
		a.next[[2]uint64{line, uint64(a.rank[i])}] = i
		seen[line]++
	}
	return a
}

// offLine is how far ln(us) of a cell is above the line between its neighbours.
func (a *axis) offLine(i int) (above float64, ok bool) {
	line, at := a.place(a.cells[i])
	before, ok1 := a.next[[2]uint64{line, uint64(a.rank[i] - 1)}]
	after, ok2 := a.next[[2]uint64{line, uint64(a.rank[i] + 1)}]
	if !ok1 || !ok2 {
		return 0, false
	}
	_, x0 := a.place(a.cells[before])
	_, x1 := a.place(a.cells[after])
	t := math.Log(float64(at)/float64(x0)) / math.Log(float64(x1)/float64(x0))
	y0, y1 := math.Log(a.cells[before].Micros), math.Log(a.cells[after].Micros)
	return math.Log(a.cells[i].Micros) - y0 - t*(y1-y0), true
}
