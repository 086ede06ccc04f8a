package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// timing is one measured time, in ln(us), and the start of nccl-tests that it is of.
type timing struct {
	start int // of the group, from 0, in the order of arrival
	ln    float64
}

// series are all times of a configuration, or of the default, at one size.
type series struct {
	Point
	byDefault bool
	single    float64  // the first time, as it was read
	times     []timing // by start
}

// ofStart are the times of a series in one start, in ln(us), and their middle.
type ofStart struct {
	start  int
	times  []float64
	middle float64
}

// byStart returns the times by start, in order. A start's level is taken off.
func (s *series) byStart(level map[int]float64) (all []ofStart) {
	for _, t := range s.times {
		if n := len(all); n == 0 || all[n-1].start != t.start {
			all = append(all, ofStart{start: t.start})
		}
		of := &all[len(all)-1]
		of.times = append(of.times, t.ln-level[t.start])
	}
	for i := range all {
		all[i].middle = stats.Middle(all[i].times)
	}
	return all
}

// levels returns how much slower whole starts were than others, in ln(us). That is told by what several starts have
// measured, and shrunk where few times tell. A start of one configuration has no level: nothing tells it apart from
// what the start drew for the configuration.
func levels(all []series) map[int]float64 {
	type at struct {
		start int
		bytes uint64
	}
	configs, shared := map[at]int{}, map[int]bool{}
	var several []*series
	for i := range all {
		s := &all[i]
		for k, t := range s.times {
			if k > 0 && t.start == s.times[k-1].start {
				continue
			}
			at := at{t.start, s.Bytes}
			if configs[at]++; configs[at] > 1 {
				shared[t.start] = true
			}
		}
		if s.times[0].start != s.times[len(s.times)-1].start {
			several = append(several, s)
		}
	}
	level := map[int]float64{}
	const rounds, few = 8, 3
	for range rounds {
		rest := map[int][]float64{}
		for _, s := range several {
			var v []float64
			for _, t := range s.times {
				v = append(v, t.ln-level[t.start])
			}
			middle := stats.Median(v)
			for _, t := range s.times {
				if shared[t.start] {
					rest[t.start] = append(rest[t.start], t.ln-middle)
				}
			}
		}
		for start, v := range rest {
			if n := float64(len(v)); n >= few {
				level[start] = stats.Median(v) * n / (n + few)
			}
		}
	}
	return level
}

// measure sets the times of all series, and the two kinds of noise of the group.
func (g *Group) measure(all []series) {
	level := levels(all)
	var inner, outer []float64 // deviations from the middle, of repetitions in a start and of starts
	var repeated []float64     // how many times are behind each of outer
	for i := range all {
		s := &all[i]
		starts, middles := s.byStart(level), []float64(nil)
		for _, of := range starts {
			middles = append(middles, of.middle)
			inner = append(inner, stats.Deviations(of.times, of.middle)...)
			if g.verifying[of.start] {
				s.Verified++
			}
			if len(starts) > 1 {
				repeated = append(repeated, float64(len(of.times)))
			}
		}
		s.Reps, s.Starts, s.Since = len(s.times), len(starts), s.times[0].start
		if s.Micros = math.Exp(stats.Middle(middles)); s.Reps == 1 && level[s.Since] == 0 {
			s.Micros = s.single
		}
		if len(middles) > 1 {
			outer = append(outer, stats.Deviations(middles, stats.Median(middles))...)
		}
	}
	g.parts = stats.Nested{Between: square(assumedNoise)}
	seen := 0.0
	if len(inner) >= 2*fewPairs {
		g.parts.Within = min(square(stats.Sigma(inner)), square(probableNoiseMax))
		seen = g.parts.Within
	}
	if len(outer) >= 2*fewPairs {
		both := min(square(stats.Sigma(outer)), square(probableNoiseMax))
		g.parts.Between = max(0, both-g.parts.Within/stats.Mean(repeated))
		seen = g.parts.Within + g.parts.Between
	}
	if g.Noise, g.NoisePairs = assumedNoise, (len(inner)+len(outer))/2; seen > 0 {
		g.Noise = max(math.Sqrt(seen), leastNoise)
	}
}

func square(x float64) float64 { return x * x }

