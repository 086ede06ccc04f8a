package trial

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Estimate derives all that evidence says from its blocks.
func (e *Evidence) Estimate() {
	e.fit = e.regress()
	e.Blocks, e.Steps = 0, 0
	for _, f := range e.Factors {
		for k := range f.Arms {
			f.Arms[k].Blocks = 0
		}
	}
	for _, run := range e.Runs {
		for _, b := range run.Blocks {
			e.count(b)
		}
	}
	for i, f := range e.Factors {
		for k := range f.Arms {
			a, c := &f.Arms[k], e.difference(i, k, 0)
			a.Effect, a.Error, a.Dropped = max(c.by, -1), c.err, ""
			a.Faster = f.Known() && c.most < -Surely*c.err
		}
	}
	lost, _ := e.cost(e.Runs...)
	e.LostSteps, e.LostError = lost.by, lost.err
	e.dropArms()
}

// difference is by how much an arm of a factor makes a step longer than another does.
func (e *Evidence) difference(factor, arm, than int) contrast {
	one := make([]int, len(e.Factors))
	one[factor] = arm
	times := e.indicators(one)
	one[factor] = than
	for i, is := range e.indicators(one) {
		times[i] -= is
	}
	return e.fit.contrast(times)
}

// cost is how many steps longer runs have taken than with NCCL's choice, and how many they are.
func (e *Evidence) cost(runs ...Run) (lost contrast, made float64) {
	times := e.indicators(make([]int, len(e.Factors)))
	for _, run := range runs {
		known := slices.ContainsFunc(run.Blocks, func(b Block) bool { return b.Made > 0 })
		for _, b := range run.Blocks {
			if !known { // before releases noted it
				b.Made = float64(b.Steps + unsettled + 1)
			}
			floats.AddScaled(times, b.Made, e.indicators(b.Arms))
			made += b.Made
		}
	}
	return e.fit.contrast(times), made
}

// factor is the time of a step by these arms, relative to that by NCCL's choice.
func (e *Evidence) factor(arms []int) float64 {
	return e.fit.factor(e.indicators(arms))
}

// dropArms drops arms that are surely worse than the leader, or alike, without any one block as well.
func (e *Evidence) dropArms() {
	for i := range e.Factors {
		f := &e.Factors[i]
		leader := f.best()
		for k := range f.Arms {
			a := &f.Arms[k]
			if a.Dropped != "" || k == leader || a.Blocks < fewest {
				continue
			}
			behind := e.difference(i, k, leader)
			alike := behind.most+Surely*behind.err < little
			switch {
			case alike && k == 0:
				f.Arms[leader].Dropped = "alike"
				leader = k
			case alike:
				a.Dropped = "alike"
			case k == 0 && leader != f.Leader(): // see Leader
			case behind.least > worse*behind.err:
				a.Dropped = "worse"
			}
		}
		f.settle()
	}
}

// count counts a block that tells something.
func (e *Evidence) count(b Block) {
	if b.Steps == 0 {
		return
	}
	e.Blocks++
	e.Steps += b.Steps
	for i, k := range b.Arms {
		if k >= 0 {
			e.Factors[i].Arms[k].Blocks++
		}
	}
}

// indicators has one for each arm but NCCL's choice: all effects are against that.
func (e *Evidence) indicators(arms []int) (x []float64) {
	for i, f := range e.Factors {
		for k := range f.Arms[1:] {
			is := 0.0
			if arms[i] == k+1 {
				is = 1
			}
			x = append(x, is)
		}
	}
	return x
}
