package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// verify adds the times of a second measurement of the selected points. The times by which a configuration was selected
// are too good: among many that are equally fast, the one that noise favoured wins. The mean of both is closer.
func (g *Group) verify(fresh []Point) {
	for _, c := range fresh {
		i, ok := slices.BinarySearchFunc(g.Points, c, Point.compare)
		if ok {
			g.Points[i] = g.Points[i].with(c)
		} else {
			g.Points = slices.Insert(g.Points, i, c)
		}
	}
}

// with returns a point with the repetitions of a verification added.
func (c Point) with(fresh Point) Point {
	c.Micros = (c.Micros*float64(c.Reps) + fresh.Micros*float64(fresh.Reps)) / float64(c.Reps+fresh.Reps)
	c.Reps, c.Verified, c.Twice = c.Reps+fresh.Reps, true, true
	c.Low, c.High = min(c.Low, fresh.Low), max(c.High, fresh.High)
	return c
}

// first is what was measured first.
func (c Point) first() float64 { return cmp.Or(c.First, c.Micros) }

// logSpread is how far apart two repetitions are, in ln(us), by the range of all. The range of more repetitions is
// larger for no other reason than their number.
func (c Point) logSpread() float64 {
	if c.Low == 0 {
		return 0
	}
	return math.Log(c.High/c.Low) * meanRanges[0] / meanRanges[min(max(c.Reps-2, 0), len(meanRanges)-1)]
}

// meanRanges are the mean ranges of 2, 3, ... normal values, in standard deviations: the factor d2 of control charts
// (ISO 7870-2).
var meanRanges = [...]float64{1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078}

// contest holds the times, at one size, of the default and of the fastest configuration that was verified.
type contest struct {
	byDefault, best Point
	gain, logSpread float64 // in ln(us)
}

// contests returns one contest for each size at which the default was verified, ascending.
func (g *Group) contests() (all []contest) {
	bySize := g.bySize()
	// Sizes that a verification only passed through may have been measured while the machine was faster.
	twice := slices.ContainsFunc(g.Points, func(c Point) bool { return c.Twice })
	for _, d := range g.Default {
		fresh := slices.DeleteFunc(slices.Clone(bySize[d.Bytes]), func(c Point) bool {
			return !c.Verified || twice && !c.Twice
		})
		if !d.Verified {
			continue
		}
		best := d // nothing came near it
		if len(fresh) > 0 {
			best = slices.MinFunc(fresh, compareTimes)
		}
		all = append(all, contest{
			d, best, math.Log(d.Micros / best.Micros), max(d.logSpread(), best.logSpread()),
		})
	}
	return all
}

// wins reports whether the configuration is faster by more than two repetitions of it or of the default differ: a
// machine that changes in between makes one of the two look faster.
func (c contest) wins() bool { return c.gain > max(leastVerified, c.logSpread) }

// leastVerified in ln(us) is the least gain that wins, however alike the repetitions are.
const leastVerified = 0.005

// verified returns what won at each size at which the default was verified.
func (g *Group) verified() (all []model.Verified) {
	for _, c := range g.contests() {
		v := model.Verified{
			Bytes: c.byDefault.Bytes, Micros: round(c.byDefault.Micros, 6), DefaultMicros: round(c.byDefault.Micros, 6),
			Repetitions: min(c.byDefault.Reps, c.best.Reps),
		}
		if c.wins() {
			v.Micros = round(c.best.Micros, 6)
			won := g.asOwn(c.best.Config, c.best.Bytes)
			v.Algo, v.Proto, v.Channels = won.Algo.String(), won.Proto.String(), won.Channels
		}
		all = append(all, v)
	}
	return all
}

// Unproven returns the sizes at which a verification found nothing faster than the default. What looks faster there was
// so once, by luck.
func (g *Group) Unproven() map[uint64]bool {
	at := map[uint64]bool{}
	for _, c := range g.contests() {
		at[c.byDefault.Bytes] = !c.wins()
	}
	return at
}

