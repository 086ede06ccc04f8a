package fit

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Setting is what was measured under one setting of a job: variables that no tuner reaches, and that change which
// configuration is the fastest. Differences are those of the mean ln(us), with the variance between starts.
type Setting struct {
	Set   *Set
	Words []string // NAME=VALUE where the site's own setting has another, sorted; of no value: unset
	// Starts is in how many starts it was measured, the least of all collectives and communicators.
	Starts int
	// Alone is the default under it, and Both what is chosen under it, over the default under the site's own. OverOwn
	// is what is chosen under it over what is chosen under the site's own.
	Alone, Both, OverOwn stats.Location

	byDefault, chosen side
}

func (s *Setting) String() string { return cmp.Or(strings.Join(s.Words, " "), "the site's own") }

// Comparison is of several settings.
type Comparison struct {
	Settings []Setting // the first is the site's own
	Best     int       // the one that is chosen for the job
	// Found is the least gain over the site's own that would have been chosen for sure, in ln(us); 0: none.
	Found  float64
	Better []BetterAt // by size

	weight       map[spot]float64
	variance, df float64 // of a start's level
}

// BetterAt is a size at which another setting than the chosen one is surely better.
type BetterAt struct {
	Key
	Bytes   uint64
	Setting int
	Gain    float64 // in ln(us)
}

// spot is a size of a collective on a communicator.
type spot struct {
	Key
	bytes uint64
}

func (s spot) compare(o spot) int { return cmp.Or(s.Key.Compare(o.Key), cmp.Compare(s.bytes, o.bytes)) }

// side is what each start measured of something, in ln(us).
type side map[spot]map[int]float64

// Settings compares what a pool holds under different variables, and else alike. The first that was read is the
// site's own. Another is chosen only if it surely gains over all sizes, each weighted by the time of the job's calls;
// without a job all alike.
func (p *Pool) Settings(job *profile.Profile) *Comparison {
	var sets []*Set
	var words [][]string
	for _, under := range p.order {
		if under.Options == p.order[0].Options {
			sets, words = append(sets, p.under(under).Set()), append(words, changed(p.order[0], under))
		}
	}
	if len(sets) == 0 {
		return &Comparison{}
	}
	return compareSettings(sets, words, job)
}

// changed are the variables of conditions of which others have another value.
func changed(own, under bench.Conditions) (words []string) {
	had, has := bench.SettingOf(own.Variables), bench.SettingOf(under.Variables)
	names := maps.Clone(had)
	maps.Copy(names, has)
	for name := range names {
		if has[name] != had[name] {
			words = append(words, name+"="+has[name])
		}
	}
	slices.Sort(words)
	return words
}

// sides are what was measured of the default, and of what repetitions chose, and the variance of that one's gain. Where
// several starts were to verify, others do not count, since what they measured decided what was verified.
func (s *Set) sides() (byDefault, chosen side, noise map[spot]float64) {
	byDefault, chosen, noise = side{}, side{}, map[spot]float64{}
	for _, g := range s.Groups {
		won := map[uint64]nccl.Config{}
		for _, v := range g.verdicts() {
			if v.wins() {
				won[v.best.Bytes] = v.best.Config
				noise[spot{g.Key, v.best.Bytes}] = g.variance(v.byDefault) + g.variance(v.best)
			}
		}
		for i := range g.series {
			m, at := &g.series[i], spot{g.Key, g.series[i].Bytes}
			starts := map[int]float64{}
			for _, of := range m.byStart(nil) {
				if len(g.verifying) < 2 || g.verifying[of.start] {
					starts[of.start] = of.middle
				}
			}
			c, wins := won[m.Bytes]
			if m.byDefault {
				byDefault[at] = starts
			}
			if m.byDefault && !wins || !m.byDefault && wins && m.Config == c {
				chosen[at] = starts
			}
		}
	}
	return byDefault, chosen, noise
}

const (
	// mostFinalists is how many settings meet the site's own in turns, and MeetingStarts in how many fresh starts each.
	mostFinalists = 2
	MeetingStarts = 4
)

