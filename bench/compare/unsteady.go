package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// The tests of a table are about means. They say nothing of one run in five that takes twice as long, and with
// manyReps they leave it out. A job that runs for weeks meets such a run, so it is named.
const (
	// A deviation counts if it is so many robust standard deviations of the other runs, at the size and the sizes next
	// to it. That noise is taken to be 2 % at least, since few runs agree by chance: so it is an eighth or more.
	deviations, leastScatter = 6, 0.02
	// It counts at three neighbouring sizes, or at all of fewer. Single sizes take a tenth longer now and then on
	// steady machines, too.
	leastSizes = 3
	leastRuns  = 3 // of two runs nobody can say which one deviates
	// leastTrend in standard deviations of Kendall's statistic: of the 10 pairs among 5 runs 9 must be in order.
	leastTrend, leastTrendRuns = 1.9, 5
)

// Unsteady is a run that took much longer than the others of its side, or a side whose runs became slower or faster.
type Unsteady struct {
	Side string `json:"side"`
	// Run is its number on the side, from 1, and Log its file. 0: the runs drifted from the first to the last.
	Run   int    `json:"run,omitempty"`
	Log   string `json:"log,omitempty"`
	Sizes []Span `json:"sizes"`
	// Ratio is the run's time / that of the other runs; for a drift the last run's time / the first one's, by a line
	// through all. It is the median over Sizes.
	Ratio float64 `json:"ratio"`
	// Other is that ratio of the other side: of the run beside it, or of its drift. 0: the runs are no pairs.
	Other float64 `json:"other_side,omitempty"`
}

// Alone reports whether the other side had less than half of it. Else the machine was unsteady, not the side.
func (u Unsteady) Alone() bool {
	return u.Other == 0 || math.Abs(math.Log(u.Ratio)) > 2*math.Abs(math.Log(u.Other))
}

// Span is a range of measured sizes.
type Span struct {
	From uint64 `json:"from"` // bytes
	To   uint64 `json:"to"`
}

func (u Unsteady) String() string {
	var sizes []string
	for _, s := range u.Sizes {
		text := nccl.FormatBytes(s.From)
		if s.To > s.From {
			text += " - " + nccl.FormatBytes(s.To)
		}
		sizes = append(sizes, text)
	}
	at := strings.Join(sizes, ", ")
	if u.Run == 0 {
		return fmt.Sprintf("%s drifted: its last run took %s times as long as its first at %s, the other "+
			"side's %s times",
			u.Side, times(u.Ratio), at, times(u.Other))
	}
	text := fmt.Sprintf("run %d of %s took %s times as long as its other runs at %s", u.Run, u.Side, times(u.Ratio), at)
	if u.Other > 0 {
		text += fmt.Sprintf(", the other side's run beside it %s times", times(u.Other))
	}
	return text + " (" + u.Log + ")"
}

func times(ratio float64) string {
	if ratio >= 9.995 {
		return strconv.FormatFloat(ratio, 'f', 0, 64)
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64)
}

// collapsed finds the runs that took much longer than the others of their side. order names the runs of the values.
func (g *Group) collapsed(p *pool, values []repetitions, order [][2][]int) {
	for side := range p.names {
		for _, run := range suspects(side, values, order) {
			number := 0
			apart, scatter := make([]float64, len(g.Rows)), make([][]float64, len(g.Rows))
			beside := make([]float64, len(g.Rows)) // what the other run of the pair is apart
			for i, v := range values {
				place := slices.Index(order[i][side], run)
				if place < 0 || len(v[side]) < leastRuns {
					continue
				}
				number = place + 1
				apart[i], scatter[i] = fromOthers(v[side], place)
				if g.Paired {
					beside[i], _ = fromOthers(v[1-side], place)
				}
			}
			at := deviate(apart, scatter)
			if len(at) == 0 {
				continue
			}
			u := Unsteady{Side: p.names[side], Run: number, Log: p.logs[side][run], Sizes: g.spans(at),
				Ratio: math.Exp(median(apart, at))}
			if g.Paired {
				u.Other = math.Exp(median(beside, at))
			}
			g.Unsteady = append(g.Unsteady, u)
		}
	}
}

