package fit

import (
	"cmp"
	"maps"
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
	// Fresh are counts of Channels that a person has added to a sweep that was verified. They are tried, too.
	Fresh []int
	// Single says that a start measures one pass. Then rounds have fewer candidates at each size, and repeat nothing.
	Single bool
	// Wide is how many candidates a round has at each size; 0: as many as the constant Wide.
	Wide int
	// Broken says that the last round broke off, so that its gain says nothing of the next.
	Broken bool
	// Smaller is what was measured on fewer nodes; nil: nothing. Then the fastest there are measured, and nothing else.
	Smaller *Group
	// Repetitions is how many starts verify; 0: one.
	Repetitions int
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

// Stage says how far a sweep has got.
type Stage int

const (
	StageFirst  Stage = iota // the default and each family with some counts
	StageRound               // at each size what may be faster than all so far
	StageVerify              // the fastest, once more, in a fresh start
	StageOver
)

// Plan is what one start of nccl-tests measures. A pass runs all sizes, each with a configuration of its own. So what
// is tried at one size is independent of the others, and a further configuration costs its calls only.
type Plan struct {
	Stage  Stage
	Sizes  []uint64 // ascending, all of the space's from the first to the last
	Passes []Pass   // none: there is nothing to measure
	Starts int      // that measure all of it, alike; 0: one
}

// Pass has a configuration for each size of its plan.
type Pass []nccl.Config

// ByDefault in a pass leaves a size to NCCL.
var ByDefault = unknownConfig

const (
	// Wide is how many candidates a round has at each size. Sweeps with 6 or 12 take as long and find as much: what is
	// not in one round is in the next.
	Wide = 8
	// Turns is how often a verification measures the default and each contender in its start.
	Turns = 3
	// Contenders is how many configurations at most are verified at each size, besides the default.
	Contenders = 3
	// Carried is how many are measured at each size on more nodes: the fastest on the most nodes that were measured,
	// two or more, and the same with the next fewer channels. The best count falls as ranks rise.
	Carried = 2
	// CarriedStarts is how many starts measure them at least. Nothing else is measured there, and what a start draws
	// for a configuration is told from another start only.
	CarriedStarts = 2
	// again is how many of the fastest of each size a round repeats, so that what is chosen was measured in several
	// starts.
	again = 2
	// Where each pass takes a start, so many candidates tell whether more pay off.
	lastSingle = 3
)

// Next returns what to measure next, given what was measured so far (nil: nothing) and what was asked for. It depends
// on nothing else, so an interrupted sweep resumes, and one that is given more sizes, channels or families measures
// these. Each round asks for something new, so a sweep ends whatever the passes measure.
//
// With more channels the time first falls and then rises. So both ends are measured before anything is ruled out, and
// bisection finds the minimum in between.
func (s Space) Next(g *Group) Plan {
	if g == nil {
		g = &Group{}
	}
	from, starts := g, max(1, s.Repetitions)
	if s.Smaller != nil {
		from, starts = s.Smaller, max(starts, CarriedStarts)-g.verifiedAt(s.Sizes)
	} else {
		r := newRace(s, g)
		if plan := r.first(); len(plan.Passes) > 0 {
			return plan
		}
		newest, _ := r.newest()
		isDone := newest < g.verifiedIn && g.verifiedAt(s.Sizes) > 0
		if plan := r.round(isDone); len(plan.Passes) > 0 {
			return plan
		}
		if isDone {
			starts -= g.verifiedAt(s.Sizes)
		}
	}
	plan := s.Verification(from)
	if plan.Starts = starts; starts < 1 {
		return Plan{Stage: StageOver}
	}
	return plan
}

// race is the state of a sweep.
type race struct {
	Space
	g     *Group
	unmet []Unmet
	asked map[place]bool // what of a family was measured or asked for
	own   map[place]int  // NCCL's own channels, see ownChannels
	seen  [][]Point      // what was measured at each size, the fastest first; the default has the label ByDefault
}

func newRace(s Space, g *Group) *race {
	r := &race{Space: s, g: g, unmet: s.Unmet(g), asked: map[place]bool{}, own: g.ownChannels(s.Asked)}
	for a := range s.Asked {
		r.asked[place{a.Config.Cell, a.Bytes}] = true
	}
	bySize := g.bySize()
	for _, b := range s.Sizes {
		seen := slices.Clone(bySize[b])
		if d, ok := g.defaultAt(b); ok {
			d.Config = ByDefault
			seen = append(seen, d)
		}
		for _, c := range seen {
			r.asked[place{c.Config.Cell, b}] = true
		}
		slices.SortFunc(seen, compareTimes)
		r.seen = append(r.seen, seen)
	}
	return r
}

// at is what a configuration, or the default, took at a size.
func (r *race) at(i int, c nccl.Config) (Point, bool) {
	k := slices.IndexFunc(r.seen[i], func(p Point) bool { return p.Config == c })
	if k < 0 {
		return Point{}, false
	}
	return r.seen[i][k], true
}

// best is the least time at a size, of any configuration or the default.
func (r *race) best(i int) float64 {
	if len(r.seen[i]) == 0 {
		return math.Inf(1)
	}
	return r.seen[i][0].Micros
}

// first is the default and each family, at the sizes where they were not measured: with most channels, with half of
// them and, where latency decides, with fewest.
func (r *race) first() Plan {
	plan := Plan{Stage: StageFirst, Sizes: r.Sizes}
	byDefault := r.pass(func(i int) (nccl.Config, bool) {
		_, known := r.at(i, ByDefault)
		return ByDefault, !known
	})
	for _, f := range r.Families {
		for _, which := range []func(counts []int, bytes uint64) (index int, wanted bool){
			func(counts []int, _ uint64) (int, bool) { return len(counts) - 1, true },
			func(counts []int, _ uint64) (int, bool) { return len(counts) / 2, len(counts) > 2 },
			func(counts []int, b uint64) (int, bool) { return 0, len(counts) > 1 && b <= latencyBytes },
		} {
			pass := r.pass(func(i int) (nccl.Config, bool) {
				b, counts := r.Sizes[i], r.counts(f, i)
				if len(counts) == 0 || r.asked[place{f, b}] || f.Proto == nccl.ProtoLL && b > mostLL {
					return ByDefault, false
				}
				k, wanted := which(counts, b)
				return nccl.Config{Cell: f, Channels: counts[k]}, wanted
			})
			if pass != nil {
				plan.Passes = append(plan.Passes, pass)
			}
		}
	}
	all := r.everywhere(ByDefault)
	if byDefault != nil || !r.Single && len(plan.Passes) > 0 {
		plan.Passes = slices.Insert(plan.Passes, 0, all)
		if !r.Single {
			plan.Passes = append(plan.Passes, all)
		}
	}
	return r.trimmed(plan)
}

// pass returns a pass with what is wanted at each size, and with the default elsewhere; nil: nothing is wanted.
func (r *race) pass(of func(i int) (c nccl.Config, wanted bool)) (p Pass) {
	any := false
	for i := range r.Sizes {
		c, wanted := of(i)
		if !wanted {
			c = ByDefault
		}
		p, any = append(p, c), any || wanted
	}
	if !any {
		return nil
	}
	return p
}

func (r *race) everywhere(c nccl.Config) Pass { return slices.Repeat(Pass{c}, len(r.Sizes)) }

// trimmed leaves out sizes before the first and after the last at which something is measured that is not known.
func (r *race) trimmed(plan Plan) Plan {
	isNew := func(i int) bool {
		return slices.ContainsFunc(plan.Passes, func(p Pass) bool { _, known := r.at(i, p[i]); return !known })
	}
	first, last := 0, len(plan.Sizes)
	for first < last && !isNew(first) {
		first++
	}
	for first < last && !isNew(last-1) {
		last--
	}
	if first == last {
		return Plan{Stage: plan.Stage}
	}
	plan.Sizes = plan.Sizes[first:last]
	for k := range plan.Passes {
		plan.Passes[k] = plan.Passes[k][first:last]
	}
	return plan
}

// round has up to Wide candidates at each size, one a pass. Where a size has fewer, others are repeated. The default
// and the fastest of each size come again. If all is verified, only Fresh counts are candidates.
func (r *race) round(isDone bool) Plan {
	if !isDone && !r.Broken && r.gain() < max(worthwhile, luck*r.g.Noise) {
		return Plan{Stage: StageOver}
	}
	wide := cmp.Or(r.Wide, Wide)
	if r.Single {
		wide = 1
	}
	candidates, most, fastest := make([][]nccl.Config, len(r.Sizes)), 0, r.contenders(again)
	for i := range r.Sizes {
		all := slices.DeleteFunc(r.candidates(i), func(c nccl.Config) bool {
			return isDone && !slices.Contains(r.Fresh, c.Channels)
		})
		all = all[:min(len(all), wide)]
		most = max(most, len(all))
		candidates[i] = append(all, r.repeated(i, fastest[i])...)
	}
	if most == 0 {
		return Plan{Stage: StageOver}
	}
	plan := Plan{Stage: StageRound, Sizes: r.Sizes}
	for k := range most {
		plan.Passes = append(plan.Passes, r.pass(func(i int) (nccl.Config, bool) {
			return candidates[i][min(k, len(candidates[i])-1)], true
		}))
	}
	if r.Single {
		return r.trimmed(plan)
	}
	all := r.everywhere(ByDefault)
	plan.Passes = slices.Concat([]Pass{all}, plan.Passes, ranked(fastest, again), []Pass{all})
	return plan
}

// gain is how much the last round has improved the best times, in ln(us), in the mean of all sizes; infinite where
// there was none.
func (r *race) gain() (sum float64) {
	since, families := r.newest()
	if r.Single {
		since -= lastSingle - 1
	}
	if since <= families {
		return math.Inf(1) // there was none
	}
	for i, seen := range r.seen {
		k := slices.IndexFunc(seen, func(c Point) bool { return c.Since < since })
		if k < 0 {
			return math.Inf(1)
		}
		sum += math.Log(seen[k].Micros / r.best(i))
	}
	return sum / float64(len(r.Sizes))
}

// newest is the last start that measured something for the first time, and the last that measured a family so.
func (r *race) newest() (newest, families int) {
	newest = -1
	first := map[nccl.Cell]int{}
	for _, c := range slices.Concat(r.g.Points, r.g.Default) {
		newest = max(newest, c.Since)
		if before, ok := first[c.Config.Cell]; !ok || c.Since < before {
			first[c.Config.Cell] = c.Since
		}
	}
	return newest, slices.Max(append(slices.Collect(maps.Values(first)), 0))
}

// candidates are the configurations that may be faster at a size than all that were measured there, the likeliest
// first: the winner of a neighbouring size, and the counts of each family between its best one and the next ones that
// were measured on either side. Families take turns, each with the middle on both sides first.
func (r *race) candidates(i int) (all []nccl.Config) {
	type option struct {
		c     nccl.Config
		turn  int
		ratio float64 // of times, that tells how near it may be to the best
	}
	var options []option
	for _, f := range r.Families {
		counts := r.counts(f, i)
		fastest := r.fastestOf(f, i)
		if len(counts) == 0 {
			continue
		}
		if fastest.Reps == 0 { // it was not thought to be fast here
			if below := r.below(f, i); below < hopeful {
				options = append(options, option{nccl.Config{Cell: f, Channels: counts[len(counts)-1]}, 0, below})
			}
			continue
		}
		ratio := fastest.Micros / r.best(i)
		if ratio > hopeful {
			continue
		}
		at, from, to := slices.Index(counts, fastest.Config.Channels), -1, len(counts)
		for k, n := range counts {
			if _, measured := r.at(i, nccl.Config{Cell: f, Channels: n}); measured && k < at {
				from = k
			} else if measured && k > at {
				to = min(to, k)
			}
		}
		for _, side := range [][]int{bisected(from, at), bisected(at, to)} {
			for turn, k := range side {
				options = append(options, option{nccl.Config{Cell: f, Channels: counts[k]}, turn, ratio})
			}
		}
	}
	for _, c := range r.neighbours(i) {
		if _, measured := r.at(i, c); !measured {
			options = append(options, option{c, 0, 0})
		}
	}
	slices.SortFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.ratio, b.ratio), a.c.Compare(b.c))
	})
	for _, o := range options {
		if !slices.Contains(all, o.c) {
			all = append(all, o.c)
		}
	}
	return all
}