// Finalists are the settings that are worth more starts, after one of each: the two that are the fastest in the mean,
// without those that are surely slower than the site's own, the first set. They are indices, the best first.
func Finalists(sets []*Set, job *profile.Profile) (best []int) {
	c := compareSettings(sets, make([][]string, len(sets)), job)
	over := func(i int) stats.Location { return c.Settings[i].OverOwn }
	for i := 1; i < len(sets); i++ {
		if d := over(i); !math.IsNaN(d.Mean) && !(c.df > 0 && d.Mean > d.Half()) {
			best = append(best, i)
		}
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(over(a).Mean, over(b).Mean) })
	return best[:min(len(best), mostFinalists)]
}

// weights are what the sizes that were measured count: the time of the job's calls nearest to each; without a job, or
// where it has no such calls, all alike.
func weights(job *profile.Profile, own side) map[spot]float64 {
	all := map[spot]float64{}
	spots := slices.SortedFunc(maps.Keys(own), spot.compare)
	if job != nil {
		for _, e := range job.Entries {
			nearest, distance := spot{}, 1.0 // octaves
			for _, at := range spots {
				far := math.Abs(log2(at.bytes) - log2(e.Bytes))
				if at.Key == (Key{Coll: e.Coll, Comm: e.Comm}) && far < distance {
					nearest, distance = at, far
				}
			}
			if w := job.Scale().Of(e); nearest.bytes > 0 && w > 0 {
				all[nearest] += w
			}
		}
	}
	if len(all) == 0 {
		for _, at := range spots {
			all[at] = 1
		}
	}
	return all
}

// compareSettings says how settings compare. Their words differ from those of the first, the site's own.
func compareSettings(sets []*Set, words [][]string, job *profile.Profile) *Comparison {
	c := &Comparison{Settings: make([]Setting, len(sets))}
	own := &c.Settings[0]
	var noise map[spot]float64 // of the gains under the site's own
	for i := range sets {
		s := &c.Settings[i]
		s.Set, s.Words = sets[i], words[i]
		var of map[spot]float64
		if s.byDefault, s.chosen, of = sets[i].sides(); i == 0 {
			c.weight, noise = weights(job, s.byDefault), of
		}
		squares, df := s.chosen.spread(c.weight)
		c.variance, c.df = c.variance+squares, c.df+df
	}
	c.variance /= c.df // NaN if nothing was started twice
	var seen []float64
	for i := range c.Settings {
		s := &c.Settings[i]
		s.Starts = s.byDefault.starts(c.weight)
		s.Alone, s.Both = c.less(s.byDefault, own.byDefault), c.less(s.chosen, own.byDefault)
		if s.OverOwn = c.less(s.chosen, own.chosen); i > 0 && s.isSettled() {
			seen = append(seen, square(s.OverOwn.Mean)-s.OverOwn.Variance)
		}
	}
	// Under one setting a start's level is in both, and cancels.
	total := stats.Mean(slices.Collect(maps.Values(c.weight))) * float64(len(c.weight))
	own.Both.Variance = 0
	for _, at := range slices.SortedFunc(maps.Keys(noise), spot.compare) {
		own.Both.Variance += square(c.weight[at]/total) * noise[at]
	}
	prior, most := priorOf(seen), leastGain
	surelyGains := make([]bool, len(c.Settings))
	for i := range c.Settings {
		s := &c.Settings[i]
		if i == 0 || !s.isSettled() {
			continue
		}
		// A wrong row costs one size, and a wrong setting all of the job: it has to gain even if chance favoured it.
		gain, spread := posterior(-s.OverOwn.Mean, s.OverOwn.Variance, prior)
		half := s.OverOwn.Half() * settingSure
		c.Found = max(c.Found, 2*half)
		surelyGains[i] = gain > leastGain && gain > half*spread/math.Sqrt(s.OverOwn.Variance)
		if surelyGains[i] && gain > most {
			most, c.Best = gain, i
		}
	}
	c.dropIdle(surelyGains)
	c.findBetter()
	return c
}

