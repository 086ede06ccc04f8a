package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/simulate"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// cluster measures what a grid says, with noise, on a machine that drifts.
type cluster struct {
	truth  *Group
	space  Space
	noise  float64
	drift  func(start, verified int) float64 // factor of all times of a start; verified starts are of the verification
	random *rand.Rand
	tails  float64 // share of times that take 30 % longer
	draws  float64 // what each start draws for each configuration and size, in ln(us)

	samples                  []bench.Sample
	starts, verified, passes int
	seconds                  float64
}

const (
	startSeconds = 5
	callsAtSize  = 45 // nccl-tests' 20 and 5 to warm up, out of place, and 20 in place
)

func newCluster(truth *Group, noise float64, seed uint64, drift func(start, verified int) float64) *cluster {
	c := &cluster{truth: truth, space: spaceOf(truth), noise: noise, drift: drift,
		random: rand.New(rand.NewPCG(seed, 21))}
	c.space.Asked = map[Request]bool{}
	if drift == nil {
		c.drift = func(int, int) float64 { return 1 }
	}
	return c
}

// spaceOf is everything that was measured of a grid. Of one with NCCL's own channels other counts are asked for in
// vain.
func spaceOf(g *Group) Space {
	s := Space{Key: g.Key, Sizes: g.Sizes()}
	for _, c := range g.Configs() {
		if !slices.Contains(s.Families, c.Cell) {
			s.Families = append(s.Families, c.Cell)
		}
		if c.Channels > 0 && !slices.Contains(s.Channels, c.Channels) {
			s.Channels = append(s.Channels, c.Channels)
		}
	}
	if slices.Sort(s.Channels); len(s.Channels) == 0 {
		s.Channels = []int{1, 2, 4, 8, 16, 24, 32}
	}
	return s
}

// run measures a plan: in its starts, or each pass in one of its own.
func (c *cluster) run(plan Plan) {
	each := len(plan.Passes)
	if c.space.Single {
		each = 1
	}
	for range max(1, plan.Starts) {
		for passes := range slices.Chunk(plan.Passes, each) {
			c.start(plan.Sizes, passes, plan.Stage == StageVerify)
		}
	}
}

func (c *cluster) start(sizes []uint64, passes []Pass, verify bool) {
	if verify {
		c.verified++
	}
	c.starts++
	c.seconds += startSeconds
	drawn := map[Request]float64{}
	for n, pass := range passes {
		c.passes++
		for i, b := range sizes {
			s := bench.Sample{
				Call: nccl.Call{Coll: c.truth.Coll, Bytes: b}, Comm: c.truth.Comm, DType: "float", Verify: verify,
				Start: c.starts, Pass: n + 1, Config: ByDefault, Selection: bench.SelectionDefault,
			}
			asked := c.capped(pass[i])
			point, ok := c.truth.defaultAt(b)
			if asked != ByDefault {
				c.space.Asked[Request{asked, b}] = true
				s.Selection = bench.SelectionForced
				if point, ok = c.truth.at(asked, b); !ok {
					s.Selection = bench.SelectionOwnChannels
					point, ok = c.truth.at(nccl.Config{Cell: asked.Cell}, b)
				}
				if !ok && !slices.Contains(c.space.Failed, asked) {
					c.space.Failed = append(c.space.Failed, asked)
				}
				s.Algo, s.Proto, s.Channels = asked.Algo, asked.Proto, point.Config.Channels
			}
			if !ok {
				continue
			}
			at := Request{asked, b}
			if _, is := drawn[at]; !is {
				drawn[at] = c.draws * c.random.NormFloat64()
			}
			c.seconds += callsAtSize * point.Micros / 1e6
			s.Micros = point.Micros * math.Exp(c.noise*c.random.NormFloat64()+drawn[at]) * c.drift(c.starts, c.verified)
			if c.tails > 0 && c.random.Float64() < c.tails {
				s.Micros *= 1.3
			}
			c.samples = append(c.samples, s)
		}
	}
}

