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

func (s *Setting) String() string {
	return cmp.Or(strings.Join(s.Words, " "), "the site's own")
}

// Comparison is of several settings.
type Comparison struct {
	Settings []Setting // the first is the site's own
	Best     int       // the one that is chosen for the job
	// Found is the least gain over the site's own that would have been chosen for sure, in ln(us); 0: none.
	Found  float64
	Better []BetterAt

	weight       map[spot]float64
	variance, df float64 // of a start's level
}

// BetterAt is a size at which another setting than the chosen one is surely better.
type BetterAt struct {
	Key
	Bytes   uint64
	Setting int
	Gain    float64 // share of the time
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
	c := &Comparison{}
	for _, under := range p.order {
		if under.Options == p.order[0].Options {
			c.add(p.under(under).Set()).Words = words(p.order[0], under)
		}
	}
	if len(c.Settings) > 0 {
		c.compare(job)
	}
	return c
}

func (c *Comparison) add(set *Set) *Setting {
	byDefault, chosen := set.settled()
	c.Settings = append(c.Settings, Setting{Set: set, byDefault: byDefault, chosen: chosen})
	return &c.Settings[len(c.Settings)-1]
}

// words are the variables of conditions of which others have another value.
func words(own, under bench.Conditions) (all []string) {
	had, has := bench.SettingOf(own.Variables), bench.SettingOf(under.Variables)
	names := maps.Clone(had)
	maps.Copy(names, has)
	for name := range names {
		if has[name] != had[name] {
			all = append(all, name+"="+has[name])
		}
	}
	slices.Sort(all)
	return all
}

// settled is what was measured of the default, and of what repetitions chose.
func (s *Set) settled() (byDefault, chosen side) {
	won := map[spot]nccl.Config{}
	for _, g := range s.Groups {
		for _, v := range g.verdicts() {
			if v.wins() {
				won[spot{g.Key, v.best.Bytes}] = v.best.Config
			}
		}
	}
	byDefault = s.side(func(_ spot, m *series) bool { return m.byDefault })
	return byDefault, s.side(func(at spot, m *series) bool {
		c, ok := won[at]
		return m.byDefault != ok && (m.byDefault || m.Config == c)
	})
}

// side is what was measured of some series. Where several starts were to verify, others do not count, since what they
// measured decided what was verified.
func (s *Set) side(of func(at spot, m *series) bool) side {
	all := side{}
	for _, g := range s.Groups {
		for i := range g.series {
			m := &g.series[i]
			at := spot{g.Key, m.Bytes}
			if !of(at, m) {
				continue
			}
			all[at] = map[int]float64{}
			middles, counts := m.byStart(nil)
			first := 0
			for k, middle := range middles {
				if start := m.times[first].start; len(g.verifying) < 2 || g.verifying[start] {
					all[at][start] = middle
				}
				first += counts[k]
			}
		}
	}
	return all
}

const (
	// mostFinalists is how many settings meet the site's own in turns, and MeetingStarts in how many fresh starts each.
	mostFinalists = 2
	MeetingStarts = 4
)

// Finalists are the settings that are worth more starts, after one of each: the two that are the fastest in the mean,
// without those that are surely slower than the site's own, the first set. They are indices, the best first.
func Finalists(sets []*Set, job *profile.Profile) (best []int) {
	c := &Comparison{}
	for _, set := range sets {
		c.add(set)
	}
	c.compare(job)
	over := func(i int) stats.Location { return c.Settings[i].OverOwn }
	for i := range sets[1:] {
		if d := over(1 + i); !math.IsNaN(d.Mean) && !(c.df > 0 && d.Mean > d.Half()) {
			best = append(best, 1+i)
		}
	}
	slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(over(a).Mean, over(b).Mean) })
	return best[:min(len(best), mostFinalists)]
}

// weights are what the sizes that were measured count: the time of the job's calls nearest to each; without a job, or
// where it has no such calls, all alike.
func weights(job *profile.Profile, own side) map[spot]float64 {
	all, alike := map[spot]float64{}, map[spot]float64{}
	for at := range own {
		alike[at] = 1
	}
	if job == nil {
		return alike
	}
	for _, e := range job.Entries {
		nearest, distance := spot{}, 1.0 // octaves
		for at := range own {
			far := math.Abs(log2(at.bytes) - log2(e.Bytes))
			isNearer := far < distance || far == distance && at.bytes < nearest.bytes
			if at.Key == (Key{Coll: e.Coll, Comm: e.Comm}) && isNearer {
				nearest, distance = at, far
			}
		}
		if w := job.Scale().Of(e); nearest.bytes > 0 && w > 0 {
			all[nearest] += w
		}
	}
	if len(all) == 0 {
		return alike
	}
	return all
}