// fastestOf is the fastest of a family at a size; of no repetitions: none was measured.
func (r *race) fastestOf(f nccl.Cell, i int) Point {
	if k := slices.IndexFunc(r.seen[i], func(c Point) bool { return c.Config.Cell == f }); k >= 0 {
		return r.seen[i][k]
	}
	return Point{}
}

// neighbours are the configurations that win at the sizes on either side and can run at a size.
func (r *race) neighbours(i int) (all []nccl.Config) {
	for _, j := range []int{i - 1, i + 1} {
		if j < 0 || j >= len(r.Sizes) || len(r.seen[j]) == 0 {
			continue
		}
		d, _ := r.at(j, ByDefault)
		c := r.seen[j][0]
		if c.Micros < (1-wins)*d.Micros && slices.Contains(r.counts(c.Config.Cell, i), c.Config.Channels) {
			all = append(all, c.Config)
		}
	}
	return all
}

// repeated is what a round measures again at a size where nothing new is left to try: what wins at the next sizes and
// was measured once here, since a single time may be disturbed, and then what is the fastest so far.
func (r *race) repeated(i int, fastest []nccl.Config) []nccl.Config {
	all := slices.DeleteFunc(r.neighbours(i), func(c nccl.Config) bool {
		point, ok := r.at(i, c)
		return !ok || point.Reps > 1
	})
	if len(fastest) > 0 && r.seen[i][0].Config == fastest[0] {
		return append(all, fastest[0])
	}
	return append(all, ByDefault)
}