// capped is what runs where more channels are asked for than the machine has. It is known once something ran.
func (c *cluster) capped(asked nccl.Config) nccl.Config {
	most := 0
	for _, has := range c.truth.Configs() {
		if has.Algo == asked.Algo {
			most = max(most, has.Channels)
		}
	}
	if most > 0 {
		c.space.Limit(asked.Algo, most)
		asked.Channels = min(asked.Channels, most)
	}
	return asked
}

func (c *cluster) group() *Group {
	if len(c.samples) == 0 {
		return nil
	}
	return c.set().Of(c.truth.Key)
}

func (c *cluster) set() *Set {
	p := NewPool()
	for i := range c.samples {
		p.Add(&c.samples[i])
	}
	return p.Set()
}

// sweep is a whole one, with its verification.
func (c *cluster) sweep(t *testing.T) *Group {
	t.Helper()
	for plan := c.space.Next(nil); len(plan.Passes) > 0; plan = c.space.Next(c.group()) {
		c.run(plan)
		if c.starts > 2+2*len(c.space.Channels)*len(c.space.Families) {
			t.Fatalf("the sweep does not end: %+v", plan)
		}
	}
	return c.group()
}

// outcome of sweeps: sums over them, and over sizes.
type outcome struct {
	sweeps, starts, passes, share, sizes, regret, worst, harm, harmWorst float64
}

func (o *outcome) add(t *testing.T, c *cluster) {
	t.Helper()
	g := c.sweep(t)
	whole := float64(startSeconds)
	for _, d := range c.truth.Default {
		whole += callsAtSize * d.Micros / 1e6
	}
	for _, config := range c.truth.Configs() {
		whole += startSeconds
		for _, point := range c.truth.pointsOf(config) {
			whole += callsAtSize * point.Micros / 1e6
		}
	}
	o.sweeps, o.starts, o.share = o.sweeps+1, o.starts+float64(c.starts), o.share+c.seconds/whole
	o.passes += float64(c.passes)
	choose := rowsChoice(g)
	for b, points := range c.truth.bySize() {
		d, ok := c.truth.defaultAt(b)
		if !ok {
			continue
		}
		us, least := d.Micros, min(d.Micros, slices.MinFunc(points, compareTimes).Micros)
		if config, ok := choose(b); ok {
			us = c.truth.timeOf(config, b)
		}
		o.sizes, o.regret, o.worst, o.harmWorst = o.sizes+1, o.regret+us/least, max(o.worst, us/least),
			max(o.harmWorst, us/d.Micros)
		if us > harmful*d.Micros {
			o.harm++
		}
	}
}

func (o outcome) String() string {
	return fmt.Sprintf("share %.3f, %.4f/%.3f, harm %.1f %% %.3f, starts %.1f, passes %.1f", o.share/o.sweeps, o.regret/o.sizes,
		o.worst, 100*o.harm/o.sizes, o.harmWorst, o.starts/o.sweeps, o.passes/o.sweeps)
}

// raceGrids are measured grids without gaps.
func raceGrids(t *testing.T) (all []grid) {
	all = grids(t)
	for _, g := range reduceScatters(t) {
		all = append(all, grid{g.name + " reduce_scatter", withDefault(g.Group, nccl.AlgoRing)})
	}
	for _, g := range all {
		fillGaps(g.Group)
	}
	return all
}

// fillGaps joins what was measured of each configuration. Beyond the last of it a time grows with the size.
func fillGaps(g *Group) {
	var all []Point
	for _, c := range g.Configs() {
		points := g.pointsOf(c)
		for _, b := range g.Sizes() {
			point, ok := g.at(c, b)
			if !ok {
				us := between(points, b)
				if last := points[len(points)-1]; b > last.Bytes {
					us = last.Micros * float64(b) / float64(last.Bytes)
				} else if b < points[0].Bytes {
					us = points[0].Micros
				}
				point = Point{Config: c, Bytes: b, Micros: us, Reps: 1}
			}
			all = append(all, point)
		}
	}
	g.Points = all
}

