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
	Families []nccl.Cell
	// NotOffered are families that were left out because NCCL does not offer them here.
	NotOffered []nccl.Cell
	Channels   []int // counts to try, ascending
	// Limits are the most channels that the machine has for an algorithm; none: not known.
	Limits map[nccl.Algo]int
	// Failed are configurations that were tried and did not run: NCCL does not have them here.
	Failed []nccl.Config
	// Asked is what earlier runs were meant to measure, measured or not: nothing is asked for twice. Whatever was
	// measured counts as asked for even if it is missing here.
	Asked map[Request]bool
}

// LeaveOut leaves out families that NCCL does not offer here.
func (s *Space) LeaveOut(unoffered func(nccl.Cell) bool) {
	s.Families = slices.DeleteFunc(s.Families, func(f nccl.Cell) bool {
		isOut := unoffered(f)
		if isOut {
			s.NotOffered = append(s.NotOffered, f)
		}
		return isOut
	})
}

// Run is one start of nccl-tests: one configuration at each size.
type Run struct {
	Sizes   []uint64      // ascending, all of the space's from the first to the last
	Configs []nccl.Config // at each of Sizes; nil: NCCL's choice
}

// RunOf is a run of one configuration.
func RunOf(c nccl.Config, sizes []uint64) Run {
	return Run{sizes, slices.Repeat([]nccl.Config{c}, len(sizes))}
}

// Stage says how far a sweep has got.
type Stage int

const (
	StageDefault Stage = iota // the default comes first: everything is compared with it
	StageMost                 // all families with most channels, at all sizes
	StageRounds               // at each size what promises most, in one run for all sizes
	StageOver                 // the last rounds gained too little
)

// Next is what to measure next.
type Next struct {
	Stage Stage
	Runs  []Run // empty once the sweep is over
}

const (
	// latencyBound: the fewest channels are tried only where the fastest configuration takes at most this many times
	// the shortest time of all sizes. Above that, bandwidth decides, and few channels have less of it.
	latencyBound = 4
	// outclassed: the fewest channels of a family are not tried if it is this many times slower than the best.
	outclassed = 2
	// far: if a family was measured with one channel count only and is this many times slower than the best, the
	// middle count is not tried. The limit is wide because the most channels can be many times slower than half.
	far = 8
	// behind: a family that was measured with several counts is given up if it is this many times slower. A
	// configuration is given up at a size if it is this many times slower at the neighbouring sizes.
	behind = 1.1
	// tied: where a count takes at most this many times the least of its family's three or more, those in between
	// hardly take less. They come after all else.
	tied = 1.01
	// A race ends after this many rounds in a row in which the best times improve by less than this part, averaged
	// over all sizes.
	lastRounds = 3
	worthwhile = 0.006
)

// Next returns what to measure next, given what was measured so far (nil: nothing) and what was asked for. It depends
// on nothing else, so an interrupted sweep resumes: Next replays the race from its start with the known times until it
// needs one that is missing. Each run asks for something new, so a sweep ends whatever the runs measure.
//
// With more channels the time first falls and then rises. So both ends are measured before anything is ruled out, and
// bisection finds the minimum in between.
func (s Space) Next(g *Group) Next {
	if g == nil || len(g.Default) == 0 {
		return Next{Stage: StageDefault, Runs: []Run{{Sizes: s.Sizes}}}
	}
	r := newRace(s, g)
	if runs := r.maxChannelRuns(); len(runs) > 0 {
		return Next{Stage: StageMost, Runs: runs}
	}
	for idle := 0; idle < lastRounds; {
		run, fewest := r.round()
		if len(run.Sizes) == 0 {
			break
		}
		left := r.run(func(i int) (c nccl.Config, wanted bool) { // what is not known of it
			if k := slices.Index(run.Sizes, r.Sizes[i]); k >= 0 && !r.failed(run.Configs[k]) {
				c, wanted = run.Configs[k], !r.known(run.Configs[k], r.Sizes[i])
			}
			return c, wanted
		})
		if len(left.Sizes) > 0 {
			return Next{Stage: StageRounds, Runs: []Run{left}}
		}
		if idle++; r.finish(run) >= worthwhile || fewest {
			idle = 0
		}
	}
	return Next{Stage: StageOver}
}

