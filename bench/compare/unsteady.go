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
	text := fmt.Sprintf("run %d of %s took %s times as long as its other runs at %s",
		u.Run, u.Side, factor(u.Ratio), at)
	if u.Other > 0 {
		text += fmt.Sprintf(", the other side's run beside it %s times", factor(u.Other))
	}
	return text + " (" + u.Log + ")"
}

func factor(ratio float64) string {
	if ratio >= 9.995 {
		return strconv.FormatFloat(ratio, 'f', 0, 64)
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64)
}

// pass is one of a side's times of a size: of a start, the k-th.
type pass struct{ run, k int }

// collapsed finds the passes that took much longer than the others of their side. A run with one time of each size is a
// pass, too.
func (g *Section) collapsed(p *pool, values [][2]repeated) {
	flat := make([][2][]float64, len(values))
	order := make([][2][]pass, len(values))
	for i, v := range values {
		for side := range v {
			for _, s := range v[side] {
				for k, x := range s.ln {
					flat[i][side], order[i][side] = append(flat[i][side], x), append(order[i][side], pass{s.run, k})
				}
			}
		}
	}
	for side := range p.names {
		suspects := map[pass]bool{} // few: they are above the median anywhere
		for i, v := range flat {
			middle := stats.Median(v[side])
			for place, x := range v[side] {
				if x-middle > deviations*leastScatter/2 {
					suspects[order[i][side][place]] = true
				}
			}
		}
		for _, suspect := range slices.SortedFunc(maps.Keys(suspects), func(a, b pass) int {
			return cmp.Or(a.run-b.run, a.k-b.k)
		}) {
			number := 0
			apart, scatter := make([]float64, len(g.Rows)), make([][]float64, len(g.Rows))
			beside := make([]float64, len(g.Rows)) // what the other pass of the pair is apart
			for i, v := range flat {
				place := slices.Index(order[i][side], suspect)
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
			u := CollapsedRun{Side: p.names[side], Run: number, Log: p.logs[side][suspect.run], Sizes: g.spans(at),
				Ratio: math.Exp(median(apart, at))}
			if g.Paired {
				u.Other = math.Exp(median(beside, at))
			}
			g.Unsteady = append(g.Unsteady, u)
		}
	}
}

// fromOthers is how far one value is from the median of the others, and how far these deviate from it.
func fromOthers(values []float64, place int) (apart float64, scatter []float64) {
	others := slices.Delete(slices.Clone(values), place, place+1)
	middle := stats.Median(others)
	return values[place] - middle, stats.Deviations(others, middle)
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
			sigma = max(sigma, stats.Sigma(near))
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
