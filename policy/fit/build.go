package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// modelOf writes a group down as a model: its medians. The curves through them are the model's.
func modelOf(g *Group) model.CurveSet {
	m := model.CurveSet{
		Coll: g.Coll.String(), Comm: g.Comm,
		Noise: round(g.Noise, 3), RepetitionPairs: g.NoisePairs, Verified: g.verified(),
	}
	for _, d := range g.Default {
		p := model.DefaultPoint{Bytes: d.Bytes, Micros: round(d.Micros, 6)}
		if c := d.Config; c.Algo >= 0 {
			p.Algo, p.Proto, p.Channels = c.Algo.String(), c.Proto.String(), c.Channels
		}
		m.Default = append(m.Default, p)
	}
	points := slices.Clone(g.Points)
	for i := range points {
		points[i].Config = g.asOwn(points[i].Config, points[i].Bytes)
	}
	slices.SortFunc(points, Point.compare)
	for i, point := range points {
		if c := point.Config; i == 0 || c != points[i-1].Config {
			curve := model.Curve{Algo: c.Algo.String(), Proto: c.Proto.String(), Channels: c.Channels,
				Floored: g.floored[c]}
			m.Curves = append(m.Curves, curve)
		}
		curve := &m.Curves[len(m.Curves)-1]
		curve.Measured = append(curve.Measured, [2]float64{float64(point.Bytes), round(point.Micros, 6)})
	}
	return m
}

// round keeps so many significant digits, so that files stay readable and do not
// depend on the last bits of an exponential, which differ between machines. What was
// measured often lies just between two numbers of so many digits, and e^ln x a little
// to either side of it: rounded to more digits first, it is there again.
func round(v float64, digits int) float64 { return toDigits(toDigits(v, 12), digits) }

func toDigits(v float64, digits int) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	// Powers of ten are exact up to 1e22, as are the sums of digits: one operation
	// rounds each, on every machine alike.
	scale := digits - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	if scale < 0 {
		unit := math.Pow10(-scale)
		return math.Round(v/unit) * unit
	}
	unit := math.Pow10(scale)
	return math.Round(v*unit) / unit
}
