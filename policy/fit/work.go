package fit

// Work is counted in multiplications of the linear algebra; one core does about
// a billion a second, all else included. Bounds on it keep a million rows within
// seconds, however they are spread. It is counted, not timed, so that the same
// samples give the same model on every machine.
const (
	mostFitWork      = 14e9
	mostValidateWork = 3e9
	// covarianceWork is what one value of the covariance costs.
	covarianceWork = 60
	// validateCell and validateFold are what a cell and a fold cost besides linear
	// algebra: baselines, resampling.
	validateCell = 2000
	validateFold = 1e6
)

// detail is how finely a group is fitted.
type detail struct {
	points  int     // most points of a family; its cells are merged until there are no more
	closest float64 // octaves; sizes closer together share a place on the axis
}

// details to choose from, the finest first. On three real grids of 162 to 180 cells
// per family the coarsest adds 0.5 to 0.8 % to the time of the choices, on one with
// steps and wrong labels 2.3 %: see TestDetail.
var (
	finest  = detail{320, 1.0 / 16}
	details = []detail{finest, {256, 1.0 / 8}, {192, 1.0 / 8}, {160, 1.0 / 4}, {128, 1.0 / 4}, {96, 1.0 / 4}}
)

// load is the size of one layout before cells are merged.
type load struct{ cells, channels int }

// loads lists a group's layouts. Families measured at the same places count once.
func (g *Group) loads() []load {
	seen := map[uint64]bool{}
	var all []load
	for _, cells := range g.families() {
		l := load{cells: len(cells)}
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
		if !seen[hash] {
			seen[hash] = true
			all = append(all, l)
		}
	}
	return all
}

// work of fitting layouts with at most so many points each, and of predicting so
// many sizes.
func work(layouts []load, points, sizes int) float64 {
	sum := 0.0
	for _, l := range layouts {
		n, m := float64(min(l.cells, points)), float64(l.channels*sizes)
		sum += n*n*(n+m/2) + covarianceWork*n*(n/2+m)
	}
	return sum
}

// within is the finest detail that keeps work within a budget, or the coarsest.
func within(budget float64, workOf func(detail) float64) detail {
	for _, d := range details {
		if workOf(d) <= budget {
			return d
		}
	}
	return details[len(details)-1]
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
	fitted := within(mostFitWork, func(d detail) float64 {
		sum := 0.0
		for i := range groups {
			sum += work(layouts[i], d.points, len(axisOf(sizes[i], d.closest)))
		}
		return sum
	})
	validating := func(i int, d detail) float64 {
		const folds = 2 + mostChannelFolds
		cells := min(len(groups[i].Cells), mostValidatedCells)
		return folds * (work(layouts[i], d.points, mostTested) + validateCell*float64(cells) + validateFold)
	}
	validated := within(mostValidateWork, func(d detail) float64 {
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
		tasks[i] = task{axis: axisOf(sizes[i], fitted.closest), fitted: fitted}
		if spent += validating(i, validated); spent <= mostValidateWork || !some {
			tasks[i].validated, some = validated, true
		}
	}
	return tasks
}
