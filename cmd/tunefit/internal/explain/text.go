package explain

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// maxExplained is how many configurations are shown without --all.
const maxExplained = 10

// Write prints the path for a person; with all, every row and configuration.
func (p *Path) Write(w io.Writer, all bool) {
	var b bytes.Buffer
	p.columns = cli.Width(w)
	q := p.Outcome
	fmt.Fprintf(&b, "%s of %s on %s, %s%s\n", q.Coll, nccl.FormatBytes(q.Bytes), wording.Plural(q.Comm.Nodes, "node"),
		wording.Plural(q.Comm.Ranks, "rank"), q.CallText())
	p.writeRows(&b, all)
	p.writeModel(&b, all)
	p.writeMeasured(&b)
	p.writeEstimates(&b)
	p.writeDecision(&b)
	fmt.Fprintf(w, "%s", trailingSpace.ReplaceAll(b.Bytes(), nil))
}

// trailingSpace is left by empty cells of tables.
var trailingSpace = regexp.MustCompile(`(?m) +$`)

func (p *Path) writeModel(b *bytes.Buffer, all bool) {
	if p.Files.Model == "" {
		return
	}
	fmt.Fprintf(b, "\nmodel %s\n", p.Files.Model)
	if s := p.Engine.Standing; s != model.AnyMachine {
		fmt.Fprintf(b, "  it %s\n", s)
	}
	if p.Engine.Model == nil {
		return
	}
	if p.By == policy.ByRow {
		fmt.Fprintf(b, "  not asked, as a row decides; this is what it would say\n")
	}
	p.writeCandidates(b, all)
	fmt.Fprintf(b, "  %s\n", p.verdict())
	for i, advice := range p.advice() {
		fmt.Fprintf(b, "  %s %s\n", [...]string{"to do:", "   or:"}[min(i, 1)], advice)
	}
}

// verdict says whether the model decides, and by what margin.
func (p *Path) verdict() string {
	margin := ""
	if m := p.Model; m.Needed > 0 {
		margin = fmt.Sprintf(": %s instead of NCCL's default gains %s (needed: %s)", m.Config, cli.Percent(m.Gain()),
			cli.Percent(m.NeededGain()))
	}
	if p.Why != model.Decides {
		return fmt.Sprintf("abstains: %s%s", p.Why, margin)
	}
	return "it decides" + margin
}

func (p *Path) writeCandidates(b *bytes.Buffer, all bool) {
	if len(p.Candidates) == 0 {
		return
	}
	tw := cli.NewTable(cli.Columns{Writer: b, Most: p.columns})
	tw.Row("  configuration", "expected", "uncertain by", "")
	if own := p.Model.Default; !own.Unknown() {
		tw.Row("  NCCL's default", microsText(own.Micros()), cli.Percent(own.Sigma), p.Outcome.NCCL.Cell)
	}
	shown := 0
	for _, c := range p.Candidates {
		if !all && (c.Bar != model.BarNone || shown == maxExplained) {
			continue
		}
		shown++
		remark := c.Bar.String()
		if p.By == policy.ByModel && c.Config == p.Model.Config {
			remark = "chosen"
		}
		tw.Row("  "+c.Config.String(), microsText(c.Micros()), cli.Percent(c.Sigma), remark)
	}
	tw.Flush()
	if more := len(p.Candidates) - shown; more > 0 {
		fmt.Fprintf(b, "  and %d more that are slower or may not be chosen (--all)\n", more)
	}
}

// writeMeasured prints NCCL's measured choice, if there is one.
func (p *Path) writeMeasured(b *bytes.Buffer) {
	o := p.Outcome
	switch micros := microsText(float64(o.NCCLMicros)); o.Known {
	case ask.Measured:
		fmt.Fprintf(b, "\nNCCL's default, as measured (%s): %s, %s\n", p.Files.Model, o.NCCL, micros)
	case ask.Timed:
		fmt.Fprintf(b, "\nNCCL's default, as measured (%s): %s; what took it is not known\n", p.Files.Model, micros)
	}
}