// race is the state of a sweep. Its slices have one element per size.
type race struct {
	Space
	g      *Group
	raised func(nccl.Config, uint64) bool
	unmet  []Unmet
	times  []map[nccl.Config]float64 // what was measured so far
	tried  []map[nccl.Config]bool    // that, and what was asked for in vain
	best   []float64                 // the least of that and of the default's times
}

func newRace(s Space, g *Group) *race {
	r := &race{Space: s, g: g, raised: s.exceedsDefault(g), unmet: s.Unmet(g)}
	for _, b := range s.Sizes {
		best := math.Inf(1)
		if d, ok := g.defaultAt(b); ok {
			best = d.first()
		}
		r.times, r.tried = append(r.times, map[nccl.Config]float64{}), append(r.tried, map[nccl.Config]bool{})
		r.best = append(r.best, best)
	}
	return r
}

// maxChannelRuns returns a run of each family with the most channels, or with the middle count where the most failed.
func (r *race) maxChannelRuns() (runs []Run) {
	for _, f := range r.Families {
		if r.g.neverMore {
			if run := r.mostOfOwn(f); len(run.Sizes) > 0 {
				runs = append(runs, run)
			}
			continue
		}
		// NCCL's own may have come in its place.
		for _, n := range []int{0, r.Space.maxChannels(f.Algo), r.middle(f.Algo)} {
			c := nccl.Config{Cell: f, Channels: n}
			known := n == 0 || len(r.g.pointsOf(c)) > 0
			for _, b := range r.Sizes {
				known = known || r.Asked[Request{c, b}]
			}
			if !known && !r.failed(c) && !r.keepsOwn(c) {
				runs = append(runs, RunOf(c, r.Sizes))
				break
			}
			came := false
			for i := range r.Sizes {
				came = r.recordTried(c, i) || came
			}
			if came && n > 0 {
				break
			}
		}
	}
	return runs
}

// mostOfOwn returns a run of a family with the channels that RCCL takes itself at each size, but no more than the most
// that may be tried.
func (r *race) mostOfOwn(f nccl.Cell) Run {
	return r.run(func(i int) (nccl.Config, bool) {
		c := nccl.Config{Cell: f, Channels: min(r.Space.maxChannels(f.Algo), r.g.mostByDefault(r.Sizes[i]))}
		r.recordTried(c, i)
		return c, !r.known(c, r.Sizes[i]) && !r.failed(c)
	})
}

// recordTried marks a configuration as tried at a size, with its time or the time of what ran in its place, if there is
// one.
func (r *race) recordTried(c nccl.Config, i int) (came bool) {
	r.tried[i][c] = true
	point, ok := r.g.at(c, r.Sizes[i])
	if n := r.g.mostChannels(c.Cell, r.Sizes[i]); !ok && r.g.onlyLower && n < c.Channels {
		point, ok = r.g.at(nccl.Config{Cell: c.Cell, Channels: n}, r.Sizes[i])
	}
	if ok {
		r.times[i][point.Config] = point.first()
		r.best[i] = min(r.best[i], point.first())
	}
	return ok
}

// round returns a run of the most promising configuration at each size, and whether any of them has fewest channels.
func (r *race) round() (run Run, fewest bool) {
	run = r.run(func(i int) (nccl.Config, bool) {
		c, few, ok := r.promising(i)
		fewest = fewest || few
		return c, ok
	})
	return run, fewest
}

// finish marks a run as tried and returns how much the best times improve, in ln(us), averaged over all sizes.
func (r *race) finish(run Run) (gain float64) {
	first := slices.Index(r.Sizes, run.Sizes[0])
	for k, c := range run.Configs {
		before := r.best[first+k]
		r.recordTried(c, first+k)
		gain += math.Log(before / r.best[first+k])
	}
	return gain / float64(len(r.Sizes))
}

