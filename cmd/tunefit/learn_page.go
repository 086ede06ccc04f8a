package main

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/learning"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

//go:embed learn_page.html
var learnPage string

var learnTemplate = template.Must(template.New("learn").Funcs(template.FuncMap{
	"headline": learning.Headline, "standing": learning.Standing, "title": title,
	"shape": learning.Shape, "verdict": armVerdict,
	"percent": learning.Percent, "span": learning.Range, "scale": newAxis,
}).Parse(learnPage))

// writeLearnedPage writes a page that is whole in itself and runs no script.
func writeLearnedPage(w io.Writer, all []learned) error {
	var out bytes.Buffer
	err := learnTemplate.Execute(&out, struct {
		Style template.CSS
		All   []learned
	}{template.CSS(report.Style()), all})
	if err != nil {
		return err
	}
	_, err = out.WriteTo(w)
	return err
}

// axis reaches as far to both sides of 0, in shares of a step, as arms that are not much slower.
type axis float64

func newAxis(e trial.Evidence) axis {
	most := 0.002
	for _, f := range e.Factors {
		for _, a := range f.Arms {
			if a.Estimated() && a.Dropped != "worse" {
				most = max(most, math.Abs(a.Effect)+trial.Surely*a.Error)
			}
		}
	}
	return axis(0.002 * math.Ceil(most/0.002))
}

func (a axis) Ticks() []float64 {
	w := float64(a)
	return []float64{-w, -w / 2, 0, w / 2, w}
}

// X is where a share of a step is, in percent of the width.
func (a axis) X(share float64) float64 { return min(max(50+50*share/float64(a), 0), 100) }

// placed is an interval on an axis.
type placed struct {
	At, Low, High float64
	Over          bool // all of it is beyond
	Tone          string
}

func (a axis) Place(of trial.Arm) placed {
	low, high := of.Effect-trial.Surely*of.Error, of.Effect+trial.Surely*of.Error
	p := placed{a.X(of.Effect), a.X(low), a.X(high), of.Effect > float64(a), "either"}
	if high < 0 {
		p.Tone = "faster"
	} else if low > 0 {
		p.Tone = "slower"
	}
	return p
}