// suspects are the runs that could have collapsed, which are few: they are above the median anywhere.
func suspects(side int, values []repetitions, order [][2][]int) []int {
	found := map[int]bool{}
	for i, v := range values {
		middle := stats.Median(v[side])
		for place, run := range order[i][side] {
			if v[side][place]-middle > deviations*leastScatter/2 {
				found[run] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// fromOthers is how far one value is from the median of the others, and how far each of these is.
func fromOthers(values []float64, place int) (apart float64, scatter []float64) {
	others := slices.Delete(slices.Clone(values), place, place+1)
	middle := stats.Median(others)
	for _, x := range others {
		scatter = append(scatter, math.Abs(x-middle)*freedom(len(others), 1))
	}
	return values[place] - middle, scatter
}

// drifted finds a side whose runs became slower or faster while those of the other did not. The values of both sides
// are pairs in the order of time.
func (g *Group) drifted(p *pool, values []repetitions) {
	for side, name := range p.names {
		var apart []float64
		var scatter [][]float64
		var rises [2][]float64 // from the first run to the last, of this side and the other
		for _, v := range values {
			own, other, rise, around := 0.0, 0.0, 0.0, []float64(nil)
			if differences := pairs(v); isTrend(differences) {
				last := float64(len(differences) - 1)
				own, other = slope(v[side])*last, slope(v[1-side])*last
				if math.Abs(own) > 2*math.Abs(other) {
					b := slope(differences)
					rise, around = math.Abs(b*last), residuals(differences, b)
				}
			}
			rises[0], rises[1] = append(rises[0], own), append(rises[1], other)
			apart, scatter = append(apart, rise), append(scatter, around)
		}
		if at := deviate(apart, scatter); len(at) > 0 {
			g.Unsteady = append(g.Unsteady, Unsteady{Side: name, Sizes: g.spans(at),
				Ratio: math.Exp(median(rises[0], at)), Other: math.Exp(median(rises[1], at))})
		}
	}
}

// deviate returns the places of the sizes, leastSizes neighbours or more, at which something is apart by more than
// the noise there. scatter holds the absolute deviations of the rest.
func deviate(apart []float64, scatter [][]float64) (at []int) {
	begin := 0 // of the present stretch, a place in at
	end := func() {
		if len(at)-begin < min(leastSizes, len(apart)) {
			at = at[:begin]
		}
		begin = len(at)
	}
	for i := range apart {
		sigma := leastScatter
		if near := slices.Concat(scatter[max(0, i-1):min(len(scatter), i+2)]...); len(near) > 0 {
			sigma = max(sigma, stats.Median(near)/normalMedian)
		}
		if apart[i] > deviations*sigma {
			at = append(at, i)
		} else {
			end()
		}
	}
	end()
	return at
}

// normalMedian is the median of a normal variable's absolute value.
const normalMedian = 0.6745

// freedom corrects deviations from a location with so many parameters that the n values gave.
func freedom(n, parameters int) float64 { return math.Sqrt(float64(n) / float64(n-parameters)) }

// spans are the ranges of neighbours among rows.
func (g *Group) spans(at []int) (all []Span) {
	for k, i := range at {
		if bytes := g.Rows[i].Bytes; k > 0 && at[k-1] == i-1 {
			all[len(all)-1].To = bytes
		} else {
			all = append(all, Span{bytes, bytes})
		}
	}
	return all
}

func median(values []float64, at []int) float64 {
	var some []float64
	for _, i := range at {
		some = append(some, values[i])
	}
	return stats.Median(some)
}

// slope from one value to the next is the median over all pairs (Theil, 1950; Sen, 1968).
func slope(values []float64) float64 {
	var all []float64
	for i, x := range values {
		for k, y := range values[i+1:] {
			all = append(all, (y-x)/float64(k+1))
		}
	}
	return stats.Median(all)
}

// isTrend reports whether values rise or fall from one to the next more often than chance would have it (Mann, 1945).
func isTrend(values []float64) bool {
	if len(values) < leastTrendRuns {
		return false
	}
	n, sum := float64(len(values)), 0
	for i, x := range values {
		for _, y := range values[i+1:] {
			sum += cmp.Compare(y, x)
		}
	}
	return math.Abs(float64(sum)) > leastTrend*math.Sqrt(n*(n-1)*(2*n+5)/18)
}

// residuals are absolute deviations from a line with a slope.
func residuals(values []float64, slope float64) (all []float64) {
	for i, x := range values {
		all = append(all, x-slope*float64(i))
	}
	middle := stats.Median(all)
	for i, x := range all {
		all[i] = math.Abs(x-middle) * freedom(len(all), 2)
	}
	return all
}