// writeEstimates prints NCCL's estimates.
func (p *Path) writeEstimates(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%s\n", p.Source)
	tw := cli.NewList(cli.Columns{Writer: b, Most: p.columns})
	for _, e := range p.estimates() {
		remark := ""
		switch {
		case e.NotEstimated && !e.Chosen && p.Outcome.Comm.Ranks == p.Outcome.Comm.Nodes:
			remark = "NCCL has it; there is no estimate"
		case e.NotEstimated && !e.Chosen:
			remark = "NCCL never chooses it by itself"
		case !e.Chosen:
		case p.Outcome.Known == ask.NotKnown:
			remark = "the cheapest there"
		case p.Outcome.Known == ask.Measured:
			remark = "NCCL's default, as measured"
		default:
			channels, _ := p.Costs.ChannelsAndWarps(e.Algo, e.Proto, int64(p.Outcome.Bytes))
			remark = fmt.Sprintf("NCCL's default, with %s", wording.Plural(channels, "channel"))
		}
		tw.Row("  "+e.Cell.String(), e.text(), remark)
	}
	tw.Flush()
	if p.Outcome.NCCL.Cell == nccl.NoCell {
		fmt.Fprintln(b, "  NCCL has nothing available here")
	}
}

// estimate is NCCL's estimate for a cell.
type estimate struct {
	nccl.Cell
	Micros *float32 `json:"us,omitempty"`
	// NotEstimated: NCCL leaves the cell to tuners, or the estimates are of another communicator, which lacks it.
	NotEstimated bool `json:"not_estimated,omitempty"`
	Chosen       bool `json:"chosen,omitempty"`
}

func (e *estimate) text() string {
	if e.Micros == nil {
		return "-"
	}
	return microsText(float64(*e.Micros))
}

// estimates lists the available cells, the cheapest first. Last are those without an estimate.
func (p *Path) estimates() (all []estimate) {
	for i, micros := range p.Estimated {
		if micros < 0 {
			continue
		}
		e := estimate{Cell: ask.CellAt(i), Chosen: ask.CellAt(i) == p.Outcome.NCCL.Cell}
		if e.NotEstimated = micros == nccl.TunerOnly; !e.NotEstimated {
			e.Micros = &micros
		}
		all = append(all, e)
	}
	cost := func(e estimate) float32 {
		if e.Micros == nil {
			return nccl.TunerOnly
		}
		return *e.Micros
	}
	slices.SortStableFunc(all, func(a, b estimate) int { return cmp.Compare(cost(a), cost(b)) })
	return all
}

func (p *Path) writeDecision(b *bytes.Buffer) {
	fmt.Fprintf(b, "\ndecision: %s", p.Outcome.Choice())
	if p.Outcome.Known != ask.NotKnown && p.Outcome.Policy.Cell != p.Outcome.NCCL.Cell {
		fmt.Fprintf(b, " instead of %s", p.Outcome.NCCL.Cell)
	}
	fmt.Fprintf(b, ", by %s\n", p.Outcome.DecidedBy())
	if p.Outcome.NotRaised > 0 {
		fmt.Fprintf(b, "the %s asked for are without effect: NCCL %s takes a tuner's only where they are fewer than "+
			"its own\n", wording.Plural(p.Outcome.NotRaised, "channel"), p.Outcome.Release)
	}
	switch e := p.Outcome.Expected; {
	case e != nil:
		fmt.Fprintf(b, "expected gain: %s (%s instead of %s, uncertain by %s)\n", cli.Percent(e.Gain),
			microsText(e.Micros), microsText(e.Default), cli.Percent(e.Sigma))
	case p.By == policy.ByRow && p.Files.Model != "":
		fmt.Fprintln(b, "expected gain: not known, the model has not seen this configuration here")
	}
}

// place is a row's file and line, without folders.
func (p *Path) place(rule int) string {
	return fmt.Sprintf("%s:%d", filepath.Base(p.Files.Policy), p.Engine.Policy.Rules[rule].Line)
}

// fewOf lists the first names.
func fewOf(names []string) string { return cli.Few(names, 3, "; ") }

func microsText(us float64) string {
	if math.IsNaN(us) {
		return "-"
	}
	if us >= 1000 {
		return fmt.Sprintf("%.0f us", us)
	}
	return fmt.Sprintf("%.4g us", us)
}