// sum adds outcomes up.
func (o *outcome) sum(p outcome) {
	o.sweeps, o.starts, o.share, o.sizes = o.sweeps+p.sweeps, o.starts+p.starts, o.share+p.share, o.sizes+p.sizes
	o.passes += p.passes
	o.regret, o.worst, o.harm, o.harmWorst = o.regret+p.regret, max(o.worst, p.worst), o.harm+p.harm, max(o.harmWorst,
		p.harmWorst)
}

const raceSeeds = 10

// Whole sweeps, with their verification, of grids that were measured whole: what they take and find, and no harm.
func TestTargetRace(t *testing.T) {
	for _, noise := range []float64{0.003, 0.02} {
		var aimed outcome
		for _, g := range raceGrids(t) {
			var o outcome
			for seed := range uint64(raceSeeds) {
				o.add(t, newCluster(g.Group, noise, seed, nil))
			}
			t.Logf("%-27s noise %.1f %%: %v", g.name, 100*noise, o)
			most := map[nccl.Coll]float64{nccl.CollAllReduce: 0.26, nccl.CollReduceScatter: 0.6,
				nccl.CollBroadcast: 0.5}[g.Coll]
			if len(g.Configs()) <= nccl.NumAlgos*nccl.NumProtos { // it takes more to verify than to measure
				most = 1.9
			} else if g.Coll != nccl.CollReduceScatter {
				aimed.sum(o)
			}
			if o.share/o.sweeps > most || o.regret/o.sizes > 1.016 || o.harm/o.sizes > 0.02 {
				t.Errorf("%s: it must be share %.2f, 1.016, harm 2 %%", g.name, most)
			}
		}
		mean := 1.003
		if noise > 0.01 {
			mean = 1.009
		}
		t.Logf("all  noise %.1f %%: %v", 100*noise, aimed)
		figure(t, "AllReduce and broadcast, share of the time", aimed.share/aimed.sweeps, 0.13, 0.12)
		figure(t, "AllReduce and broadcast, time / best", aimed.regret/aimed.sizes, mean, mean)
		figure(t, "AllReduce and broadcast, harm", aimed.harm/aimed.sizes, 0.01, 0)
	}
}

// While the machine becomes slower and faster, at first, during the verification, or all the time, no row takes that
// for a gain of its own.
func TestRaceWhileTheMachineDrifts(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	all := raceGrids(t)
	when := func(is bool, factor float64) float64 {
		if is {
			return factor
		}
		return 1
	}
	for _, by := range []float64{0.05, -0.05, 0.2, -0.2} {
		for name, drift := range map[string]func(start, verified int) float64{
			"at first":                     func(s, _ int) float64 { return when(s <= 4, 1+by) },
			"until the verification":       func(_, v int) float64 { return when(v == 0, 1+by) },
			"in its middle":                func(_, v int) float64 { return when(v == 2 || v == 3, 1+by) },
			"from its middle on":           func(_, v int) float64 { return when(v > 1, 1+by) },
			"while its default runs first": func(_, v int) float64 { return when(v == 1, 1+by) },
			"up and down":                  func(s, _ int) float64 { return 1 + by*math.Sin(2*math.Pi*float64(s)/16) },
		} {
			for _, noise := range []float64{0.003, 0.02} {
				var o outcome
				for _, g := range all {
					o.add(t, newCluster(g.Group, noise, 1, drift))
				}
				t.Logf("%+.0f %% %s, noise %.1f %%: %v", 100*by, name, 100*noise, o)
				if o.harm/o.sizes > 0.01 || o.harmWorst > 1.03 {
					t.Errorf("%+.0f %% %s, noise %.1f %%: harm at %.1f %% of the sizes, at most %.3f", 100*by, name,
						100*noise, 100*o.harm/o.sizes, o.harmWorst)
				}
			}
		}
	}
}