// variance is that of a point's ln(us). A start draws something for each configuration at each size, as the way that
// its connections take; repetitions in the start do not average that out.
func (g *Group) variance(c Point) float64 {
	return g.parts.OfMean(float64(max(1, c.Starts)), float64(max(1, c.Reps)))
}

// verdict is what repeated times decide at one size.
type verdict struct {
	byDefault, best Point   // best is byDefault where no other configuration was repeated
	seen            float64 // gain of best by its times, in ln(us)
	gain, spread    float64 // what the gain is expected to be, and its standard deviation
}

// wins reports whether the configuration is chosen over the default.
func (v verdict) wins() bool { return v.gain > leastGain && v.gain-sure*v.spread > -mostLoss }

// verdicts returns one for each size at which the default was measured more than once, and something else too, by
// ascending size.
//
// The fastest of several configurations is partly the luckiest, and a small gain may be luck altogether. So the gain
// that is seen is drawn to zero, by the more the less it exceeds its noise: the mean of a normal variable of which the
// gains of this cluster tell how far it spreads (an empirical Bayes estimate, as of James and Stein, 1961).
func (g *Group) verdicts() (all []verdict) {
	bySize := g.bySize()
	var spread []float64
	for _, d := range g.Default {
		repeated := slices.DeleteFunc(slices.Clone(bySize[d.Bytes]), func(c Point) bool {
			return c.Reps < 2 || g.isDefault(c.Config, d.Bytes) // to ask for what NCCL does changes nothing
		})
		if d.Reps < 2 || len(repeated) == 0 && d.Verified == 0 {
			continue
		}
		v := verdict{byDefault: d, best: d}
		if len(repeated) > 0 {
			v.best = slices.MinFunc(repeated, compareTimes)
			v.seen = math.Log(d.Micros / v.best.Micros)
			spread = append(spread, square(v.seen)-g.variance(d)-g.variance(v.best))
		}
		all = append(all, v)
	}
	prior := priorOf(spread)
	for i := range all {
		v := &all[i]
		v.gain, v.spread = posterior(v.seen, g.variance(v.byDefault)+g.variance(v.best), prior)
	}
	return all
}

// priorOf is the variance of gains, told by the squares of those that are seen less their noise.
func priorOf(squares []float64) float64 {
	prior := square(leastPrior)
	if len(squares) > 0 {
		prior = max(prior, stats.Mean(squares))
	}
	return prior
}

// posterior is what a gain that is seen is expected to be, with its standard deviation.
func posterior(seen, noise, prior float64) (gain, spread float64) {
	kept := prior / (prior + noise)
	return seen * kept, math.Sqrt(noise * kept)
}

// verified returns what won at each size at which times were repeated.
func (g *Group) verified() (all []model.Verified) {
	for _, c := range g.verdicts() {
		v := model.Verified{
			Bytes: c.byDefault.Bytes, Micros: round(c.byDefault.Micros, 6), DefaultMicros: round(c.byDefault.Micros, 6),
			Repetitions: c.byDefault.Reps, Starts: c.byDefault.Starts,
		}
		if c.wins() {
			v.Micros = round(c.best.Micros, 6)
			v.Repetitions, v.Starts = min(v.Repetitions, c.best.Reps), min(v.Starts, c.best.Starts)
			won := g.asOwn(c.best.Config, c.best.Bytes)
			v.Algo, v.Proto, v.Channels = won.Algo.String(), won.Proto.String(), won.Channels
		}
		all = append(all, v)
	}
	return all
}

// Unproven is the fastest at a size at which repetitions chose nothing over the default. What looks faster there was so
// once, by luck.
type Unproven struct {
	Config nccl.Config
	Bytes  uint64
	// Gain and Moved are fractions of the time: the gain that is seen, and its standard deviation.
	Gain, Moved float64
}

// Seems reports whether it is seen to gain more than may be lost.
func (u Unproven) Seems() bool { return u.Gain > mostLoss }

// Unproven returns them by size.
func (g *Group) Unproven() (all []Unproven) {
	for _, c := range g.verdicts() {
		if !c.wins() {
			all = append(all, Unproven{c.best.Config, c.byDefault.Bytes, 1 - math.Exp(-c.seen),
				math.Sqrt(g.variance(c.byDefault) + g.variance(c.best))})
		}
	}
	return all
}

func compareTimes(a, b Point) int { return cmp.Or(cmp.Compare(a.Micros, b.Micros), a.compare(b)) }
