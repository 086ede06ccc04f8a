package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

func explainCommand(env cli.Env) *cobra.Command {
	f := explainFlags{from: ask.Flags{Env: env}}
	cmd := &cobra.Command{
		Use:   "explain COLLECTIVE SIZE --comm NODESxRANKS_PER_NODE",
		Short: "Show how one decision is made: rows, conditions, model, NCCL",
		Long: `Show how the decision about one call is made: each row and why it does not match, the
nearest first; the values that conditions see; what the model expects, and why it decides
or abstains; NCCL's estimates.

Without --policy and --model it takes the files that a job started here would use. NCCL's
default is found as tunefit show finds it.`,
		Example: `  tunefit explain allreduce 8M --comm 4x8 --policy configs/policies/example.csv
  tunefit explain allgather 64K --comm 2x8 --policy configs/policies/conditions.csv --topo configs/topo/dgx-h100.xml`,
		Args: cli.Args(2, 2, "a collective and a size, as allreduce 8M"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, comm, err := f.question(args)
			if err != nil {
				return err
			}
			d := f.decider(cmd)
			if d == (ask.Decider{}) {
				return cli.Usagef("nothing to explain (needed: --policy, --model, $%s or $%s)", tuner.EnvConfigFile,
					tuner.EnvModelFile)
			}
			a, err := ask.NewAsker(f.from, d)
			if err != nil {
				return err
			}
			q.Comm = a.Comm(comm)
			explained, err := a.Explain(d, q)
			if err != nil {
				return err
			}
			p := newExplanation(explained, a.Notes, f.all)
			cli.Notes(cmd.ErrOrStderr(), a.Notes...)
			a.Note(cmd.ErrOrStderr(), []policy.Comm{q.Comm})
			return cli.Print(cmd.OutOrStdout(), f.json, p, p.write)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.by.Policy, "policy", "", "policy file (default $"+tuner.EnvConfigFile+")")
	fl.StringVar(&f.by.Model, "model", "", "cost model (default $"+tuner.EnvModelFile+")")
	fl.StringVar(&f.comm, "comm", "", "communicator as NODESxRANKS_PER_NODE: 4x8 is 4 nodes of 8 ranks")
	registerCall(cmd, &f.call)
	fl.BoolVar(&f.all, "all", false, "show every row, in the file's order, and every configuration")
	fl.BoolVar(&f.json, "json", false, "print JSON, with everything")
	f.from.Register(cmd)
	f.from.RegisterCommName(cmd)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nccl.Colls.Known, cobra.ShellCompDirectiveNoFileComp
	}
	cli.Complete(cmd, "comm", func([]string) []string { return commsOf(f.from, f.decider(cmd)) })
	return cmd
}

type explainFlags struct {
	by        ask.Decider
	comm      string
	call      ask.Question
	all, json bool
	from      ask.Flags
}

// decider is the files named, else those of the job's environment.
func (f *explainFlags) decider(cmd *cobra.Command) ask.Decider {
	d := f.by
	if !cmd.Flags().Changed("policy") {
		d.Policy = os.Getenv(tuner.EnvConfigFile)
	}
	if !cmd.Flags().Changed("model") {
		d.Model = os.Getenv(tuner.EnvModelFile)
	}
	return d
}

func (f *explainFlags) question(args []string) (q ask.Question, c nccl.Comm, err error) {
	q = f.call
	if q.Coll, err = cli.ParseColl(args[0]); err != nil {
		if _, swapped := cli.ParseColl(args[1]); swapped == nil {
			return q, c, cli.Usagef("%s is no collective (did you mean: tunefit explain %s %s)", args[0],
				args[1], args[0])
		}
		return q, c, cli.Usagef("%w", err)
	}
	if q.Bytes, err = nccl.ParseBytes(args[1]); err != nil {
		return q, c, cli.Usagef("%w", err)
	}
	if q.Bytes < 1 || q.Bytes > 1<<50 {
		return q, c, cli.Usagef("a collective of %s (allowed: 1 byte to 1024T)", args[1])
	}
	if err = checkCall(q); err != nil {
		return q, c, err
	}
	if f.comm == "" {
		return q, c, cli.Usagef("which communicator? (needed: --comm NODESxRANKS_PER_NODE, as 4x8)")
	}
	c, err = cli.ParseComm(f.comm)
	return q, c, err
}

