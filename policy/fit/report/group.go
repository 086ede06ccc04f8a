package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// groupData is what the script draws of one group.
type groupData struct {
	Name       string     `json:"name"`
	Coll       string     `json:"coll"`
	Comm       string     `json:"comm"`
	Bus        num        `json:"bus"` // busbw / algbw
	Noise      num        `json:"noise"`
	NoisePairs int        `json:"noisePairs"`
	Assumed    bool       `json:"noiseAssumed,omitempty"`
	Sizes      []sizeData `json:"sizes"`
	Curves     []curve    `json:"curves"`         // NCCL's choice first, if it was measured
	Left       int        `json:"left,omitempty"` // curves left out to bound the page
}

// sizeData is a decision. Short names: there are many.
type sizeData struct {
	Bytes  uint64 `json:"b"`
	Winner string `json:"w,omitempty"`
	Best   num    `json:"us"`
	NCCL   num    `json:"d"`
	Label  string `json:"dl,omitempty"`
	Row    string `json:"row,omitempty"`
	Why    string `json:"why,omitempty"`
	Unsure bool   `json:"u,omitempty"` // that Winner is faster than NCCL's choice
	Gain   num    `json:"g"`
	Reach  num    `json:"r"`
}

// num keeps five digits; NaN and infinities are null.
type num float64

func (n num) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) && !math.IsInf(f, 0) {
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.AppendFloat(nil, f, 'f', -1, 64), nil
		}
		return strconv.AppendFloat(nil, f, 'g', 5, 64), nil
	}
	return []byte("null"), nil
}

// shownAtFirst is how many curves a reader can tell apart.
const shownAtFirst = 8

// mostCurves of a group are on the page, at about 2 KB each.
const mostCurves = 40

func newGroupData(r *fit.GroupReport, in Input, decisions []decision) *groupData {
	g := r.Group
	d := &groupData{
		Name: g.Key.String(), Coll: g.Coll.String(), Comm: g.Comm.String(),
		Bus: num(g.Coll.BusFactor(float64(g.Ranks))), Noise: num(g.Noise), NoisePairs: g.NoisePairs,
		Assumed: g.NoiseAssumed(),
		Curves:  []curve{},
	}
	for _, s := range decisions {
		o := sizeData{
			Bytes: s.bytes, Best: num(s.best), NCCL: num(s.byNCCL), Why: s.why, Unsure: s.unproven, Gain: num(s.gain),
			Reach: num(s.reach),
		}
		if s.winner != nil {
			o.Winner = s.winner.String()
		}
		if s.choice != nil {
			o.Label = s.choice.String()
		}
		if s.row != nil {
			o.Row = s.row.String()
		}
		d.Sizes = append(d.Sizes, o)
	}
	choice := curve{Name: "NCCL’s default", Shown: true, Fitted: [][2]num{}}
	for _, c := range g.Default {
		choice.Measured = append(choice.Measured, [2]num{num(c.Bytes), num(c.Micros)})
	}
	var all []curve
	isOf := func(m model.CurveSet) bool { return m.Key() == g.Key }
	if i := slices.IndexFunc(in.File.CurveSets, isOf); i >= 0 { // else nothing but the default was measured
		choice.fillDefault(in.Model, &in.File.CurveSets[i])
		all = ranked(in.Model, &in.File.CurveSets[i])
	}
	if len(choice.Measured) > 0 {
		d.Curves = append(d.Curves, choice)
	}
	byNoRow := func(c curve) int { // 0: the policy asks for it
		return min(0, slices.IndexFunc(in.Rows, func(row fit.Row) bool {
			return row.Key == g.Key && row.Config == c.Config
		}))
	}
	slices.SortStableFunc(all, func(a, b curve) int { return cmp.Compare(byNoRow(b), byNoRow(a)) })
	d.Left = max(0, len(all)-mostCurves)
	for i, c := range all[:len(all)-d.Left] {
		c.Shown = i < shownAtFirst && (c.Wins > 0 || i < shownAtFirst/2)
		d.Curves = append(d.Curves, c)
	}
	return d
}
