package fit

import "slices"

// Work is counted in what takes one core about a nanosecond. Bounds on it keep a
// million rows within seconds, however they are spread. It is counted, not timed,
// so that the same samples give the same model on every machine.
const (
	// A fit may take so much, and so much more for each cell.
	fitWork        = 5e9
	fitWorkPerCell = 7e3

	mostValidateWork = 3e9

	// Of linear algebra: to factorise and invert the covariance of n places, times
	// n cubed; to predict from them, times n squared for each prediction.
	factoriseWork = 0.7
	predictWork   = 0.12
	// covarianceWork is what one value of the covariance costs, tableWork what a
	// prediction costs that is rounded, written and compiled.
	covarianceWork = 11
	tableWork      = 500
	// validateCell and validateFold are what a cell and a fold cost besides:
	// baselines, resampling.
	validateCell = 2000
	validateFold = 1e6
)

// detail is how finely a group is fitted.
type detail struct {
	points  int     // most points of a family; its cells are merged until there are no more
	closest float64 // octaves; sizes closer together share a place on the axis
	widest  float64 // octaves; sizes farther apart get places between them
}

// axisStep is the widest gap in octaves between two sizes of an axis: straight
// lines in between then differ from the fit by less than its noise.
const axisStep = 1.0 / 3

// details to choose from, the finest first. What they cost is the subject of
// TestDetail: at most 0.8 % of the time of the choices on three real grids of 162 to
// 180 cells per family, 3 % on one with steps and wrong labels.
var (
	finest  = detail{320, 1.0 / 16, axisStep}
	details = []detail{finest, {256, 1.0 / 8, axisStep}, {192, 1.0 / 8, axisStep}, {160, 1.0 / 4, axisStep}, {128, 1.0 / 4, axisStep}, {96, 1.0 / 4, axisStep}}
	// rough ones are for tens of thousands of families that were measured at few
	// places each, where most of the work is in the axis. Merging loses them little;
	// the grids above would lose up to 2.3 % and 8 %.
	rough = []detail{{96, 1.0 / 2, 1}, {64, 1.0 / 2, 1}, {64, 1, 2}, {32, 1, 2}}
)

// load is the size of one layout before cells are merged.
type load struct{ cells, channels, families int }

// loads lists a group's layouts. Families measured at the same places share one.
func (g *Group) loads() []load {
	seen := map[uint64]int{}
	var all []load
	for _, cells := range g.families() {
		l := load{cells: len(cells), families: 1}
		hash := uint64(0)
		for i, c := range cells {
			if i == 0 || c.Config.Channels != cells[i-1].Config.Channels {
				l.channels++
			}
			for _, v := range [...]uint64{uint64(c.Config.Channels), c.Bytes, uint64(c.Reps), uint64(boolToInt(c.Outlier))} {
				hash = (hash ^ v) * 0x9E3779B97F4A7C15 // 2^64 / golden ratio: spreads bits
				hash ^= hash >> 32
			}
		}
		if i, ok := seen[hash]; ok {
			all[i].families++
			continue
		}
		seen[hash] = len(all)
		all = append(all, l)
	}
	return all
}

// work of fitting layouts with at most so many points each, and of predicting so
// many sizes.
func work(layouts []load, points, sizes int) float64 {
	sum := 0.0
	for _, l := range layouts {
		n, m := float64(min(l.cells, points)), float64(l.channels*sizes)
		sum += n*n*(factoriseWork*n+predictWork*m) + covarianceWork*n*(n/2+m) + tableWork*m*float64(l.families)
	}
	return sum
}

// within is the finest detail that keeps work within a budget, or the coarsest.
func within(budget float64, details []detail, workOf func(detail) float64) detail {
	for _, d := range details {
		if workOf(d) <= budget {
			return d
		}
	}
	return details[len(details)-1]
}

// mostFitWork is the bound on fitting groups.
func mostFitWork(groups []*Group) float64 {
	cells := 0
	for _, g := range groups {
		cells += len(g.Cells)
	}
	return fitWork + fitWorkPerCell*float64(cells)
}

// task is how one group is fitted and validated.
type task struct {
	axis      []uint64
	fitted    detail
	validated detail // zero: not, to bound the time
}

// plan shares the bounds on work out among groups. Those validated are the first
// in order, as many as the bound allows, and at least one.
func plan(groups []*Group) []task {
	layouts, sizes := make([][]load, len(groups)), make([][]uint64, len(groups))
	each(len(groups), nil, func(i int) {
		if len(groups[i].Cells) > 0 {
			layouts[i], sizes[i] = groups[i].loads(), groups[i].allSizes()
		}
	})
	fitted := within(mostFitWork(groups), slices.Concat(details, rough), func(d detail) float64 {
		sum := 0.0
		for i := range groups {
			sum += work(layouts[i], d.points, len(axisOf(sizes[i], d)))
		}
		return sum
	})
	validating := func(i int, d detail) float64 {
		const folds = 2 + mostChannelFolds
		cells := min(len(groups[i].Cells), mostValidatedCells)
		return folds * (work(layouts[i], d.points, mostTested) + validateCell*float64(cells) + validateFold)
	}
	validated := within(mostValidateWork, details, func(d detail) float64 {
		sum := 0.0
		for i := range groups {
			if layouts[i] != nil {
				sum += validating(i, d)
			}
		}
		return sum
	})
	validated.points = min(validated.points, fitted.points)
	tasks := make([]task, len(groups))
	spent, some := 0.0, false
	for i := range groups {
		if layouts[i] == nil {
			continue
		}
		tasks[i] = task{axis: axisOf(sizes[i], fitted), fitted: fitted}
		if spent += validating(i, validated); spent <= mostValidateWork || !some {
			tasks[i].validated, some = validated, true
		}
	}
	return tasks
}