// bisected returns the whole numbers between two: the middle, those of the halves, and so on.
func bisected(from, to int) (all []int) {
	for parts := [][2]int{{from, to}}; len(parts) > 0; parts = parts[1:] {
		if from, to := parts[0][0], parts[0][1]; to-from > 1 {
			middle := (from + to) / 2
			all, parts = append(all, middle), append(parts, [2]int{from, middle}, [2]int{middle, to})
		}
	}
	return all
}

// below is how many times as long as the best a family takes at the next smaller size at which it was measured.
func (r *race) below(f nccl.Cell, i int) float64 {
	for i--; i >= 0; i-- {
		if c := r.fastestOf(f, i); c.Reps > 0 {
			return c.Micros / r.best(i)
		}
	}
	return math.Inf(1)
}

// counts returns the channel counts of a family that were or can be measured at a size, ascending.
func (r *race) counts(f nccl.Cell, i int) (counts []int) {
	b, may := r.Sizes[i], r.Space.channels(f.Algo)
	if own := r.g.mostByDefault(b); r.g.neverMore && own > 0 && may[0] > 0 { // with the channels that RCCL takes itself
		may = append(slices.Clip(may), own)
	}
	for n := range nccl.MaxChannels + 1 {
		c := nccl.Config{Cell: f, Channels: n}
		if _, ok := r.at(i, c); ok || slices.Contains(may, n) && r.available(c, b) {
			counts = append(counts, n)
		}
	}
	return counts
}