// Machines that nobody measured: NCCL's costs and what they do not know.
func TestRaceOfSimulatedMachines(t *testing.T) {
	machine, err := topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
	if err != nil {
		t.Fatal(err)
	}
	comms, err := channels.Tune(machine, channels.TuneOptions{Settings: topo.Settings{NCCL: nccl.Reference}}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, coll := range []nccl.Coll{nccl.CollAllReduce, nccl.CollReduceScatter, nccl.CollAllGather,
		nccl.CollBroadcast, nccl.CollReduce} {
		var all outcome
		for seed := range uint64(4) {
			for _, comm := range comms {
				o := simulate.Options{
					Tuning: comm.Tuning, System: "test", Seed: seed, Repetitions: 1, Noise: 0.007,
					Colls: []nccl.Coll{coll}, Channels: []int{1, 2, 4, 8, 16, 24, 32},
				}
				for n := uint64(4 << 10); n <= 1<<30; n *= 2 {
					o.Sizes = append(o.Sizes, n)
				}
				for _, g := range pooled(simulate.Sweep(o)).Groups {
					all.add(t, newCluster(g, 0.003, seed, nil))
				}
			}
		}
		t.Logf("%s: %v", coll, all)
		figure(t, coll.String()+", simulated, share of the time", all.share/all.sweeps, 0.67, 0.6)
		figure(t, coll.String()+", simulated, time / best", all.regret/all.sizes, 1.01, 1.005)
		figure(t, coll.String()+", simulated, harm", all.harm/all.sizes, 0.01, 0)
	}
}

// broadcastLike is a grid on which each channel costs latency: one wins at small sizes, many at large.
func broadcastLike(perChannel float64) *Group {
	g := &Group{Key: Key{Coll: nccl.CollBroadcast, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Noise: 0.01}
	latency, bandwidth, limit := []float64{6, 9, 15}, []float64{5, 18, 20}, []float64{90, 200, 240}
	for p := range nccl.Proto(nccl.NumProtos) {
		for _, c := range []int{1, 2, 4, 8, 16, 24, 32} {
			for b := uint64(1 << 10); b <= 1<<30; b *= 2 {
				us := latency[p]*(1+perChannel*float64(c-1)) + float64(b)/1000/min(bandwidth[p]*float64(c), limit[p])
				g.Points = append(g.Points,
					Point{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: p}, Channels: c}, Bytes: b,
						Micros: us, Reps: 1})
			}
		}
	}
	slices.SortFunc(g.Points, Point.compare)
	for _, b := range g.Sizes() { // a library that uses most channels
		d := Point{Config: unknownConfig, Bytes: b, Micros: math.Inf(1), Reps: 1}
		for _, c := range g.Points {
			if c.Bytes == b && c.Config.Channels == 32 {
				d.Micros = min(d.Micros, c.Micros)
			}
		}
		g.Default = append(g.Default, d)
	}
	return g
}

// A sweep that begins with most channels and ends where the next fewer gain nothing misses the other end.
func TestRaceFindsFewChannels(t *testing.T) {
	for _, perChannel := range []float64{0.045, 0.09, 0.135} {
		var o outcome
		o.add(t, newCluster(broadcastLike(perChannel), 0, 0, nil))
		name := fmt.Sprintf("%.1f %% of latency a channel", 100*perChannel)
		figure(t, name+", share of the time", o.share, 0.65, 0.55)
		figure(t, name+", time / best", o.regret/o.sizes, 1.01, 1.005)
	}
}

// mostPoints is the largest measured grid.
func mostPoints(t *testing.T) *Group {
	return slices.MaxFunc(grids(t), func(a, b grid) int { return len(a.Points) - len(b.Points) }).Group
}

// Stopped after some passes of a start, it goes on with what is not measured, and comes to an end.
func TestRaceGoesOn(t *testing.T) {
	for _, stopped := range []Stage{StageFirst, StageRound} {
		c := newCluster(mostPoints(t), 0.01, 1, nil)
		plan := c.space.Next(nil)
		for ; plan.Stage != stopped; plan = c.space.Next(c.group()) {
			c.run(plan)
		}
		half := plan
		half.Passes = half.Passes[:len(plan.Passes)/2]
		c.run(half)
		asked := map[Request]bool{}
		for _, pass := range half.Passes {
			for i, config := range pass {
				asked[Request{config, plan.Sizes[i]}] = true
			}
		}
		next := c.space.Next(c.group())
		fresh := 0
		for _, pass := range next.Passes {
			for i, config := range pass {
				if config != ByDefault && !asked[Request{config, next.Sizes[i]}] {
					fresh++
				}
			}
		}
		if fresh == 0 {
			t.Errorf("after half of %v it goes on with %+v", plan.Stage, next)
		}
		if g := c.sweep(t); g.verifiedAt(c.space.Sizes) == 0 {
			t.Error("it ends without a verification")
		}
	}
}