// explanation is how one decision is made, as --json prints it. The text says the same.
type explanation struct {
	Decision ask.Outcome     `json:"decision"`
	Rows     []policy.Tried  `json:"rows,omitempty"`
	Model    *explainedModel `json:"model,omitempty"`
	NCCL     []ask.Estimate  `json:"nccl_estimates"`
	Notes    []string        `json:"notes,omitempty"`

	by  ask.Explained
	all bool // the text has every row and configuration, too
	out io.Writer
}

// explainedModel is what a model says.
type explainedModel struct {
	File       string               `json:"file"`
	Machine    string               `json:"machine"`
	Asked      bool                 `json:"asked"`              // false where a row decides
	Abstains   string               `json:"abstains,omitempty"` // why; left out: it decides
	ToDo       []string             `json:"to_do,omitempty"`
	Gain       *float64             `json:"gain,omitempty"`   // of the fastest over NCCL's choice
	Needed     *float64             `json:"needed,omitempty"` // least gain at which the model decides
	Default    *explainedCandidate  `json:"default,omitempty"`
	Candidates []explainedCandidate `json:"candidates,omitempty"`
}

type explainedCandidate struct {
	nccl.Cell
	Channels int     `json:"channels,omitempty"` // left out: NCCL's own count
	Micros   float64 `json:"us,omitempty"`       // left out: not known
	Sigma    float64 `json:"sigma,omitempty"`
	Barred   string  `json:"barred,omitempty"` // why it may not be chosen
}

func newExplanation(by ask.Explained, notes []string, all bool) *explanation {
	x := &explanation{Decision: by.Outcome, Rows: by.Rows, NCCL: by.Estimates, Notes: notes, by: by, all: all}
	if by.Files.Model != "" {
		x.Model = x.model()
	}
	return x
}

func (x *explanation) model() *explainedModel {
	by := &x.by
	m := &explainedModel{File: by.Files.Model, Machine: "the model " + by.Engine.Standing.String(), Asked: by.Asked}
	if by.Engine.Model == nil {
		m.Abstains = m.Machine
		return m
	}
	m.Abstains, m.ToDo = by.Why.String(), x.advice()
	candidate := func(c nccl.Config, t model.Time, barred string) explainedCandidate {
		j := explainedCandidate{Cell: c.Cell, Channels: c.Channels, Barred: barred}
		if !t.Unknown() {
			j.Micros, j.Sigma = t.Micros(), t.Sigma
		}
		return j
	}
	if d := by.Model; !d.Default.Unknown() {
		m.Default = new(candidate(nccl.Config{Cell: x.Decision.NCCL.Cell}, d.Default, ""))
		if d.Needed > 0 {
			m.Gain, m.Needed = new(d.Gain()), new(d.NeededGain())
		}
	}
	for _, c := range by.Candidates {
		m.Candidates = append(m.Candidates, candidate(c.Config, c.Time, c.Bar.String()))
	}
	return m
}