// available reports whether nothing speaks against asking for a configuration at a size where it was not measured.
func (r *race) available(c nccl.Config, bytes uint64) bool {
	keepsOwn := slices.ContainsFunc(r.unmet, func(u Unmet) bool { // NCCL runs the family with its own number
		return u.OwnChannels && u.Config.Cell == c.Cell && !(r.g.onlyLower && c.Channels < u.Config.Channels)
	})
	return !r.Asked[Request{c, bytes}] && !r.failed(c) && !r.raised(c, bytes) && !keepsOwn
}

// raised reports whether a configuration asks for more channels at a size than NCCL takes itself, for RCCL and for a
// release that only lowers a tuner's count. Such a run is not worth its time. NCCL's counts are told by the default,
// and by what was asked for in vain.
func (r *race) raised(c nccl.Config, bytes uint64) bool {
	if r.g.neverMore {
		return c.Channels > r.g.mostByDefault(bytes)
	}
	most := r.own[place{c.Cell, bytes}]
	if d, ok := r.g.defaultAt(bytes); ok && r.g.onlyLower && d.Config.Cell == c.Cell {
		most = cmp.Or(most, d.Config.Channels)
	}
	return most > 0 && c.Channels > most
}

// contenders are the fastest at each size, and near to the best there.
func (r *race) contenders(most int) [][]nccl.Config {
	all := make([][]nccl.Config, len(r.Sizes))
	for i, b := range r.Sizes {
		for _, c := range r.seen[i] {
			limit, limited := r.Limits[c.Config.Algo]
			if len(all[i]) < most && c.Micros <= near*r.best(i) && slices.Contains(r.Families, c.Config.Cell) &&
				!r.failed(c.Config) && !r.raised(c.Config, b) && !(limited && c.Config.Channels > limit) {
				all[i] = append(all[i], c.Config)
			}
		}
	}
	return all
}

