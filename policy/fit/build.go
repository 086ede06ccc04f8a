package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const (
	// axisStep is the widest gap in octaves between two sizes of an axis: straight
	// lines in between then differ from the fit by less than its noise.
	axisStep = 1.0 / 3
	// finest is how close in octaves two sizes of an axis may be.
	finest = 1.0 / 16
)

// axisOf returns the sizes at which a group's curves are given: those measured,
// but of sizes closer together the first, and some between them.
func axisOf(measured []uint64, closest float64) []uint64 {
	var axis []uint64
	for i, b := range measured {
		if len(axis) == 0 {
			axis = append(axis, b)
			continue
		}
		gap := log2(b) - log2(axis[len(axis)-1])
		if gap < closest && i+1 < len(measured) {
			continue
		}
		from := float64(axis[len(axis)-1])
		steps := int(math.Ceil(gap/max(axisStep, closest) - 1e-9))
		for k := 1; k < steps; k++ {
			between := uint64(math.Round(from * math.Exp2(gap*float64(k)/float64(steps))))
			if between > axis[len(axis)-1] && between < b {
				axis = append(axis, between)
			}
		}
		axis = append(axis, b)
	}
	return axis
}

// compileGroup fits a group and writes its curves down for the sizes of an axis
// that holds the first and the last size measured.
func compileGroup(g *Group, axis []uint64) model.Group {
	m := model.Group{
		Coll: g.Coll.String(), Nodes: g.Nodes, Ranks: g.Ranks,
		Noise: round(g.Noise, 3), RepetitionPairs: g.NoisePairs, Axis: axis,
	}
	var shared layouts
	measuredSizes := g.Sizes()
	fitted := map[Config]*familyFit{}
	for _, cells := range g.families() {
		f := g.fitFamily(cells, &shared)
		key := cells[0].Config.FamilyKey
		mf := model.Family{Algo: key.Algo.String(), Proto: key.Proto.String()}
		caution := 1.0
		if j, ok := f.predictor.(*blend); ok {
			caution = j.caution()
			mf.Scale, mf.GapScale = round(j.process.scale, 3), round(j.process.gapScale, 3)
		}
		mf.Distrust = g.distrust(key, measuredSizes)
		for _, channels := range f.channels {
			fitted[Config{key, channels}] = f
			curve := model.Curve{Channels: channels, Floored: g.floored[Config{key, channels}]}
			domain, measured := f.domain(channels), f.measured(channels)
			curve.Min, curve.Max = max(domain.Min, m.Axis[0]), min(domain.Max, m.Axis[len(m.Axis)-1])
			for _, c := range cells {
				if c.Config.Channels == channels {
					curve.Measured = append(curve.Measured, [2]float64{float64(c.Bytes), round(c.Micros, 6)})
				}
			}
			sizes := sizesWithin(m.Axis, curve.Min, curve.Max)
			curve.Micros, curve.Sigma = tabulate(f.predictor, channels, sizes)
			for i, b := range sizes {
				if b < measured.Min || b > measured.Max {
					curve.Sigma[i] = round(curve.Sigma[i]*caution, 3)
				}
			}
			mf.Curves = append(mf.Curves, curve)
		}
		m.Families = append(m.Families, mf)
	}
	if len(g.Default) > 0 {
		m.Default = compileDefault(g, fitted, m.Axis)
	}
	m.Verified = g.verdicts()
	return m
}

func sizesWithin(axis []uint64, from, to uint64) []uint64 {
	i, _ := slices.BinarySearch(axis, from)
	j, exact := slices.BinarySearch(axis, to)
	if exact {
		j++
	}
	return axis[i:j]
}

func tabulate(p predictor, channels int, sizes []uint64) (micros, sigma []float64) {
	micros, sigma = p.predict(channels, sizes)
	for i := range micros {
		micros[i], sigma[i] = round(math.Exp(micros[i]), 5), round(sigma[i], 3)
	}
	return micros, sigma
}

func compileDefault(g *Group, fitted map[Config]*familyFit, axis []uint64) *model.Default {
	d := &model.Default{}
	for _, c := range g.Default {
		p := model.DefaultPoint{Bytes: c.Bytes, Micros: round(c.Micros, 6)}
		if c.Config.Algo >= 0 {
			p.Algo, p.Proto, p.Channels = c.Config.Algo.String(), c.Config.Proto.String(), c.Config.Channels
		}
		d.Measured = append(d.Measured, p)
	}
	sizes := sizesWithin(axis, g.Default[0].Bytes, g.Default[len(g.Default)-1].Bytes)
	d.Micros, d.Sigma = tabulate(g.fitDefault(fitted), 0, sizes)
	return d
}

// distrust turns those of the measured sizes at which a family has a twin into
// ranges that reach up to the next sizes without one.
func (g *Group) distrust(f FamilyKey, sizes []uint64) []model.Distrust {
	twins := map[uint64]FamilyKey{}
	for _, t := range g.Twins {
		switch f {
		case t.A:
			twins[t.Bytes] = t.B
		case t.B:
			twins[t.Bytes] = t.A
		}
	}
	if len(twins) == 0 {
		return nil
	}
	var out []model.Distrust
	for i, b := range sizes {
		twin, ok := twins[b]
		if !ok {
			continue
		}
		r := model.Distrust{Min: b, Max: b, Twin: twin.String()}
		if i > 0 {
			r.Min = sizes[i-1] + 1
		}
		if i+1 < len(sizes) {
			r.Max = sizes[i+1] - 1
		}
		if n := len(out); n > 0 && out[n-1].Max >= r.Min {
			out[n-1].Max = r.Max
			continue
		}
		out = append(out, r)
	}
	return out
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