// advice says what to measure or do so that a model that abstains can decide; nil if nothing helps.
func (x *explanation) advice() []string {
	q := x.Decision
	where := fmt.Sprintf("%s on %s with %s", q.Coll, wording.Plural(q.Comm.Nodes, "node"),
		wording.Plural(q.Comm.Ranks, "rank"))
	sweep := ""
	if q.Comm.Ranks%q.Comm.Nodes == 0 {
		sweep = fmt.Sprintf("; tunefit sweep --coll %s --comm %s -o sweep does", q.Coll, q.Comm)
	}
	switch x.by.Why {
	case model.AbstainColl, model.AbstainComm, model.AbstainOneNode, model.AbstainPerNode:
		return []string{"measure " + where + sweep}
	case model.AbstainNodes:
		advice := []string{"measure " + where + sweep}
		if fit.MayCarry(x.by.Engine.Model.File, fit.Key{Coll: q.Coll, Comm: q.Comm.Comm}) {
			advice = append(advice, fmt.Sprintf("carry rows over that gain much on the nodes that were measured: "+
				"tunefit fit --csv FILE.csv --max-nodes %d", q.Comm.Nodes))
		}
		return advice
	case model.AbstainRelease:
		return []string{fmt.Sprintf("measure %s with NCCL %s (the model is for %s)%s", where, q.Release,
			x.by.Engine.Model.Releases(), sweep)}
	case model.AbstainSize:
		return []string{fmt.Sprintf("measure %s at sizes around %s, too", where, nccl.FormatBytes(q.Bytes))}
	case model.AbstainCells:
		names := make([]string, 0, len(x.NCCL))
		for _, e := range x.NCCL {
			names = append(names, e.Cell.String())
		}
		return []string{"measure what is available here: " + fewOf(names)}
	case model.AbstainDefault:
		return []string{"measure " + where + " once without NCCL_ALGO, NCCL_PROTO and channel counts"}
	case model.AbstainGain:
		return []string{fmt.Sprintf("measure at %s itself, or more often, if so little is worth it",
			nccl.FormatBytes(q.Bytes))}
	}
	return nil
}

// Limits of the text without --all.
const (
	maxNearest   = 8  // rows
	maxExplained = 10 // configurations
)

// write prints the text.
func (x *explanation) write(w io.Writer) {
	x.out = w
	q := x.Decision
	x.printf("%s of %s on %s, %s%s\n", q.Coll, nccl.FormatBytes(q.Bytes), wording.Plural(q.Comm.Nodes, "node"),
		wording.Plural(q.Comm.Ranks, "rank"), q.CallText())
	x.writeRows()
	x.writeModel()
	switch micros := microsText(float64(q.NCCLMicros)); q.Known {
	case ask.Measured:
		x.printf("\nNCCL's default, as measured (%s): %s, %s\n", x.by.Files.Model, q.NCCL, micros)
	case ask.Timed:
		x.printf("\nNCCL's default, as measured (%s): %s; what took it is not known\n", x.by.Files.Model, micros)
	}
	x.writeEstimates()
	x.writeDecision()
}

func (x *explanation) printf(format string, args ...any) { fmt.Fprintf(x.out, format, args...) }

// writeRows prints what became of the rows: the nearest first and the number of the others, or all in the file's order.
func (x *explanation) writeRows() {
	if x.by.Files.Policy == "" {
		return
	}
	x.printf("\npolicy %s, %s\n", x.by.Files.Policy, wording.Plural(len(x.Rows), "row"))
	if x.all {
		for _, r := range x.Rows {
			x.writeRow(r)
		}
	} else {
		x.writeNearest()
	}
	if x.by.Rule < 0 {
		x.printf("  no row decides\n")
	}
}