// promising returns a configuration that may be faster at a size than all that were measured there. It tries the fewest
// channels first, unless they are ruled out. Then come the winner of a neighbouring size and the middle between a
// family's best channel count and the next one measured.
func (r *race) promising(i int) (c nccl.Config, fewest, ok bool) {
	type option struct {
		c     nccl.Config
		ratio float64 // of times, that tells how near it may be to the best
	}
	var few, others []option
	add := func(to *[]option, c nccl.Config, ratio float64) {
		if !r.tried[i][c] && r.available(c, i) && !r.losesNearby(c, i) {
			*to = append(*to, option{c, ratio})
		}
	}
	latency := r.best[i] <= latencyBound*slices.Min(r.best)
	for _, f := range r.Families {
		counts, at, least, n := r.counts(f, i)
		ratio := least / r.best[i]
		if n > 0 && latency && ratio <= outclassed {
			add(&few, nccl.Config{Cell: f, Channels: counts[0]}, ratio)
		}
		if n == 1 && ratio <= far || ratio <= behind {
			measured := func(n int) bool { return r.times[i][nccl.Config{Cell: f, Channels: n}] > 0 }
			fewer, more := slices.Clone(counts[:at]), counts[at+1:]
			slices.Reverse(fewer)
			for _, side := range [][]int{fewer, more} { // up to the next that was measured
				ratio := ratio
				if k := slices.IndexFunc(side, measured); k >= 0 {
					if n > 2 && r.times[i][nccl.Config{Cell: f, Channels: side[k]}] <= tied*least {
						ratio *= behind
					}
					side = side[:k]
				}
				if len(side) > 0 {
					add(&others, nccl.Config{Cell: f, Channels: side[len(side)/2]}, ratio)
				}
			}
		}
	}
	for _, j := range []int{i - 1, i + 1} {
		if j >= 0 && j < len(r.Sizes) {
			for c, us := range r.times[j] {
				if us == r.best[j] {
					add(&others, c, 0)
				}
			}
		}
	}
	for _, options := range [][]option{few, others} {
		slices.SortFunc(options, func(a, b option) int {
			return cmp.Or(cmp.Compare(a.ratio, b.ratio), a.c.Compare(b.c))
		})
	}
	switch {
	case len(few) > 0: // sizes next to each other try several families
		return few[i%len(few)].c, true, true
	case len(others) > 0:
		return others[0].c, false, true
	}
	return nccl.Config{}, false, false
}

// counts returns the channel counts of a family that were or can be measured at a size, ascending. at is the index of
// the fastest, and measured is how many were measured.
func (r *race) counts(f nccl.Cell, i int) (counts []int, at int, least float64, measured int) {
	least = math.Inf(1)
	for n := 1; n <= nccl.MaxChannels; n++ {
		c := nccl.Config{Cell: f, Channels: n}
		us, ok := r.times[i][c]
		switch {
		case ok:
			if measured++; us < least {
				at, least = len(counts), us
			}
		case r.tried[i][c] || !slices.Contains(r.channels(f.Algo), n) || !r.available(c, i):
			continue
		}
		counts = append(counts, n)
	}
	return counts, at, least, measured
}

// losesNearby reports whether a configuration is far slower than the best at the sizes next to this one.
func (r *race) losesNearby(c nccl.Config, i int) bool {
	least := math.Inf(1)
	for _, j := range []int{i - 1, i + 1} {
		if j >= 0 && j < len(r.Sizes) {
			if us, ok := r.times[j][c]; ok {
				least = min(least, us/r.best[j])
			}
		}
	}
	return least > behind && !math.IsInf(least, 1)
}

// known reports whether a configuration was measured at a size, or asked for there without a result.
func (r *race) known(c nccl.Config, bytes uint64) bool {
	_, ok := r.g.at(c, bytes)
	return ok || r.Asked[Request{c, bytes}]
}

// available reports whether a configuration was measured or asked for at a size, or nothing speaks against asking.
func (r *race) available(c nccl.Config, i int) bool {
	return r.known(c, r.Sizes[i]) || !r.failed(c) && !r.raised(c, r.Sizes[i]) && !r.keepsOwn(c)
}

// keepsOwn reports whether NCCL runs a family with its own number of channels.
func (r *race) keepsOwn(c nccl.Config) bool {
	return slices.ContainsFunc(r.unmet, func(u Unmet) bool {
		return u.OwnChannels && u.Config.Cell == c.Cell && !(r.g.onlyLower && c.Channels < u.Config.Channels)
	})
}

// channels returns the counts to try for an algorithm. Counts beyond the machine's are lowered to
// what it has. 0 is NCCL's own count, for an algorithm whose count cannot be set.
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

func (s Space) maxChannels(a nccl.Algo) int { return slices.Max(s.channels(a)) }
func (s Space) middle(a nccl.Algo) int {
	counts := s.channels(a)
	return counts[(len(counts)-1)/2]
}

// failed reports whether a configuration did not run, or whether its family did not run with the most channels and the
// middle count, or with any count.
func (s Space) failed(c nccl.Config) bool {
	vain := func(channels int) bool {
		return slices.Contains(s.Failed, nccl.Config{Cell: c.Cell, Channels: channels})
	}
	return vain(c.Channels) || vain(0) || vain(s.maxChannels(c.Algo)) && vain(s.middle(c.Algo))
}

