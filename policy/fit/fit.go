package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Options say where the samples of a model come from.
type Options struct{ Provenance model.Provenance }

// Report says how good a model is, group by group.
type Report struct {
	Groups []GroupReport
}

// GroupReport is what there is to say about one group.
type GroupReport struct {
	Group *Group
	// DefaultOnly: nothing but NCCL's choice was measured, and the
	// model says nothing.
	DefaultOnly bool
	Validation  *Validation // on sizes left out; nil where too little was measured
	// Genuine is the share of the best measured gain that is not the luck of a winner, from 0 to 1, at each size of
	// Group.Default.
	Genuine []float64
	// Edge is a channel count that wins somewhere and is the largest or the
	// smallest measured: the range was too narrow. 0: none.
	Edge int
}

// Fit fits a model to each group of a set. Groups are independent of one another
// and fitted in parallel; the result does not depend on that.
func Fit(set *Set, opts Options) (*model.File, *Report) {
	file := &model.File{Format: model.Format, Version: model.Version, Provenance: opts.Provenance}
	file.Provenance.SimulatedRows = set.Simulated
	for _, m := range set.Machines {
		if m.String() != "" && len(file.Provenance.Machines) < mostMachines { // something is known of it
			file.Provenance.Machines = append(file.Provenance.Machines, m)
		}
	}
	file.Provenance.Mixed = len(set.GPUs()) > 1
	file.Provenance.NCCL = set.NCCL
	report := &Report{Groups: make([]GroupReport, len(set.Groups))}
	models := make([]model.CurveSet, len(set.Groups))
	each(len(set.Groups), func(i int) { models[i], report.Groups[i] = fitGroup(set.Groups[i]) })
	for i := range models {
		if !report.Groups[i].DefaultOnly {
			file.CurveSets = append(file.CurveSets, models[i])
		}
	}
	return file, report
}

// each calls f for 0 to n-1, in parallel.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func fitGroup(g *Group) (model.CurveSet, GroupReport) {
	r := GroupReport{Group: g, DefaultOnly: len(g.Points) == 0}
	if r.DefaultOnly {
		return model.CurveSet{}, r
	}
	m := modelOf(g)
	r.Edge = g.edge()
	r.Genuine = g.genuine()
	if folds := foldsBySize(g); len(folds) > 0 {
		r.Validation = validate(g, folds)
		m.HeldOut = []model.Trial{r.Validation.trial()}
	}
	return m, r
}

// trial is the validation as a model's file keeps it: of the policy where there is a
// default to compare with, else of the plain choice.
func (v *Validation) trial() model.Trial {
	s := v.Plain
	if v.PolicyScore.Decisions > 0 {
		s = v.PolicyScore
	}
	for _, f := range []*float64{&s.Mean, &s.Low, &s.High, &s.P95, &s.Max} {
		*f = round(*f, 5)
	}
	out := model.Trial{LeftOut: model.LeftOutSizes, Score: s, VersusDefault: round(v.VersusDefault.Mean, 5)}
	if v.Predicted > 0 {
		out.Inside = round(float64(v.Inside)/float64(v.Predicted), 3)
	}
	return out
}

// edge is the channel count at an end of those measured that wins some size, the most first, if more channels, or
// fewer, could be tried; 0: none.
func (g *Group) edge() int {
	var channels []int
	for _, c := range g.Configs() {
		channels = append(channels, c.Channels)
	}
	low, high := slices.Min(channels), slices.Max(channels)
	wins := map[int]bool{}
	for _, c := range g.winners() {
		if !g.neverMore || c.Config.Channels < high {
			wins[c.Config.Channels] = true
		}
	}
	allowed := func(n int) bool {
		for under := range g.Under {
			if !under.Allow(n) {
				return false
			}
		}
		return true
	}
	switch {
	case low == high:
	case high < nccl.MaxChannels && wins[high] && allowed(high+1):
		return high
	case low > 1 && wins[low] && allowed(low-1):
		return low
	}
	return 0
}

// modelOf writes a group down as a model: its medians. The curves through them are the model's.
func modelOf(g *Group) model.CurveSet {
	m := model.CurveSet{
		Coll: g.Coll.String(), Comm: g.Comm,
		Noise: round(g.Noise, 3), RepetitionPairs: g.NoisePairs, Verified: g.verified(),
	}
	for under := range g.Under { // fit refuses what was measured under several
		m.Variables = under.Variables
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
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return rounded
}

// WriteModel writes a model's file: indented, but each curve on one line.
func WriteModel(w io.Writer, file *model.File) error {
	whole := *file
	if whole.CurveSets == nil {
		whole.CurveSets = []model.CurveSet{}
	}
	text, err := json.MarshalIndent(&whole, "", " ")
	if err != nil {
		return err
	}
	if text = append(shorten(text), '\n'); len(text) > model.MaxFileBytes {
		return fmt.Errorf("the model is larger than the %s that the library reads: nothing was written "+
			"(fit fewer collectives or communicators at a time)", nccl.FormatBytes(model.MaxFileBytes))
	}
	_, err = w.Write(text)
	return err
}

// shorten puts objects without objects in them on one line each: curves, times of the default, files.
func shorten(indented []byte) []byte {
	var out bytes.Buffer
	for {
		start := bytes.Index(indented, []byte("{\n"))
		if start < 0 {
			out.Write(indented)
			return out.Bytes()
		}
		out.Write(indented[:start])
		end := start + 1 + bytes.IndexAny(indented[start+1:], "{}")
		// Compact fails where the brace is of a name: the object stays as it is.
		if indented[end] == '}' && json.Compact(&out, indented[start:end+1]) == nil {
			indented = indented[end+1:]
			continue
		}
		out.Write(indented[start:end])
		indented = indented[end:]
	}
}