func (x *explanation) writeNearest() {
	tried, later := x.Rows, []policy.Tried(nil)
	if x.by.Rule >= 0 {
		tried, later = x.Rows[:x.by.Rule], x.Rows[x.by.Rule+1:]
	}
	near := slices.DeleteFunc(slices.Clone(tried), func(r policy.Tried) bool {
		return len(r.Misses) > 0 && r.Misses[0].Column == "collective"
	})
	slices.SortStableFunc(near, func(a, b policy.Tried) int {
		octaves := func(r policy.Tried) (sum float64) {
			for _, m := range r.Misses {
				sum += m.Octaves
			}
			return sum
		}
		return cmp.Or(cmp.Compare(len(a.Misses), len(b.Misses)), cmp.Compare(octaves(a), octaves(b)))
	})
	shown := min(len(near), maxNearest)
	for _, r := range near[:shown] {
		x.writeRow(r)
	}
	if more := len(near) - shown; more > 0 {
		x.printf("  and %s (--all shows each)\n", wording.Plural(more, "more row"))
	}
	if others := len(tried) - len(near); others > 0 {
		x.printf("  %s for other collectives\n", wording.Plural(others, "row"))
	}
	if x.by.Rule < 0 {
		return
	}
	x.writeRow(x.Rows[x.by.Rule])
	var too []string
	for _, r := range later {
		if r.Status == policy.RowLater {
			too = append(too, x.place(r))
		}
	}
	if len(too) > 0 {
		x.printf("  later rows that match, too, and come too late: %s\n", fewOf(too))
	}
}

// writeRow prints what became of a row. For the row that decides it adds the row's text.
func (x *explanation) writeRow(r policy.Tried) {
	x.printf("  %s  %s\n", x.place(r), reason(r))
	if r.Status != policy.RowDecides {
		return
	}
	for line := range strings.Lines(strings.TrimSpace(x.by.Sheet.Row(r.Row))) {
		x.printf("    %s\n", strings.TrimRight(line, "\r\n"))
	}
	if r.When != "" {
		x.printf("    its condition holds: %s\n", valuesText(r.Values))
	}
	if x.by.Engine.Policy.Rules[r.Rule].Channels > 0 && x.by.Algo >= 0 && x.by.Channels == 0 {
		x.printf("    its channel count is left to NCCL %s, which does not check it for this collective and "+
			"algorithm\n",
			x.Decision.Release)
	}
}

// place is a row's file and line, without folders.
func (x *explanation) place(r policy.Tried) string {
	return fmt.Sprintf("%s:%d", filepath.Base(x.by.Files.Policy), r.Row)
}

// reason says what became of a row, and why.
func reason(r policy.Tried) string {
	var more []string
	for _, m := range r.Misses {
		more = append(more, fmt.Sprintf("%s %s, not %s", m.Column, m.Wants, m.Has))
	}
	switch r.Status {
	case policy.RowDiffers:
		return "is for " + strings.Join(more, "; ")
	case policy.RowWhenFails:
		what, _, _ := strings.Cut(r.Error, "\n")
		more = append(more, strings.TrimPrefix(what, "when: "))
		fallthrough
	case policy.RowWhenFalse, policy.RowWhenUnknown:
		more = append(more, fmt.Sprintf("%s, with %s", wording.Line(r.When), valuesText(r.Values)))
	case policy.RowUnavailable, policy.RowDecides:
		more = append(more, r.Asks)
	}
	return strings.Join(append([]string{r.Status.String()}, more...), ": ")
}

func valuesText(values []policy.Value) string {
	texts := make([]string, len(values))
	for i, v := range values {
		switch value := v.Value.(type) {
		case nil:
			texts[i] = v.Name + " not known"
		case float64:
			texts[i] = v.Name + " = " + strconv.FormatFloat(value, 'f', -1, 64)
		default:
			texts[i] = fmt.Sprintf("%s = %v", v.Name, value)
		}
	}
	return strings.Join(texts, ", ")
}

func (x *explanation) writeModel() {
	if x.Model == nil {
		return
	}
	x.printf("\nmodel %s\n", x.Model.File)
	if s := x.by.Engine.Standing; s != model.AnyMachine {
		x.printf("  it %s\n", s)
	}
	if x.by.Engine.Model == nil {
		return
	}
	if x.by.By == policy.ByRow {
		x.printf("  not asked, as a row decides; this is what it would say\n")
	}
	x.writeCandidates()
	verdict, margin := "it decides", ""
	if x.by.Why != model.Decides {
		verdict = "abstains: " + x.Model.Abstains
	}
	if m := x.by.Model; m.Needed > 0 {
		margin = fmt.Sprintf(": %s instead of NCCL's default gains %s (needed: %s)", m.Config, cli.Percent(m.Gain()),
			cli.Percent(m.NeededGain()))
	}
	x.printf("  %s%s\n", verdict, margin)
	for i, advice := range x.Model.ToDo {
		x.printf("  %s %s\n", [...]string{"to do:", "   or:"}[min(i, 1)], advice)
	}
}

