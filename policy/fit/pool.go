package fit

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Pool collects samples, one at a time.
type Pool struct {
	// MadeWith is the release of NCCL that all was measured with, as "2.28.9" or "RCCL 2.27.7". Empty: the samples
	// tell theirs.
	MadeWith string

	Offers OffersFunc // nil: nothing is known

	// Runs names the conditions to keep: graph, eager or a bench.Conditions.String. Empty: all.
	Runs string

	groups  map[Key]map[bench.Series][]*reading
	order   []bench.Conditions // as they were first read
	refused map[string]int
	rows    int
	failed  map[Key][]nccl.Config
	asked   map[Key]map[Request]bool
	// unlabelled counts what is refused by RefusedLabel.
	unlabelled map[Key]int
	reached    map[channelsOf]int

	machines map[model.MeasuredOn]*model.MeasuredOn
	file     string // that is being read
}

// OffersFunc reports whether NCCL offers a cell for a collective on a communicator, with the releases of Set.NCCL; true
// where that is not known.
type OffersFunc func(key Key, cell nccl.Cell, with string) bool

// Reasons to refuse a sample, besides those of refusedFor. A user reads them as they are.
const (
	RefusedComm    = "number of nodes or ranks is not known"
	RefusedLabel   = "algorithm or protocol is not known (NCCL_PROTO, or --algo and --proto of tunefit import)"
	RefusedOneRank = "1 rank communicates with nobody"
	refusedOffer   = "not available here"

	refusedConditions = "measured under other conditions than --runs names"
	refusedSettings   = "measured under other settings of the job than the chosen one"
)

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{
		groups: map[Key]map[bench.Series][]*reading{}, refused: map[string]int{}, failed: map[Key][]nccl.Config{},
		asked: map[Key]map[Request]bool{}, unlabelled: map[Key]int{}, reached: map[channelsOf]int{},
		machines: map[model.MeasuredOn]*model.MeasuredOn{},
	}
}

// Add takes a sample that package bench has read, or counts why it does not.
func (p *Pool) Add(s *bench.Sample) {
	p.rows++
	switch {
	case s.Nodes < 1 || s.Ranks < 1:
		p.refused[RefusedComm]++
		return
	case s.Ranks == 1:
		p.refused[RefusedOneRank]++
		return
	case !s.Known() && s.Selection != bench.SelectionDefault:
		p.refused[RefusedLabel]++
		p.unlabelled[Key{Coll: s.Coll, Comm: s.Comm}]++
		return
	}
	v := s.Series()
	r := &reading{Sample: *s, source: source{p.file, s.File()}}
	if !v.Named(p.Runs) && !bench.NamedConditions(p.Runs).Cover(v.Conditions, r.forcedChannels()) {
		p.refused[refusedConditions]++
		return
	}
	key := Key{Coll: s.Coll, Comm: s.Comm}
	if p.groups[key] == nil {
		p.groups[key] = map[bench.Series][]*reading{}
	}
	p.count(s)
	p.reach(s)
	if !s.Known() {
		r.Config = unknownConfig
	}
	p.groups[key][v] = append(p.groups[key][v], r)
	if !slices.Contains(p.order, v.Conditions) {
		p.order = append(p.order, v.Conditions)
	}
}

// under is the pool of what was measured under some conditions alone.
func (p *Pool) under(c bench.Conditions) *Pool {
	only := *p
	only.groups, only.refused = map[Key]map[bench.Series][]*reading{}, maps.Clone(p.refused)
	for key, all := range p.groups {
		for v, readings := range all {
			switch {
			case v.Conditions != c:
				only.refused[refusedSettings] += len(readings)
			case only.groups[key] == nil:
				only.groups[key] = map[bench.Series][]*reading{v: readings}
			default:
				only.groups[key][v] = readings
			}
		}
	}
	return &only
}

// Fail takes a configuration that did not run; of a size: that did not run there as it was asked for.
func (p *Pool) Fail(s *bench.Sample) {
	key := Key{Coll: s.Coll, Comm: s.Comm}
	if s.Bytes == 0 {
		p.failed[key] = append(p.failed[key], s.Config)
		return
	}
	if p.asked[key] == nil {
		p.asked[key] = map[Request]bool{}
	}
	p.asked[key][Request{s.Config, s.Bytes}] = true
}