// dropIdle takes the setting without a variable that shows no gain, if it surely gains as well: nobody should set what
// only chance has put first.
func (c *Comparison) dropIdle(surelyGains []bool) {
	for _, word := range c.Settings[c.Best].Words {
		if i, less := c.Without(word); i >= 0 && surelyGains[i] && less.Mean+less.Half() >= 0 {
			c.Best = i
			c.dropIdle(surelyGains)
			return
		}
	}
}

// isSettled reports whether several starts tell what the setting gains.
func (s *Setting) isSettled() bool {
	return s.Starts > 1 && !math.IsNaN(s.OverOwn.Mean+s.OverOwn.Variance)
}

// less is the mean of a side less that of another, in ln(us), at the sizes that both have. It is NaN where a collective
// or a communicator is missing.
func (c *Comparison) less(s, o side) stats.Location {
	d, total := stats.Location{DF: c.df}, 0.0
	share, noise := map[Key]float64{}, map[Key]float64{} // noise is how much of a level's variance a difference has
	for _, at := range slices.SortedFunc(maps.Keys(c.weight), spot.compare) {
		w, mine, theirs := c.weight[at], float64(len(s[at])), float64(len(o[at]))
		if share[at.Key] += 0; mine > 0 && theirs > 0 {
			d.Mean += w * (meanOf(s[at]) - meanOf(o[at]))
			share[at.Key], total = share[at.Key]+w, total+w
			noise[at.Key] = max(noise[at.Key], 1/mine+1/theirs)
		}
	}
	for key, of := range share {
		if of == 0 {
			d.Mean = math.NaN()
		}
		d.Variance += square(of/total) * c.variance * noise[key]
	}
	d.Mean /= total
	return d
}

func meanOf(starts map[int]float64) float64 { return stats.Mean(slices.Sorted(maps.Values(starts))) }

// starts is how many starts measured each collective and communicator at the least.
func (s side) starts(weight map[spot]float64) int {
	most := map[Key]int{}
	for at := range weight {
		most[at.Key] = max(most[at.Key], len(s[at]))
	}
	if len(most) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Values(most)))
}

// spread sums up the squares of how far starts are off in the mean of their sizes, with the degrees of freedom.
func (s side) spread(weight map[spot]float64) (squares, df float64) {
	type startOf struct {
		Key
		start int
	}
	off, of, keys := map[startOf]float64{}, map[startOf]float64{}, map[Key]bool{}
	for _, at := range slices.SortedFunc(maps.Keys(s), spot.compare) {
		for start, ln := range s[at] {
			if w := weight[at]; len(s[at]) > 1 && w > 0 {
				id := startOf{at.Key, start}
				off[id], of[id], keys[at.Key] = off[id]+w*(ln-meanOf(s[at])), of[id]+w, true
			}
		}
	}
	for id, sum := range off {
		squares += square(sum / of[id])
	}
	return squares, float64(len(off) - len(keys))
}

// findBetter looks for sizes at which another setting than the chosen one is better.
func (c *Comparison) findBetter() {
	chosen := c.Settings[c.Best].chosen
	for _, at := range slices.SortedFunc(maps.Keys(chosen), spot.compare) {
		here, better := Comparison{weight: map[spot]float64{at: 1}, variance: c.variance, df: c.df}, BetterAt{}
		for i := range c.Settings {
			d := here.less(c.Settings[i].chosen, chosen)
			if i != c.Best && c.Settings[i].isSettled() && -d.Mean > max(mostLoss, sure*d.Half(), better.Gain) {
				better = BetterAt{at.Key, at.bytes, i, -d.Mean}
			}
		}
		if better.Gain > 0 {
			c.Better = append(c.Better, better)
		}
	}
}

// Without is the setting that has all but a word of the chosen one, and what that word gains over it; -1 if it was not
// measured.
func (c *Comparison) Without(word string) (i int, less stats.Location) {
	best := &c.Settings[c.Best]
	rest := slices.DeleteFunc(slices.Clone(best.Words), func(w string) bool { return w == word })
	if i = slices.IndexFunc(c.Settings, func(s Setting) bool { return slices.Equal(s.Words, rest) }); i >= 0 {
		if less = c.less(best.chosen, c.Settings[i].chosen); math.IsNaN(less.Mean) {
			return -1, less
		}
	}
	return i, less
}