func (g *Group) pointsOf(c nccl.Config) []Point {
	i, _ := slices.BinarySearchFunc(g.Points, Point{Config: c}, Point.compare)
	j := i
	for j < len(g.Points) && g.Points[j].Config == c {
		j++
	}
	return g.Points[i:j]
}

// run returns a run from the first to the last size that is wanted. At unwanted sizes in between, it measures what of
// returns, or else the configuration of the size before.
func (s Space) run(of func(i int) (c nccl.Config, wanted bool)) Run {
	configs, first, last := make([]nccl.Config, len(s.Sizes)), len(s.Sizes), -1
	for i := range s.Sizes {
		c, wanted := of(i)
		if wanted {
			first, last = min(first, i), i
		} else if c == (nccl.Config{}) && i > 0 {
			c = configs[i-1]
		}
		configs[i] = c
	}
	if last < 0 {
		return Run{}
	}
	return Run{s.Sizes[first : last+1], configs[first : last+1]}
}

// Count is how many configurations there are.
func (s Space) Count() (n int) {
	for _, f := range s.Families {
		n += len(s.channels(f.Algo))
	}
	return n
}

// Request is a configuration that a run was to measure at a size.
type Request struct {
	Config nccl.Config
	Bytes  uint64
}

// Unmet is a configuration that was asked for, and was not measured at some of the sizes.
type Unmet struct {
	Config nccl.Config
	Sizes  []uint64 // ascending
	// OwnChannels says that the number of channels is not to be had: NCCL ran the algorithm and protocol with its own.
	OwnChannels bool
}

// Unmet are the configurations that were asked for in vain, in order, without those that failed.
func (s Space) Unmet(g *Group) (all []Unmet) {
	if g == nil {
		g = &Group{}
	}
	sizes := map[nccl.Config][]uint64{}
	for a := range s.Asked {
		if _, ok := g.at(a.Config, a.Bytes); !ok && !s.failed(a.Config) {
			sizes[a.Config] = append(sizes[a.Config], a.Bytes)
		}
	}
	for c, at := range sizes {
		slices.Sort(at)
		own := c.Channels > 0 && len(g.pointsOf(c)) == 0 && len(g.pointsOf(nccl.Config{Cell: c.Cell})) > 0 ||
			g.onlyLower && !slices.ContainsFunc(at, func(b uint64) bool { return g.mostChannels(c.Cell, b) < 0 })
		all = append(all, Unmet{c, at, own})
	}
	slices.SortFunc(all, func(a, b Unmet) int { return a.Config.Compare(b.Config) })
	return all
}

// mostChannels returns the largest count of a family that ran at a size. 0 is NCCL's own; -1: the family was not
// measured there.
func (g *Group) mostChannels(f nccl.Cell, bytes uint64) int {
	most := -1
	for i := range g.Points {
		if c := &g.Points[i]; c.Config.Cell == f && c.Bytes == bytes {
			most = max(most, c.Config.Channels)
		}
	}
	return most
}

// exceedsDefault returns a function that reports whether a configuration asks for more channels at a size than NCCL
// takes itself, for RCCL and for a release that only lowers a tuner's count. Such a run is not worth its time. NCCL's
// counts are told by the default, and by what was asked for in vain.
func (s Space) exceedsDefault(g *Group) func(c nccl.Config, bytes uint64) bool {
	own := g.ownChannels(s.Asked)
	return func(c nccl.Config, bytes uint64) bool {
		if g.neverMore {
			return c.Channels > g.mostByDefault(bytes)
		}
		most := own[place{c.Cell, bytes}]
		if d, ok := g.defaultAt(bytes); ok && g.onlyLower && d.Config.Cell == c.Cell {
			most = cmp.Or(most, d.Config.Channels)
		}
		return most > 0 && c.Channels > most
	}
}

// ownChannels returns NCCL's own counts, for a release that only lowers a tuner's count: what ran where more were
// asked for.
func (g *Group) ownChannels(asked map[Request]bool) map[place]int {
	own := map[place]int{}
	for a := range asked {
		if _, ok := g.at(a.Config, a.Bytes); g.onlyLower && !ok {
			own[place{a.Config.Cell, a.Bytes}] = g.mostChannels(a.Config.Cell, a.Bytes)
		}
	}
	return own
}