// Set is what a pool held: groups ready to be fitted.
type Set struct {
	Groups    []*Group // ordered by key
	Rows      int      // samples offered
	Used      int      // of which are in Groups
	Simulated int      // of the accepted, made up rather than measured
	Refused   []Refusal
	// Machines are those measured, what has most rows first. One without a name holds
	// the rows that do not tell theirs.
	Machines []model.MeasuredOn
	NCCL     string // releases that it was measured with, as far as they are known: "2.28.9, 2.30.7"
	// Failed are configurations that did not run.
	Failed map[Key][]nccl.Config
	// Asked is what did not run as it was asked for.
	Asked map[Key]map[Request]bool
}

// Of returns the group of a key; nil: nothing of it was measured.
func (s *Set) Of(key Key) *Group {
	if s == nil {
		return nil
	}
	for _, g := range s.Groups {
		if g.Key == key {
			return g
		}
	}
	return nil
}

// Refusal counts samples that were not used.
type Refusal struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
	// NotNeeded: they are good, and others of the same calls are used, as out-of-place times where both were measured.
	NotNeeded bool `json:"not_needed,omitempty"`
}

// Set pools repetitions and looks for aliases and contradictions. The pool may go on
// taking samples.
func (p *Pool) Set() *Set {
	s := &Set{Rows: p.rows, Failed: maps.Clone(p.failed), Asked: p.asked}
	for _, m := range p.machines {
		s.Machines = append(s.Machines, *m)
	}
	slices.SortFunc(s.Machines, func(a, b model.MeasuredOn) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.String(), b.String()))
	})
	s.NCCL = cmp.Or(p.MadeWith, strings.Join(s.distinct(func(m *model.MeasuredOn) string { return m.NCCL }), ", "))
	refused, notNeeded := maps.Clone(p.refused), map[string]bool{refusedSettings: true}
	var readings [][]*reading // of each group
	for key, g := range p.groups {
		nameUnnamed(g)
		joinBounds(g)
		unoffered, failed := p.unoffered(s, key, g)
		if len(failed) > 0 {
			s.Failed[key] = failed
		}
		most := mainSeries(g)
		under := map[bench.Conditions]int{}
		for v, all := range g {
			under[v.Conditions] += len(all)
			if v != most {
				why := refusedFor(most, v)
				refused[why] += len(all)
				notNeeded[why] = most.Conditions == v.Conditions
			}
		}
		var left []*reading
		for _, r := range g[most] {
			switch {
			case slices.Contains(unoffered, r.Cell):
				refused[refusedOffer]++
				continue
			case r.Simulated:
				s.Simulated++
			}
			left = append(left, r)
		}
		s.Used += len(left)
		s.Groups = append(s.Groups,
			&Group{Key: key, NotOffered: unoffered, Under: under, Unlabelled: p.unlabelled[key]})
		readings = append(readings, left)
	}
	each(len(readings), func(i int) { s.Groups[i].fill(readings[i]) })
	slices.SortFunc(s.Groups, func(a, b *Group) int { return a.Compare(b.Key) })
	onlyLower, neverMore := channelRules(s.NCCL)
	for _, g := range s.Groups {
		g.onlyLower, g.neverMore = onlyLower, neverMore
		for reason, n := range g.dropUnsettable(s.Releases()) {
			g.Unsettable = true
			refused[reason] += n
			s.Used -= n
		}
		g.floored = p.onlyWithMinChannels(g)
		g.own = g.ownChannels(s.Asked[g.Key])
	}
	s.Simulated = min(s.Simulated, s.Used)
	for reason, n := range refused {
		s.Refused = append(s.Refused, Refusal{reason, n, notNeeded[reason]})
	}
	slices.SortFunc(s.Refused, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Reason, b.Reason))
	})
	return s
}

// nameUnnamed counts samples without a data type, as in a sweep that leaves it out, as those of the one that has
// most: nccl-tests has a default, and logs always name theirs.
func nameUnnamed(g map[bench.Series][]*reading) {
	for v, all := range g {
		if v.DType != "" || v.RedOp != "" {
			continue
		}
		var named []bench.Series
		for o := range g {
			if o.DType != "" && o.InPlace == v.InPlace && o.Conditions == v.Conditions {
				named = append(named, o)
			}
		}
		if len(named) == 0 {
			continue
		}
		most := slices.MinFunc(named, mostReadings(g))
		g[most] = append(g[most], all...)
		delete(g, v)
	}
}