// ranked has a pass of the first at each size, one of the second, and so on, of what there is. The default fills up.
func ranked(all [][]nccl.Config, most int) (passes []Pass) {
	for k := range most {
		var pass Pass
		is := false
		for i := range all {
			c := ByDefault
			if k < len(all[i]) {
				c, is = all[i][k], true
			}
			pass = append(pass, c)
		}
		if is {
			passes = append(passes, pass)
		}
	}
	return passes
}

// Verification returns what to measure in a fresh start: the default and the fastest at each size, in turns. Of a
// smaller communicator's group it returns all that is measured on this one.
func (s Space) Verification(g *Group) Plan {
	if plan := s.Meeting(g); slices.ContainsFunc(plan.Passes, func(p Pass) bool {
		return slices.ContainsFunc(p, nccl.Config.Known)
	}) {
		return plan
	}
	return Plan{Stage: StageOver}
}

// Meeting is the start of a setting that tells how it compares with others: a verification, also where nothing is near
// to the default. group is what was measured under this setting, or for its first start under the site's own.
func (s Space) Meeting(g *Group) Plan {
	r := newRace(s, g)
	all := ranked(r.contenders(Contenders), Contenders)
	if g.Key != s.Key {
		all = ranked(r.carried(), Carried)
	}
	plan := Plan{Stage: StageVerify, Sizes: s.Sizes, Passes: slices.Insert(all, 0, r.everywhere(ByDefault))}
	if s.Single {
		plan.Passes = append(plan.Passes, plan.Passes[0])
	} else {
		plan.Passes = slices.Repeat(plan.Passes, Turns)
	}
	return plan
}

// Round is one more round, of what may be faster than all that was measured.
func (s Space) Round(group *Group) Plan { return newRace(s, group).round(false) }

// carried is what is measured at each size on more nodes than those of the group.
func (r *race) carried() [][]nccl.Config {
	all := r.contenders(1)
	for i, best := range all {
		if len(best) == 0 {
			continue
		}
		for _, n := range slices.Backward(r.Space.channels(best[0].Algo)) {
			fewer := nccl.Config{Cell: best[0].Cell, Channels: n}
			if 0 < n && n < best[0].Channels && !r.failed(fewer) {
				all[i] = append(best, fewer)
				break
			}
		}
	}
	return all
}

// verifiedAt is how many starts verified each of some sizes at the least.
func (g *Group) verifiedAt(sizes []uint64) int {
	least := math.MaxInt
	for _, b := range sizes {
		d, _ := g.defaultAt(b)
		least = min(least, d.Verified)
	}
	return least
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

// failed reports whether a configuration did not run, or its family with any count.
func (s Space) failed(c nccl.Config) bool {
	return slices.Contains(s.Failed, c) || slices.Contains(s.Failed, nccl.Config{Cell: c.Cell})
}

func (g *Group) pointsOf(c nccl.Config) []Point {
	i, _ := slices.BinarySearchFunc(g.Points, Point{Config: c}, Point.compare)
	j := i
	for j < len(g.Points) && g.Points[j].Config == c {
		j++
	}
	return g.Points[i:j]
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
		if _, ok := g.at(a.Config, a.Bytes); !ok && !s.failed(a.Config) &&
			!slices.Contains(s.NotOffered, a.Config.Cell) {
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

// Limit bounds the channels of an algorithm.
func (s *Space) Limit(a nccl.Algo, most int) {
	if limit, limited := s.Limits[a]; !limited || most < limit {
		if s.Limits == nil {
			s.Limits = map[nccl.Algo]int{}
		}
		s.Limits[a] = most
	}
}

// Starts is how many starts of nccl-tests the group is of.
func (g *Group) Starts() int { return g.starts }