func (x *explanation) writeCandidates() {
	if len(x.by.Candidates) == 0 {
		return
	}
	tw := cli.NewTable(x.out)
	tw.Row("  configuration", "expected", "uncertain by", "")
	if own := x.by.Model.Default; !own.Unknown() {
		tw.Row("  NCCL's default", microsText(own.Micros()), cli.Percent(own.Sigma), x.Decision.NCCL.Cell)
	}
	shown := 0
	for _, c := range x.by.Candidates {
		if !x.all && (c.Bar != model.BarNone || shown == maxExplained) {
			continue
		}
		shown++
		remark := c.Bar.String()
		if x.by.By == policy.ByModel && c.Config == x.by.Model.Config {
			remark = "chosen"
		}
		tw.Row("  "+c.Config.String(), microsText(c.Micros()), cli.Percent(c.Sigma), remark)
	}
	tw.Flush()
	if more := len(x.by.Candidates) - shown; more > 0 {
		x.printf("  and %d more that are slower or may not be chosen (--all)\n", more)
	}
}

// writeEstimates prints NCCL's estimates.
func (x *explanation) writeEstimates() {
	x.printf("\n%s\n", x.by.Source)
	tw := cli.NewList(x.out)
	for _, e := range x.NCCL {
		micros, remark := "-", ""
		if e.Micros != nil {
			micros = microsText(float64(*e.Micros))
		}
		switch {
		case e.NotEstimated && !e.Chosen && x.Decision.Comm.Ranks == x.Decision.Comm.Nodes:
			remark = "NCCL has it; there is no estimate"
		case e.NotEstimated && !e.Chosen:
			remark = "NCCL never chooses it by itself"
		case !e.Chosen:
		case x.Decision.Known == ask.NotKnown:
			remark = "the cheapest there"
		case x.Decision.Known == ask.Measured:
			remark = "NCCL's default, as measured"
		default:
			channels, _ := x.by.Costs.ChannelsAndWarps(e.Algo, e.Proto, int64(x.Decision.Bytes))
			remark = fmt.Sprintf("NCCL's default, with %s", wording.Plural(channels, "channel"))
		}
		tw.Row("  "+e.Cell.String(), micros, remark)
	}
	tw.Flush()
	if x.Decision.NCCL.Cell == nccl.NoCell {
		x.printf("  NCCL has nothing available here\n")
	}
}

func (x *explanation) writeDecision() {
	o := x.Decision
	x.printf("\ndecision: %s", o.Choice())
	if o.Known != ask.NotKnown && o.Policy.Cell != o.NCCL.Cell {
		x.printf(" instead of %s", o.NCCL.Cell)
	}
	x.printf(", by %s\n", o.DecidedBy())
	if o.NotRaised > 0 {
		x.printf("the %s asked for are without effect: NCCL %s takes a tuner's only where they are fewer than "+
			"its own\n",
			wording.Plural(o.NotRaised, "channel"), o.Release)
	}
	switch e := o.Expected; {
	case e != nil:
		x.printf("expected gain: %s (%s instead of %s, uncertain by %s)\n", cli.Percent(e.Gain), microsText(e.Micros),
			microsText(e.Default), cli.Percent(e.Sigma))
	case x.by.By == policy.ByRow && x.Model != nil:
		x.printf("expected gain: not known, the model has not seen this configuration here\n")
	}
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