// joinBounds counts runs that forced a number of channels as runs under each bound of channels that allows it: a
// communicator of that many channels is the same with the bound. So they are compared with the default under it.
func joinBounds(g map[bench.Series][]*reading) {
	for v, all := range maps.Clone(g) {
		var left []*reading
		for _, r := range all {
			n, joined := r.forcedChannels(), false
			for o := range g {
				other := o
				other.Conditions = v.Conditions
				if other == v && o.Cover(v.Conditions, n) {
					g[o] = append(g[o], r)
					joined = true
				}
			}
			if !joined {
				left = append(left, r)
			}
		}
		switch {
		case len(left) == 0:
			delete(g, v)
		case slices.ContainsFunc(left, (*reading).byDefault): // all are compared with that default, too
		default:
			g[v] = left
		}
	}
}

// refusedFor says why samples of another series are not used, and what is used instead.
// Nearly every sweep has some.
func refusedFor(v, other bench.Series) string {
	placement := map[bool]string{false: "out-of-place", true: "in-place"}
	if other.Conditions != v.Conditions {
		return fmt.Sprintf("measured under %s: never compared with %s", other.Conditions, v.Conditions)
	}
	if other.DType == v.DType && other.RedOp == v.RedOp {
		return fmt.Sprintf("%s; %s is kept (normal: nccl-tests measures both, and NCCL does not tell a tuner which "+
			"it is)", placement[other.InPlace], placement[v.InPlace])
	}
	return fmt.Sprintf("other data types or reductions; %s is kept (normal where several were measured: NCCL does "+
		"not tell a tuner which it is)",
		strings.TrimSpace(strings.TrimSpace(cmp.Or(v.DType, "the unnamed type")+" "+v.RedOp)+" "+placement[v.InPlace]))
}

// mainSeries is the one with the most points; of equals the one with most rows,
// then the first in order.
func mainSeries(g map[bench.Series][]*reading) bench.Series {
	number := map[bench.Series]int{} // of points
	for v, all := range g {
		for range points(all) {
			number[v]++
		}
	}
	return slices.MinFunc(slices.Collect(maps.Keys(g)), func(a, b bench.Series) int {
		return cmp.Or(cmp.Compare(number[b], number[a]), mostReadings(g)(a, b))
	})
}

