package compare

import (
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
)

// CollapsedRun is a run that took much longer than the others of its side.
type CollapsedRun struct {
	Side  string      `json:"side"`
	Run   int         `json:"run"` // of the side, from 1
	Log   string      `json:"log"`
	Sizes []SizeRange `json:"sizes"`
	// Ratio is the run's time / that of the other runs, the median over Sizes.
	Ratio float64 `json:"ratio"`
	// Other is that ratio of the other side's run beside it. 0: the runs are no pairs.
	Other float64 `json:"other_side,omitempty"`
}

// Alone reports whether the other side had less than half of it. Else the machine was unsteady, not the side.
func (u CollapsedRun) Alone() bool {
	return u.Other == 0 || math.Log(u.Ratio) > 2*math.Abs(math.Log(u.Other))
}

// SizeRange is a range of measured sizes.
type SizeRange struct {
	From uint64 `json:"from"` // bytes
	To   uint64 `json:"to"`
}

func (u CollapsedRun) String() string {
	var sizes []string
	for _, s := range u.Sizes {
		sizes = append(sizes, nccl.Range{Min: s.From, Max: s.To}.String())
	}
	at := strings.Join(sizes, ", ")
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

// collapsed finds the runs that took much longer than the others of their side. order names the runs of the values; a
// pass is one, too.
func (g *Section) collapsed(p *pool, values []repetitions, order [][2][]int, logOf func(side, run int) string) {
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
				if g.Paired && place < len(v[1-side]) {
					beside[i], _ = fromOthers(v[1-side], place)
				}
			}
			at := deviate(apart, scatter)
			if len(at) == 0 {
				continue
			}
			u := CollapsedRun{Side: p.names[side], Run: number, Log: logOf(side, run), Sizes: g.spans(at),
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

// fromOthers is how far one value is from the median of the others, and how far each of these is, corrected for the
// median that they gave.
func fromOthers(values []float64, place int) (apart float64, scatter []float64) {
	others := slices.Delete(slices.Clone(values), place, place+1)
	middle, n := stats.Median(others), float64(len(others))
	for _, x := range others {
		scatter = append(scatter, math.Abs(x-middle)*math.Sqrt(n/(n-1)))
	}
	return values[place] - middle, scatter
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

// spans are the ranges of neighbours among rows.
func (g *Section) spans(at []int) (all []SizeRange) {
	for k, i := range at {
		if bytes := g.Rows[i].Bytes; k > 0 && at[k-1] == i-1 {
			all[len(all)-1].To = bytes
		} else {
			all = append(all, SizeRange{bytes, bytes})
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