// Unsteady is a configuration that is faster than the default at a size, but by less than repetitions differ.
type Unsteady struct {
	Config nccl.Config
	Bytes  uint64
	// Gain and Moved are fractions of the time. Moved is how much two repetitions differ, of the default or of the
	// configuration, whichever is more.
	Gain, Moved float64
}

// Unsteady returns the unsteady configurations of a verification, by size.
func (g *Group) Unsteady() (all []Unsteady) {
	for _, c := range g.contests() {
		if c.gain > leastVerified && !c.wins() {
			all = append(all, Unsteady{c.best.Config, c.best.Bytes, 1 - math.Exp(-c.gain), math.Expm1(c.logSpread)})
		}
	}
	return all
}

// IsVerified reports whether all sizes were verified.
func (g *Group) IsVerified(sizes []uint64) bool {
	return !slices.ContainsFunc(sizes, func(b uint64) bool { d, ok := g.defaultAt(b); return !ok || !d.Verified })
}

const (
	// Contenders is how many configurations at most are verified at each size, besides the default.
	Contenders = 3
	// Carried is how many are measured at each size on more nodes: the fastest on the most nodes that were measured,
	// two or more, and the same with the next fewer channels. The best count falls as ranks rise.
	Carried = 2
	// near: a configuration within this factor of the best time is a contender.
	near = 1.1
)

func compareTimes(a, b Point) int { return cmp.Or(cmp.Compare(a.Micros, b.Micros), a.compare(b)) }

// Verification returns what to measure again, taking turns with the default: the fastest at each size, the second
// fastest, and so on; nothing where no configuration comes close to the default. Of a smaller communicator's group it
// returns what only the verification measures on this one.
func (s Space) Verification(g *Group) (policies []Run) {
	raised := s.exceedsDefault(g)
	best := make([][]nccl.Config, len(s.Sizes))
	bySize := g.bySize()
	for i, b := range s.Sizes {
		points := slices.DeleteFunc(slices.Clone(bySize[b]), func(c Point) bool {
			limit, limited := s.Limits[c.Config.Algo]
			return !slices.Contains(s.Families, c.Config.Cell) || s.failed(c.Config) || raised(c.Config, b) ||
				limited && c.Config.Channels > limit
		})
		slices.SortFunc(points, compareTimes)
		if g.Key != s.Key {
			best[i] = s.carried(points, b, raised)
			continue
		}
		least := math.Inf(1)
		if d, ok := g.defaultAt(b); ok {
			least = d.Micros
		}
		for _, c := range points[:min(Contenders, len(points))] {
			if least = min(least, c.Micros); c.Micros <= near*least {
				best[i] = append(best[i], c.Config)
			}
		}
	}
	for k := range Contenders {
		r := s.run(func(i int) (nccl.Config, bool) {
			switch n := len(best[i]); {
			case n > k:
				return best[i][k], true
			case n > 0:
				return best[i][0], false
			}
			return nccl.Config{}, false
		})
		if len(r.Sizes) > 0 {
			policies = append(policies, r)
		}
	}
	return policies
}

// carried returns what is measured at a size on more nodes than the points were, which are sorted by time.
func (s Space) carried(points []Point, bytes uint64, raised func(nccl.Config, uint64) bool) []nccl.Config {
	if len(points) == 0 {
		return nil
	}
	configs := []nccl.Config{points[0].Config}
	counts := s.channels(configs[0].Algo)
	for i := len(counts) - 1; i >= 0; i-- {
		fewer := nccl.Config{Cell: configs[0].Cell, Channels: counts[i]}
		if 0 < fewer.Channels && fewer.Channels < configs[0].Channels && !s.failed(fewer) && !raised(fewer, bytes) {
			return append(configs, fewer)
		}
	}
	return configs
}