func mostReadings(g map[bench.Series][]*reading) func(a, b bench.Series) int {
	return func(a, b bench.Series) int {
		return cmp.Or(cmp.Compare(len(g[b]), len(g[a])), a.Compare(b))
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fill makes a group of what was pooled, in the order of arrival.
func (g *Group) fill(all []*reading) {
	starts := map[startOf]int{}
	g.verifiedIn, g.verifying = -1, map[int]bool{}
	for _, r := range all {
		of := startOf{r.source, r.Start}
		if _, ok := starts[of]; !ok {
			starts[of] = len(starts)
		}
		if r.start = starts[of]; r.Verify {
			g.verifiedIn, g.verifying[r.start] = max(g.verifiedIn, r.start), true
		}
	}
	g.starts = len(starts)
	var measured []series
	var within []float64
	var several []sourced // medians of each point that several sources measured
	for readings := range points(all) {
		first := readings[0]
		s := series{Point: Point{Config: first.Config, Bytes: first.Bytes}, single: first.Micros,
			byDefault: first.byDefault()}
		if s.byDefault {
			s.Config = mostNamed(readings)
		}
		for _, r := range readings {
			s.times = append(s.times, timing{r.start, math.Log(r.Micros)})
		}
		slices.SortStableFunc(s.times, func(a, b timing) int { return cmp.Compare(a.start, b.start) })
		measured = append(measured, s)
		if m := medians(readings, &within); len(m) > 1 {
			several = append(several, sourced{s.Bytes, m})
		}
	}
	g.series = measured
	g.measure(measured)
	for _, s := range measured {
		if s.byDefault {
			g.Default = append(g.Default, s.Point)
		} else {
			g.Points = append(g.Points, s.Point)
		}
	}
	slices.SortFunc(g.Points, Point.compare)
	slices.SortFunc(g.Default, func(a, b Point) int { return cmp.Compare(a.Bytes, b.Bytes) })
	g.Contradictions = findContradictions(several, within)
	g.findAliases()
}

// startOf names a start of nccl-tests.
type startOf struct {
	source source
	start  int
}

// mostNamed is the label that the default has most often. It changes with versions of the library, and runs without
// NCCL's log of each call have none.
func mostNamed(readings []*reading) nccl.Config {
	most, times := unknownConfig, map[nccl.Config]int{}
	for _, r := range readings {
		times[r.Config]++
	}
	for c, n := range times {
		if c != unknownConfig && (most == unknownConfig || n > times[most] || n == times[most] && c.Compare(most) > 0) {
			most = c
		}
	}
	return most
}

// reading is an accepted sample in the pool.
type reading struct {
	bench.Sample
	source source
	start  int // of the group, from 0
}

// forcedChannels returns how many channels NCCL's variables forced, of which a small call may use fewer; 0: none.
func (r *reading) forcedChannels() int {
	if r.Setup == nil || r.Selection != bench.SelectionForced {
		return 0
	}
	n, _ := strconv.Atoi(cmp.Or(r.Setup.MinChannels, r.Setup.MinCTAs))
	if r.Channels > n { // that was a least number
		return 0
	}
	return n
}

func (r *reading) byDefault() bool { return r.Selection == bench.SelectionDefault }

// points yields the readings that are repetitions of one another, in the order of arrival. Channel counts that NCCL
// chose are left out: to keep them would split one curve into many. Where runs asked for some counts of an algorithm
// and protocol, the others are repetitions of these.
func points(all []*reading) iter.Seq[[]*reading] {
	asked := map[nccl.Cell]bool{}
	for _, r := range all {
		if r.Channels > 0 && (r.Selection == bench.SelectionForced || r.Selection == bench.SelectionUnknown) {
			asked[r.Cell] = true
		}
	}
	inOrder := make([]*reading, len(all))
	for i, r := range all {
		if r.Selection == bench.SelectionOwnChannels && !asked[r.Cell] {
			own := *r
			own.Channels, r = 0, &own
		}
		inOrder[i] = r
	}
	compare := func(a, b *reading) int {
		if by := cmp.Or(boolToInt(a.byDefault())-boolToInt(b.byDefault()), cmp.Compare(a.Bytes, b.Bytes)); by != 0 ||
			a.byDefault() {
			return by
		}
		return a.Config.Compare(b.Config)
	}
	slices.SortStableFunc(inOrder, compare)
	return func(yield func([]*reading) bool) {
		for from := 0; from < len(inOrder); {
			to := from + 1
			for to < len(inOrder) && compare(inOrder[from], inOrder[to]) == 0 {
				to++
			}
			if !yield(inOrder[from:to]) {
				return
			}
			from = to
		}
	}
}

// count adds an accepted sample to those of its machine.
func (p *Pool) count(s *bench.Sample) {
	var setup bench.Setup
	if s.Setup != nil {
		setup = *s.Setup
	}
	on := model.MeasuredOn{GPU: setup.GPU, Hosts: setup.Hosts, NCCL: setup.NCCL, Driver: setup.Driver,
		Tuner: setup.Tuner}
	m := p.machines[on]
	if m == nil {
		m = new(on)
		m.Source = s.File()
		p.machines[on] = m
	}
	m.Rows++
	if setup.Time != "" && (m.Begun == "" || setup.Time < m.Begun) {
		m.Begun = setup.Time
	}
}

// Begin says from which file the next samples are read. It tells files apart whose
// samples name the same sources.
func (p *Pool) Begin(file string) { p.file = file }

// GPUs lists the different models of GPU, as far as they are known. Drivers name one
// with the vendor's name or without.
func (s *Set) GPUs() []string {
	return s.distinct(func(m *model.MeasuredOn) string { return strings.ReplaceAll(m.GPU, "NVIDIA ", "") })
}

// Releases are those that a policy made of the set is for.
func (s *Set) Releases() nccl.Releases { return (&model.Provenance{NCCL: s.NCCL}).Releases() }

func (s *Set) distinct(of func(*model.MeasuredOn) string) (all []string) {
	for i := range s.Machines {
		if name := of(&s.Machines[i]); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Under are the known conditions of all groups, in order.
func (s *Set) Under() []bench.Conditions {
	found := map[bench.Conditions]bool{}
	for _, g := range s.Groups {
		for under := range g.Under {
			if under != (bench.Conditions{}) {
				found[under] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(found), bench.Conditions.Compare)
}

// mostMachines bounds what a model's file lists.
const mostMachines = 50