// A sweep that is finished measures what it is asked for in addition, and nothing else anew.
func TestRaceIsExtended(t *testing.T) {
	truth := mostPoints(t)
	whole := spaceOf(truth)
	for name, change := range map[string]func(s *Space){
		"sizes":    func(s *Space) { s.Sizes = s.Sizes[:len(s.Sizes)/2] },
		"families": func(s *Space) { s.Families = s.Families[:2] },
		"channels": func(s *Space) { s.Channels = s.Channels[:4] },
	} {
		c := newCluster(truth, 0.003, 1, nil)
		change(&c.space)
		c.sweep(t)
		if plan := c.space.Next(c.group()); len(plan.Passes) > 0 {
			t.Errorf("%s: at its end it goes on with %+v", name, plan)
		}
		before := len(c.samples)
		if name == "channels" {
			c.space.Fresh = whole.Channels[4:]
		}
		c.space.Sizes, c.space.Families, c.space.Channels = whole.Sizes, whole.Families, whole.Channels
		plan := c.space.Next(c.group())
		if name == "sizes" && (plan.Stage != StageFirst || plan.Sizes[0] != whole.Sizes[len(whole.Sizes)/2]) ||
			name == "families" && plan.Stage != StageFirst || name == "channels" && plan.Stage != StageRound {
			t.Errorf("%s: it goes on with %+v", name, plan)
		}
		g := c.sweep(t)
		for _, b := range whole.Sizes {
			choose := rowsChoice(g)
			best := slices.MinFunc(truth.bySize()[b], compareTimes).Micros
			if config, ok := choose(b); ok && truth.timeOf(config, b) > 1.07*best {
				t.Errorf("%s: at %d it takes %v, %.3f times the best", name, b, config, truth.timeOf(config, b)/best)
			}
		}
		if len(c.samples) == before {
			t.Errorf("%s: nothing was measured", name)
		}
	}
}

// Where a start measures one pass, the same race takes more starts, and finds as much.
func TestRaceOfSinglePasses(t *testing.T) {
	for _, noise := range []float64{0.003, 0.02} {
		var o outcome
		for _, g := range channelGrids(t) {
			for seed := range uint64(raceSeeds) {
				c := newCluster(g.Group, noise, seed, nil)
				c.space.Single = true
				o.add(t, c)
			}
		}
		t.Logf("noise %.1f %%: %v", 100*noise, o)
		if o.regret/o.sizes > 1.0125 || o.harm/o.sizes > 0.01 || o.share/o.sweeps > 0.4 {
			t.Errorf("noise %.1f %%: %v", 100*noise, o)
		}
	}
}

// What the machine does not have is not planned.
func TestRaceWithinTheMachine(t *testing.T) {
	s := Space{
		Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Sizes: []uint64{1 << 20},
		Channels: []int{1, 8, 16, 24, 32},
		Families: []nccl.Cell{{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL},
			{Algo: nccl.AlgoNVLS, Proto: nccl.ProtoSimple}},
		Limits: map[nccl.Algo]int{nccl.AlgoRing: 20, nccl.AlgoNVLS: 16},
	}
	if got := fmt.Sprint(s.channels(nccl.AlgoRing), s.channels(nccl.AlgoNVLS)); got != "[1 8 16 20] [1 8 16]" {
		t.Errorf("channels %s", got)
	}
	g := &Group{Key: s.Key, Noise: assumedNoise, Default: []Point{{Bytes: 1 << 20, Micros: 50}}}
	for _, pass := range s.Next(g).Passes {
		if c := pass[0]; c != ByDefault && c.Channels > s.Limits[c.Algo] {
			t.Errorf("planned %v", c)
		}
	}
}