// compare fills what there is to say of settings.
func (c *Comparison) compare(job *profile.Profile) {
	own := &c.Settings[0]
	c.weight = weights(job, own.byDefault)
	for i := range c.Settings {
		squares, df := c.Settings[i].chosen.spread(c.weight)
		c.variance, c.df = c.variance+squares, c.df+df
	}
	c.variance /= c.df // NaN if nothing was started twice
	var spread []float64
	for i := range c.Settings {
		s := &c.Settings[i]
		s.Starts = s.byDefault.starts(c.weight)
		s.Alone, s.Both = c.less(s.byDefault, own.byDefault), c.less(s.chosen, own.byDefault)
		if s.OverOwn = c.less(s.chosen, own.chosen); i > 0 && s.isSettled() {
			spread = append(spread, square(s.OverOwn.Mean)-s.OverOwn.Variance)
		}
	}
	if squares, df := own.chosen.over(own.byDefault).spread(c.weight); df > 0 { // a start's level is in both
		own.Both = own.chosen.less(own.byDefault, c.weight, squares/df/2, df)
	}
	if len(spread) == 0 {
		return
	}
	prior, most := max(square(leastPrior), stats.Mean(spread)), leastGain
	surelyGains := make([]bool, len(c.Settings))
	for i := range c.Settings {
		s := &c.Settings[i]
		if i == 0 || !s.isSettled() {
			continue
		}
		// As with a row, the gain that is seen is drawn to zero. But a wrong row costs one size, and a wrong setting
		// all of the job: it has to gain even if chance favoured it.
		kept := prior / (prior + s.OverOwn.Variance)
		gain, half := -s.OverOwn.Mean*kept, s.OverOwn.Half()*settingSure
		c.Found = max(c.Found, 2*half)
		surelyGains[i] = gain > leastGain && gain > half*math.Sqrt(kept)
		if surelyGains[i] && gain > most {
			most, c.Best = gain, i
		}
	}
	c.dropIdle(surelyGains)
	c.findBetter()
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

func (c *Comparison) less(s, o side) stats.Location { return s.less(o, c.weight, c.variance, c.df) }

// less is the mean less that of another side, in ln(us), at the sizes that both have. variance is that of a start's
// level, with its degrees of freedom. It is NaN where a collective or a communicator is missing.
func (s side) less(o side, weight map[spot]float64, variance, df float64) stats.Location {
	d, sum := stats.Location{DF: df}, 0.0
	share, n, m := map[Key]float64{}, map[Key]int{}, map[Key]int{}
	for _, at := range slices.SortedFunc(maps.Keys(weight), spot.compare) {
		share[at.Key] += 0
		if mine, theirs := s[at], o[at]; len(mine) > 0 && len(theirs) > 0 {
			if share[at.Key] == 0 {
				n[at.Key], m[at.Key] = len(mine), len(theirs)
			}
			d.Mean += weight[at] * (meanOf(mine) - meanOf(theirs))
			n[at.Key], m[at.Key] = min(n[at.Key], len(mine)), min(m[at.Key], len(theirs))
			share[at.Key], sum = share[at.Key]+weight[at], sum+weight[at]
		}
	}
	for key, of := range share {
		if of == 0 {
			d.Mean = math.NaN()
		}
		d.Variance += square(of/sum) * variance * (1/float64(n[key]) + 1/float64(m[key]))
	}
	d.Mean /= sum
	return d
}

func meanOf(starts map[int]float64) float64 { return stats.Mean(slices.Sorted(maps.Values(starts))) }

// over is a side less another, start by start.
func (s side) over(o side) side {
	all := side{}
	for at, starts := range s {
		all[at] = map[int]float64{}
		for start, ln := range starts {
			if was, ok := o[at][start]; ok {
				all[at][start] = ln - was
			}
		}
	}
	return all
}

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

// findBetter looks for sizes at which another setting than the chosen one is better, by more than times vary there.
func (c *Comparison) findBetter() {
	chosen := c.Settings[c.Best].chosen
	for _, at := range slices.SortedFunc(maps.Keys(chosen), spot.compare) {
		here := map[spot]float64{at: 1}
		squares, df := 0.0, 0.0
		for i := range c.Settings {
			sum, n := side{at: c.Settings[i].chosen[at]}.spread(here)
			squares, df = squares+sum, df+n
		}
		better := BetterAt{Key: at.Key, Bytes: at.bytes}
		for i := range c.Settings {
			d := c.Settings[i].chosen.less(chosen, here, squares/df, df)
			if i != c.Best && c.Settings[i].isSettled() && -d.Mean > max(mostLoss, sure*d.Half(), better.Gain) {
				better.Setting, better.Gain = i, -d.Mean
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
