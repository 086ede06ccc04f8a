// Package curves reads the curves of a model for people, those that decide: in order of how
// often a configuration is the fastest, so that the first few are worth drawing.
package curves

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Curve is one configuration of a group.
type Curve struct {
	nccl.Config
	Measured []Point // as measured, repetitions pooled; ascending sizes
	Fitted   []Point // between them, close enough to draw
	Wins     int     // measured sizes at which nothing was faster, nor NCCL's choice as fast
	// Behind is the mean over its measured sizes of ln(us / least us measured
	// there, by NCCL's choice, too): 0 for a configuration that always wins.
	Behind float64
}

// Point is a time at a size.
type Point struct {
	Bytes  uint64
	Micros float64
}

// perOctave is how many points of a curve are drawn; straight lines between them do not show.
const perOctave = 8

// drawn are sizes from the first measured one to the last, all of these among them.
func drawn(measured []uint64) (sizes []uint64) {
	for i, b := range measured {
		if i > 0 {
			from := measured[i-1]
			for step := math.Exp2(1.0 / perOctave); float64(from)*step < float64(b); step *= math.Exp2(
				1.0 / perOctave) {
				sizes = append(sizes, uint64(float64(from)*step))
			}
		}
		sizes = append(sizes, b)
	}
	return slices.Compact(sizes)
}

// Ranked lists the curves of a model's group, those that win most first.
func Ranked(m *model.Model, g *model.CurveSet) []Curve {
	least, choice := map[uint64]float64{}, map[uint64]model.DefaultPoint{}
	for _, c := range g.Curves {
		for _, p := range c.Measured {
			if us, ok := least[uint64(p[0])]; !ok || p[1] < us {
				least[uint64(p[0])] = p[1]
			}
		}
	}
	for _, p := range g.Default {
		choice[p.Bytes] = p
		if us, ok := least[p.Bytes]; !ok || p.Micros < us {
			least[p.Bytes] = p.Micros
		}
	}
	view, key := m.For(g.Comm), g.Key()
	var all []Curve
	for i := range g.Curves {
		f := &g.Curves[i]
		c := Curve{Config: f.Config()}
		var sizes []uint64
		for _, p := range f.Measured {
			b := uint64(p[0])
			sizes = append(sizes, b)
			c.Measured = append(c.Measured, Point{Bytes: b, Micros: p[1]})
			if c.Behind += math.Log(p[1] / least[b]); p[1] == least[b] && !repeats(choice[b], c.Config, p[1]) {
				c.Wins++
			}
		}
		c.Behind /= max(1, float64(len(f.Measured)))
		for _, b := range drawn(sizes) {
			if t := view.Predict(nccl.Call{Coll: key.Coll, Bytes: b}, c.Config); !t.Unknown() {
				c.Fitted = append(c.Fitted, Point{b, t.Micros()})
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Curve) int {
		return cmp.Or(cmp.Compare(b.Wins, a.Wins), cmp.Compare(a.Behind, b.Behind))
	})
	return all
}

// repeats reports whether NCCL's choice is as fast as a configuration, or is that very one. The zero value is none.
func repeats(choice model.DefaultPoint, c nccl.Config, micros float64) bool {
	was := choice.Config()
	same := was.Cell == c.Cell && (c.Channels == 0 || c == was)
	return choice.Micros > 0 && choice.Micros <= micros || same
}

// Default is NCCL's choice: as it was measured, and as decisions reckon with it in between; none where it was not
// measured.
func Default(m *model.Model, g *model.CurveSet) (measured, fitted []Point) {
	view, key := m.For(g.Comm), g.Key()
	var sizes []uint64
	for _, p := range g.Default {
		measured, sizes = append(measured, Point{Bytes: p.Bytes, Micros: p.Micros}), append(sizes, p.Bytes)
	}
	for _, b := range drawn(sizes) {
		if choice, ok := view.NCCLChoice(nccl.Call{Coll: key.Coll, Bytes: b}); ok {
			fitted = append(fitted, Point{b, choice.Micros()})
		}
	}
	return measured, fitted
}
