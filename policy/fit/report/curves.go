package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// curve is a configuration's times by size, or those of NCCL's choice, as the script draws them.
type curve struct {
	nccl.Config `json:"-"`
	Name        string `json:"n"`
	Family      string `json:"f,omitempty"` // empty: NCCL's choice
	Wins        int    `json:"wins"`        // measured sizes at which nothing was faster, nor NCCL's choice as fast
	// Behind is the mean over its measured sizes of ln(us / least us measured
	// there, by NCCL's choice, too): 0 for a configuration that always wins.
	Behind   num      `json:"behind"`
	Shown    bool     `json:"on,omitempty"` // at first
	Measured [][2]num `json:"m"`            // bytes, us; repetitions pooled; ascending sizes
	Fitted   [][2]num `json:"c"`            // between them; close enough for straight lines
}

// perOctave is how many points of a curve are drawn; straight lines between them do not show.
const perOctave = 8

// drawn are sizes from the first measured one to the last, all of these among them.
func drawn(measured []uint64) (sizes []uint64) {
	for i, b := range measured {
		if i > 0 {
			const next = 1.0 / perOctave
			from := float64(measured[i-1])
			for step := math.Exp2(next); from*step < float64(b); step *= math.Exp2(next) {
				sizes = append(sizes, uint64(from*step))
			}
		}
		sizes = append(sizes, b)
	}
	return slices.Compact(sizes)
}

// ranked lists the curves of a group, those that are most often the fastest first, so that the first few are worth
// drawing.
func ranked(m *model.Model, g *model.CurveSet) []curve {
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
	var all []curve
	for i := range g.Curves {
		f := &g.Curves[i]
		c := curve{Config: f.Config(), Measured: [][2]num{}, Fitted: [][2]num{}}
		c.Name, c.Family = c.Config.String(), c.Cell.String()
		var sizes []uint64
		behind := 0.0
		for _, p := range f.Measured {
			b := uint64(p[0])
			sizes = append(sizes, b)
			c.Measured = append(c.Measured, [2]num{num(p[0]), num(p[1])})
			if behind += math.Log(p[1] / least[b]); p[1] == least[b] && !repeats(choice[b], c.Config, p[1]) {
				c.Wins++
			}
		}
		c.Behind = num(behind / max(1, float64(len(f.Measured))))
		for _, b := range drawn(sizes) {
			if t := view.Predict(nccl.Call{Coll: key.Coll, Bytes: b}, c.Config); !t.Unknown() {
				c.Fitted = append(c.Fitted, [2]num{num(b), num(t.Micros())})
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b curve) int {
		return cmp.Or(cmp.Compare(b.Wins, a.Wins), cmp.Compare(a.Behind, b.Behind))
	})
	return all
}

// repeats reports whether NCCL's choice is as fast as a configuration, or is that very one. The zero value is none.
func repeats(choice model.DefaultPoint, c nccl.Config, micros float64) bool {
	return choice.Micros > 0 && choice.Micros <= micros || c.Admits(choice.Config())
}

// fillDefault adds what decisions reckon with between the sizes at which NCCL's choice was measured.
func (c *curve) fillDefault(m *model.Model, g *model.CurveSet) {
	view, key := m.For(g.Comm), g.Key()
	var sizes []uint64
	for _, p := range g.Default {
		sizes = append(sizes, p.Bytes)
	}
	for _, b := range drawn(sizes) {
		if choice, ok := view.NCCLChoice(nccl.Call{Coll: key.Coll, Bytes: b}); ok {
			c.Fitted = append(c.Fitted, [2]num{num(b), num(choice.Micros())})
		}
	}
}
