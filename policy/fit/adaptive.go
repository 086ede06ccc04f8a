package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Space is what may be measured on one communicator.
type Space struct {
	Key
	Sizes    []uint64 // ascending
	Families []FamilyKey
	Channels []int // counts to try, ascending
	// Limits are the most channels that the machine has for an algorithm; none: not known.
	Limits map[nccl.Algo]int
	// Failed are configurations that were tried in vain: NCCL does not have them here.
	Failed []Config
	// Asked is what runs were to measure, whatever came of it: nothing is asked for twice. What was measured counts
	// as asked, too, and need not be in it.
	Asked map[Ask]bool
}

// Run is one start of nccl-tests: one configuration at each size.
type Run struct {
	Sizes   []uint64 // ascending, all of the space's from the first to the last
	Configs []Config // at each of Sizes; nil: what the library chooses by itself
}

// RunOf is a run of one configuration.
func RunOf(c Config, sizes []uint64) Run { return Run{sizes, slices.Repeat([]Config{c}, len(sizes))} }

// Stage says how far an adaptive sweep is.
type Stage int

const (
	StageDefault   Stage = iota // the default comes first: everything is compared with it
	StageMost                   // all families with most channels, at all sizes
	StageFewest                 // and with fewest, where that may be faster
	StagePromising              // what promises most at each size
	StageOver                   // nothing left is worth its time
)

// Next is what to measure next.
type Next struct {
	Stage Stage
	Runs  []Run // empty once the sweep is over
	// Missed is what could still be faster once the sweep is over, the largest hope first.
	Missed []Miss
	// Edge is a channel count that wins somewhere and is the largest or smallest
	// there is to try: the range may be too narrow. 0: none.
	Edge int
}

// Miss is a configuration that was not measured at some sizes where it may be the fastest.
type Miss struct {
	Config Config
	Sizes  []uint64 // ascending
	Gain   float64  // the most that is hoped for at one of them, as a part of the time

	promises []float64 // by size, improvement in ln(us) that is expected of measuring it there
}

const (
	// latencyBound: fewest channels are measured up to the last size at which the fastest takes
	// at most so many times what it takes at the least. Beyond, the bandwidth decides, of which few
	// channels have less.
	latencyBound = 3
	// outclassed: a family that many times slower than the best with most channels, at all those
	// sizes, is not measured with fewest.
	outclassed = 2.5
	// worthwhile is the mean improvement in ln(us) over all sizes that a run must promise.
	worthwhile = 0.004
	// hopeful is that of one size for it to be part of a run.
	hopeful = 0.005
)

// Next decides by what was measured so far, nil: nothing, and by what was asked for. It depends on
// nothing else, so that a sweep can be interrupted and goes on where it was. Each run asks for something
// that was not asked for before, so a sweep ends whatever the runs measure.
//
// Time falls and rises again with the channels, from both ends, so both are measured before
// anything is ruled out. In between a model says how much faster than the best so far each
// configuration may be.
func (s Space) Next(g *Group) Next {
	if g == nil {
		g = &Group{Key: s.Key, Noise: assumedNoise}
	}
	if len(g.Default) == 0 {
		return Next{Stage: StageDefault, Runs: []Run{{Sizes: s.Sizes}}}
	}
	best := g.fastest()
	n := Next{Stage: StageMost, Runs: s.untried(g, s.most, s.Sizes)}
	if len(n.Runs) > 0 {
		return n
	}
	small := s.boundByLatency(best)
	n = Next{Stage: StageFewest, Runs: s.untried(g, s.fewest, small)}
	n.Runs = slices.DeleteFunc(n.Runs, func(r Run) bool { return s.outclassed(g, r.Configs[0], small, best) })
	if len(n.Runs) > 0 {
		return n
	}
	hopes := s.hopes(g, best)
	if r, ok := s.mostPromising(hopes); ok {
		return Next{Stage: StagePromising, Runs: []Run{r}}
	}
	return Next{Stage: StageOver, Missed: hopes, Edge: s.edge(g)}
}

// fastest is the least time measured at each size, of the default, too.
func (g *Group) fastest() map[uint64]float64 {
	best := map[uint64]float64{}
	for _, cells := range [][]Cell{g.Default, g.Cells} {
		for _, c := range cells {
			if us, ok := best[c.Bytes]; !ok || c.Micros < us {
				best[c.Bytes] = c.Micros
			}
		}
	}
	return best
}

// channels are the counts to try for an algorithm. What is beyond the machine's stands for
// as many as it has; 0 is NCCL's own count, where that is not to be set.
func (s Space) channels(a nccl.Algo) []int {
	if !nccl.ChannelsCanBeSet(a, s.Nodes) {
		return []int{0}
	}
	limit, ok := s.Limits[a]
	if !ok {
		return s.Channels
	}
	var counts []int
	for _, c := range s.Channels {
		counts = append(counts, min(c, limit))
	}
	return slices.Compact(counts)
}

func (s Space) most(a nccl.Algo) int   { return slices.Max(s.channels(a)) }
func (s Space) fewest(a nccl.Algo) int { return slices.Min(s.channels(a)) }

// untried are runs of all families with one channel count, but for those that were tried.
func (s Space) untried(g *Group, channels func(nccl.Algo) int, sizes []uint64) (runs []Run) {
	unmet := s.Unmet(g)
	for _, f := range s.Families {
		c := Config{f, channels(f.Algo)}
		asked := slices.ContainsFunc(sizes, func(b uint64) bool { return s.Asked[Ask{c, b}] })
		keeps := slices.ContainsFunc(unmet, func(u Unmet) bool {
			return u.OwnChannels && u.Config.FamilyKey == f && !(g.onlyLower && c.Channels < u.Config.Channels)
		})
		if len(sizes) > 0 && !asked && !keeps && len(g.cellsOf(c)) == 0 && !s.failed(c) {
			runs = append(runs, RunOf(c, sizes))
		}
	}
	return runs
}

