package fit

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Evidence is what a row gains, and how sure that is. The zero value is of a row of which nothing is said.
type Evidence struct {
	// Least and Most bound the share of the default's time that the row saves at its sizes.
	Least, Most float64
	// Sizes is how many of them were measured, with the row's configuration and with the default. 0: the gain is the
	// model's prediction.
	Sizes    int
	Verified int // of Sizes, where times were repeated and the row won
	// Passes is how often it was measured at each of these, and Starts in how many starts of nccl-tests: the least.
	Passes, Starts int
	// Once says that everything was measured once.
	Once bool
	// NoDefault says that the default was not measured. The gain is over the best that it can be.
	NoDefault bool
}

// OneRunEach is what is said of a group whose configurations were each measured once.
const OneRunEach = "one run each: not sure"

func evidenceOf(r *Row, m *model.Model, g *model.CurveSet) Evidence {
	e := Evidence{Least: math.Inf(1), Most: math.Inf(-1), Once: g.RepetitionPairs == 0, NoDefault: len(g.Default) == 0}
	add := func(gain float64) { e.Least, e.Most = min(e.Least, gain), max(e.Most, gain) }
	c := slices.IndexFunc(g.Curves, func(c model.Curve) bool { return c.Config() == r.Config })
	for _, d := range g.Default {
		if !r.Bytes.Contains(d.Bytes) {
			continue
		}
		v := slices.IndexFunc(g.Verified, func(v model.Verified) bool { return v.Bytes == d.Bytes })
		p := slices.IndexFunc(g.Curves[c].Measured, func(p [2]float64) bool { return uint64(p[0]) == d.Bytes })
		switch {
		case v >= 0 && g.Verified[v].Config() == r.Config:
			add(1 - g.Verified[v].Micros/g.Verified[v].DefaultMicros)
			v := g.Verified[v]
			if e.Verified++; e.Verified == 1 {
				e.Passes, e.Starts = v.Repetitions, v.Starts
			}
			e.Passes, e.Starts = min(e.Passes, v.Repetitions), min(e.Starts, v.Starts)
		case p >= 0:
			add(1 - g.Curves[c].Measured[p][1]/d.Micros)
		default:
			continue
		}
		e.Sizes++
	}
	if e.Sizes > 0 {
		return e
	}
	view := m.For(g.Comm)
	for _, b := range []uint64{r.Bytes.Min, middle(r.Bytes.Min, r.Bytes.Max), r.Bytes.Max} {
		if x, ok := view.Expect(nccl.Call{Coll: r.Coll, Bytes: b}, everything, r.Config); ok {
			add(x.Gain())
		}
	}
	return e
}

// explanation is the comment before a row: where it gains what, and how sure that is.
func (r Row) explanation() string {
	text := about(r.Bytes.Min) + " - " + about(r.Bytes.Max) + ": "
	if r.From > 0 {
		text += fmt.Sprintf("on %d nodes ", r.From)
		if r.Measured.Channels != r.Channels {
			text += fmt.Sprintf("with %s ", wording.Plural(r.Measured.Channels, "channel"))
		}
	}
	return text + r.Evidence.String()
}

// about writes a size for a person, who finds the exact one in the row: 2353973 as 2.2MiB.
func about(bytes uint64) string {
	v, unit := float64(bytes), ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v >= 1024 {
			v, unit = v/1024, next
		}
	}
	digits := 0
	if v < 10 && math.Abs(v-math.Round(v)) >= 0.05 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + unit
}

// String says what is gained and how sure it is: 12 to 31 % faster than NCCL's default, 3 sizes measured, verified.
func (e Evidence) String() string {
	than := "NCCL's default"
	if e.NoDefault {
		than = "the best that NCCL's default can be, which was not measured"
	}
	text := fmt.Sprintf("%s than %s", faster(e.Least, e.Most), than)
	switch {
	case e.Least > e.Most:
		text = "its gain is not known"
	case e.Sizes == 0:
		text = "expected to be " + text + ", not measured at these sizes"
	default:
		text += ", " + wording.Plural(e.Sizes, "size") + " measured"
	}
	switch {
	case e.Verified > 0 && e.Verified == e.Sizes:
		text += ", verified" + e.by()
	case e.Verified > 0:
		text += fmt.Sprintf(", %d verified%s", e.Verified, e.by())
	case e.Once:
		text += ", " + OneRunEach
	}
	return text
}

// by says how often a row was measured; empty: models of older releases do not tell.
func (e Evidence) by() string {
	if e.Starts == 0 {
		return ""
	}
	return fmt.Sprintf(": %s in %s", wording.Plural(e.Passes, "time"), wording.Plural(e.Starts, "start"))
}

// faster writes a range of gains in percent; a loss is a gain below 0.
func faster(least, most float64) string {
	digits := 0
	if math.Abs(most) < 0.1 {
		digits = 1
	}
	from, to := fmt.Sprintf("%.*f", digits, 100*least), fmt.Sprintf("%.*f", digits, 100*most)
	if from == to {
		return from + " % faster"
	}
	return fmt.Sprintf("%s to %s %% faster", from, to)
}