// failed reports whether a configuration was tried in vain, or its family with most and with fewest
// channels, or with any.
func (s Space) failed(c Config) bool {
	vain := func(channels int) bool { return slices.Contains(s.Failed, Config{c.FamilyKey, channels}) }
	return vain(c.Channels) || vain(0) || vain(s.most(c.Algo)) && vain(s.fewest(c.Algo))
}

func (g *Group) cellsOf(c Config) []Cell {
	i, _ := slices.BinarySearchFunc(g.Cells, Cell{Config: c}, Cell.compare)
	j := i
	for j < len(g.Cells) && g.Cells[j].Config == c {
		j++
	}
	return g.Cells[i:j]
}

// boundByLatency are the sizes at which fewest channels may be the fastest.
func (s Space) boundByLatency(best map[uint64]float64) []uint64 {
	least, last := math.Inf(1), 0
	for _, us := range best {
		least = min(least, us)
	}
	for i, b := range s.Sizes {
		if us, ok := best[b]; ok && us <= latencyBound*least {
			last = i + 1
		}
	}
	return s.Sizes[:last]
}

// outclassed reports that a family was measured, and is far behind at all sizes given.
func (s Space) outclassed(g *Group, c Config, sizes []uint64, best map[uint64]float64) bool {
	for _, b := range sizes {
		if cell, ok := g.at(Config{c.FamilyKey, s.most(c.Algo)}, b); !ok || cell.Micros <= outclassed*best[b] {
			return false
		}
	}
	return true
}

// hopes are what may be faster than all that was measured, what promises most first.
func (s Space) hopes(g *Group, best map[uint64]float64) (all []Miss) {
	raised := s.raised(g)
	for _, cells := range g.families() {
		f := cells[0].Config
		if f.Channels == 0 || !slices.Contains(s.Families, f.FamilyKey) {
			continue
		}
		var forecast *joint
		if len(cells) >= fewPoints {
			forecast = g.fitJoint(cells, &layouts{})
		}
		for _, channels := range s.channels(f.Algo) {
			c := Config{f.FamilyKey, channels}
			if s.failed(c) {
				continue
			}
			if m := s.hope(g, c, forecast, best, raised); len(m.Sizes) > 0 {
				all = append(all, m)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Miss) int { return cmp.Compare(b.Gain, a.Gain) })
	return all
}

// mostPromising is a run of what promises most at each size, unless all that is not worth a start.
func (s Space) mostPromising(hopes []Miss) (r Run, worth bool) {
	configs, promises := make([]Config, len(s.Sizes)), make([]float64, len(s.Sizes))
	sum, first, last := 0.0, len(s.Sizes), -1
	for _, m := range hopes {
		for i, b := range m.Sizes {
			k, _ := slices.BinarySearch(s.Sizes, b)
			first, last = min(first, k), max(last, k)
			if m.promises[i] > promises[k] {
				sum += m.promises[i] - promises[k]
				configs[k], promises[k] = m.Config, m.promises[i]
			}
		}
	}
	for k := first + 1; k < last; k++ {
		if promises[k] == 0 { // it steps through this size, too
			configs[k] = configs[k-1]
		}
	}
	if last < first || sum < worthwhile*float64(len(s.Sizes)) {
		return Run{}, false
	}
	return Run{s.Sizes[first : last+1], configs[first : last+1]}, true
}

// hope is what a configuration promises at sizes at which it was not measured.
func (s Space) hope(g *Group, c Config, forecast *joint, best map[uint64]float64, raised func(Config, uint64) bool) Miss {
	m := Miss{Config: c}
	sizes := slices.DeleteFunc(slices.Clone(s.Sizes), func(b uint64) bool {
		_, measured := g.at(c, b)
		return measured || s.Asked[Ask{c, b}] || raised(c, b)
	})
	if forecast == nil { // too little to tell
		m.Sizes, m.Gain = sizes, 1
		for range sizes {
			m.promises = append(m.promises, 1)
		}
		return m
	}
	if len(sizes) == 0 {
		return m
	}
	means, sigmas := forecast.predict(c.Channels, sizes)
	for i, b := range sizes {
		us, ok := best[b]
		if !ok {
			continue
		}
		sigma := math.Sqrt(max(0, sigmas[i]*sigmas[i]-g.Noise*g.Noise))
		improvement := expectedImprovement(math.Log(us)-means[i], sigma)
		if improvement < hopeful {
			continue
		}
		m.Sizes, m.promises = append(m.Sizes, b), append(m.promises, improvement)
		m.Gain = max(m.Gain, 1-math.Exp(means[i]-quantile95*sigma-math.Log(us)))
	}
	return m
}

// expectedImprovement is the mean of what is above 0 of a normal distribution.
func expectedImprovement(mean, sigma float64) float64 {
	if sigma <= 0 {
		return max(mean, 0)
	}
	z := mean / sigma
	return mean*0.5*math.Erfc(-z/math.Sqrt2) + sigma*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)
}

// edge is a channel count at an end of those to try that wins some size where the machine may have more; 0: none.
func (s Space) edge(g *Group) int {
	return g.edgeOf(s.Channels[0], s.Channels[len(s.Channels)-1], func(c Config) bool {
		limit, ok := s.Limits[c.Algo]
		return !ok || c.Channels < limit
	})
}
