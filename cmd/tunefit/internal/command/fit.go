package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

type fitFlags struct {
	env      cli.Env
	model    string
	csv      string
	force    bool
	maxNodes int
	madeWith string
	topo     string
	report   string
	mix      bool
	profile  string
	runs     string
	asJSON   bool   // the caller prints what was found
	found    string // topology file of the measured machine, where topo names none; "": not known
}

func fitCommand(env cli.Env) *cobra.Command {
	f := fitFlags{env: env}
	cmd := &cobra.Command{
		Use:   "fit SWEEP...",
		Short: "Fit cost models to measurements",
		Long: `Fit cost models to measurements: a curve through the measured times of each
configuration. It reads what tunefit import reads. For each collective and communicator it
prints whether to use what was learnt, how much time that saves, what this rests on, and
what to measure next. It saves nothing unless -o, --csv or --report names a file.

The model answers only for the nodes, ranks, channel counts and sizes measured. Measure
the default, too (nccl-tests without NCCL_ALGO and NCCL_PROTO): without it nothing tells
whether a configuration is better.`,
		Example: `  tunefit fit sweeps/*.csv -o model.json --csv tuner.csv
  tunefit fit sweeps/*.csv --report report.html --topo system.xml --force`,
		Args: cli.Args(1, -1, "one sweep or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := fitFiles(cmd, args, f)
			if !f.asJSON || in.Set == nil { // it got nowhere
				return err
			}
			return errors.Join(err, cli.WriteJSON(cmd.OutOrStdout(), newFitJSON(&f, in)))
		},
	}
	cmd.Flags().StringVarP(&f.model, "output", "o", "", "cost model to write, a JSON file")
	cmd.Flags().StringVar(&f.csv, "csv", "", "policy to write; its rows are for the releases of NCCL that were "+
		"measured, as far as these are known")
	cmd.Flags().StringVar(&f.report, "report", "",
		"page to write, HTML: gains, curves, what is not covered and the policy, in one file for a browser")
	cmd.Flags().StringVar(&f.profile, "profile", "",
		"job profile: say first, and on the page, how much communication time a step the policy saves this job")
	cmd.Flags().BoolVar(&f.force, "force", false,
		"overwrite files that are there, and read sweeps of which many rows cannot be read")
	cmd.Flags().IntVar(&f.maxNodes, "max-nodes", 0,
		"add rows, marked as not measured, for communicators of up to this many nodes, at most twice those "+
			"measured: what gains much on the largest measured, two nodes or more (default: measured node counts only)")
	cmd.Flags().StringVar(&f.madeWith, "made-with", "",
		"release of NCCL that the measurements were made with, as 2.28.9, or \"RCCL 2.27.7\" (default: as they say)")
	cmd.Flags().StringVar(&f.topo, "topo", "",
		"topology file of the measured machine (NCCL's XML, or from tunefit topo --dump); the library then uses the "+
			"model on such machines only")
	cmd.Flags().BoolVar(&f.mix, "mix", false, "fit one model to measurements of different GPUs; the model says so")
	cmd.Flags().StringVar(&f.runs, "runs", "",
		"where runs were measured in several ways, fit only: graph (CUDA graphs, -G), eager (without), the options of "+
			"nccl-tests and variables as fit prints them, or fastest: compare the variables, the first that is read "+
			"with all others, and fit what is surely the fastest")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print JSON, one object")
	return cmd
}

// fitFiles makes the files that are asked for, and returns what it found; without a set if it got nowhere.
func fitFiles(cmd *cobra.Command, files []string, f fitFlags) (in report.Input, err error) {
	if v := strings.TrimPrefix(f.madeWith, "RCCL "); v != "" {
		if _, err := nccl.ParseVersion(v); err != nil {
			return in, cli.Usagef("--made-with: %w; one of RCCL is given as \"RCCL 2.27.7\"", err)
		}
	}
	if err := f.mayWrite(append(slices.Clone(files), f.topo, f.profile)...); err != nil {
		return in, err
	}
	var job *profile.Profile
	if f.profile != "" {
		if job, err = readProfile(f.env.Inputs, f.profile); err != nil {
			return in, err
		}
	}
	pool := fit.NewPool()
	if pool.MadeWith = f.madeWith; f.runs != runsFastest {
		pool.Runs = f.runs
	}
	var machine *topo.Machine
	on := tuningOn(f.env, cmp.Or(f.topo, f.found))
	switch {
	case f.topo != "":
		if machine, err = ask.ReadMachine(f.env, f.topo); err != nil {
			return in, err
		}
		pool.Offers = on.offers
	case f.found != "":
		if machine, err = ask.ReadMachine(f.env, f.found); err != nil { // it was not given, so nothing depends on it
			fmt.Fprintf(cmd.ErrOrStderr(), "the model is for any machine: %v\n", err)
		}
	}
	apart := otherRuns(pool)
	set, sources, rejected, err := readSweeps(pool, f.env.Inputs, cmd, files, nil, f.force, apart...)
	if err != nil {
		return in, fmt.Errorf("%w\nnothing was written", err)
	}
	if f.runs == runsFastest {
		if in.Settings = pool.Settings(job); len(in.Settings.Settings) > 0 {
			set = in.Settings.Settings[in.Settings.Best].Set
		}
	}
	if err := f.mayFit(set, machine, pool.Offers); err != nil {
		if !f.asJSON {
			writeRows(cmd.OutOrStdout(), set, rejected)
		}
		return in, err
	}
	file, found := fit.Fit(set, fit.Options{
		Provenance: model.Provenance{
			Tool: "tunefit " + tuner.Release, Files: sources, Topology: machine,
		},
	})
	model, err := model.Compile("the fitted model", file)
	if err != nil {
		return in, err
	}
	if cmd.Flags().Changed("max-nodes") {
		switch least, most := fit.CarriedNodes(file); {
		case most == 0:
			return in, cli.Usagef("--max-nodes %d: nothing was measured on several nodes, and one tells nothing "+
				"about them", f.maxNodes)
		case f.maxNodes < least || f.maxNodes > most:
			return in, cli.Usagef("--max-nodes %d (allowed: %d to %d, twice the nodes that were measured)", f.maxNodes,
				least, most)
		}
	}
	in = report.Input{
		Set: set, Settings: in.Settings, Rejected: rejected, File: file, Model: model, Report: found,
		Rows: underConditions(set, append(fit.Rows(model), fit.MoreNodes(model, f.maxNodes)...)),
	}
	if machine != nil {
		in.Bandwidths = on.reached(set)
	}
	for _, other := range apart {
		if in.Apart, err = chosenApart(set, other, in.Rows); err != nil {
			return report.Input{}, err
		}
	}
	if f.maxNodes > 0 && len(report.CarriedOver(in.Rows)) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing is carried over to more nodes: no row saves more than %.0f %% of the "+
			"default's time on the most nodes that were measured\n", 100*fit.CarriedGain)
	}
	if job != nil {
		in.Job, in.Worth = filepath.Base(f.profile), fit.NewWorth(job, set, fit.DecideByRows(in.Rows), found)
	}
	if !f.asJSON {
		writeAnswer(cmd.OutOrStdout(), in)
	}
	if len(file.CurveSets) == 0 {
		return in, fmt.Errorf("%s, there is nothing to choose from: nothing was written (tunefit sweep measures more)",
			set.Groups[0].OnlyDefault())
	}
	return in, f.write(cmd.ErrOrStderr(), in)
}

// mayFit refuses measurements that no model can be made of, and those that the machine of --topo cannot have made.
func (f *fitFlags) mayFit(set *fit.Set, machine *topo.Machine, offers fit.OffersFunc) error {
	for _, g := range set.Groups {
		if f.topo != "" && g.Ranks > g.Nodes*machine.Summary.GPUs {
			return fmt.Errorf("%s has %s, and %s was measured with %d ranks on a node: nothing was written (needed: "+
				"the topology of the machine that was measured; tunefit topo --dump writes it there)", f.topo,
				wording.Plural(machine.Summary.GPUs, "GPU"), g.Comm, g.Ranks/g.Nodes)
		}
		for _, own := range g.Default {
			if cell := own.Config.Cell; offers != nil && cell != nccl.NoCell && !offers(g.Key, cell, set.NCCL) {
				return fmt.Errorf("%s cannot be the measured machine: NCCL itself ran %s for %s of %s on %s there, "+
					"and it is not available on this one: nothing was written (needed: the topology of the machine "+
					"that was measured; tunefit topo --dump writes it there)", f.topo, cell, g.Coll,
					nccl.FormatBytes(own.Bytes), g.Comm)
			}
		}
	}
	switch {
	case set.Used == 0 && f.runs != "":
		return fmt.Errorf("nothing was measured under --runs %q: nothing was written (allowed: graph, eager, or what "+
			"fit prints without --runs)", f.runs)
	case set.Used == 0:
		return errors.New("not one usable measurement: nothing was written (tunefit import --coll and --comm say " +
			"what files do not)")
	case len(set.GPUs()) > 1 && !f.mix:
		return mixed(set)
	}
	return unlike(set)
}

// underConditions says, before the rows of a group, under which variables it was measured, and whether in CUDA graphs.
// Nothing is known of jobs that run otherwise.
func underConditions(set *fit.Set, rows []fit.Row) []fit.Row {
	for i := range rows {
		if i > 0 && rows[i-1].Key == rows[i].Key {
			continue
		}
		for under := range set.Of(rows[i].Group()).Under {
			if under.Graphs() {
				rows[i].Comments = append(rows[i].Comments, "measured in CUDA graphs, for jobs that replay graphs")
			}
			if under.Variables != "" {
				rows[i].Comments = append(rows[i].Comments,
					nccl.Remark(nccl.RemarkUnder, under.Variables, "for jobs with these variables only"))
			}
		}
	}
	return rows
}

// unlike is the error for groups that were measured under several conditions.
func unlike(set *fit.Set) error {
	var lines []string
	for _, g := range set.Groups {
		if len(g.Under) < 2 {
			continue
		}
		for _, under := range slices.SortedFunc(maps.Keys(g.Under), bench.Conditions.Compare) {
			lines = append(lines, fmt.Sprintf("  %s %s, %s: %s", g.Coll, g.Comm, wording.Plural(g.Under[under], "row"),
				under))
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("these were measured under different options of nccl-tests, or variables that change NCCL's "+
		"default, and are never compared:\n%s\nnothing was written (--runs names what to fit: graph, eager, one of "+
		"these in quotes, or %s, which compares the variables)", strings.Join(lines, "\n"), runsFastest)
}

// mixed is the error for measurements of different GPUs.
func mixed(set *fit.Set) error {
	var lines []string
	for _, m := range set.Machines {
		if m.GPU != "" {
			lines = append(lines, fmt.Sprintf("  %s, first in %s: %s", wording.Plural(m.Rows, "row"), m.Source,
				m.String()))
		}
	}
	return fmt.Errorf("these are measurements of different machines, and one model of them would be right on none:\n"+
		"%s\nnothing was written (fit each machine's sweeps apart; --mix fits them together, and the model says so)",
		strings.Join(lines, "\n"))
}

// mayWrite refuses files that are there, those that are read, and one file for two
// purposes.
func (f *fitFlags) mayWrite(read ...string) error {
	out := []struct{ flag, file string }{{"--output", f.model}, {"--csv", f.csv}, {"--report", f.report}}
	for i, o := range out {
		if err := cli.MayWrite(o.file, f.force, read...); err != nil {
			return err
		}
		for _, other := range out[:i] {
			if o.file != "" && other.file != "" && cli.SameFile(other.file, o.file) {
				return cli.Usagef("%s and %s name the same file, %s", other.flag, o.flag, o.file)
			}
		}
	}
	return nil
}

// write makes the files that were asked for and says so. A policy without rows is
// none; all else is written before that is reported.
func (f *fitFlags) write(notes io.Writer, in report.Input) error {
	if f.model == "" && f.report == "" && f.csv == "" {
		fmt.Fprintln(notes, "nothing was saved (-o FILE.json saves the model, --csv FILE.csv the policy, --report "+
			"FILE.html a page to read)")
	}
	for _, o := range []struct {
		file, is string
		write    func(w io.Writer) error
	}{
		{f.model, "", func(w io.Writer) error { return fit.WriteModel(w, in.File) }},
		{f.report, ", to be opened in a browser", func(w io.Writer) error { return report.Write(w, in) }},
		{f.csv, ", " + wording.Plural(len(in.Rows), "row"), func(w io.Writer) error {
			return fit.WritePolicy(w, in.Rows, &in.File.Provenance)
		}},
	} {
		switch {
		case o.file == "":
			continue
		case o.file == f.csv && len(in.Rows) == 0:
			return fmt.Errorf("%s was not written: %w%s", f.csv, errNoGain, unmeasuredDefault(in.Report))
		}
		if err := cli.WriteWhole(o.file, f.force, o.write); err != nil {
			return err
		}
		fmt.Fprintf(notes, "wrote %s%s\n", o.file, o.is)
	}
	return nil
}

// errNoGain is why there is no policy.
var errNoGain = errors.New("no row would improve on the default for sure")

func unmeasuredDefault(report *fit.Report) string {
	for _, g := range report.Groups {
		if len(g.Group.Default) == 0 {
			return " (the default was not measured everywhere)"
		}
	}
	return ""
}

func writeRows(w io.Writer, set *fit.Set, rejected []fit.Refusal) {
	refused, spare := set.Rows-set.Used, 0
	for _, r := range rejected {
		refused += r.Rows
	}
	for _, r := range set.Refused {
		if r.NotNeeded {
			spare += r.Rows
		}
	}
	notNeeded := ""
	if spare > 0 {
		notNeeded = fmt.Sprintf("%d not needed, ", spare)
	}
	fmt.Fprintf(w, "measurements: %d used, %s%d refused\n", set.Used, notNeeded, refused-spare)
	for _, r := range append(rejected, set.Refused...) {
		fmt.Fprintf(w, "  %d: %s\n", r.Rows, r.Reason)
	}
	for _, m := range set.Machines {
		if known := m.String(); known != "" {
			fmt.Fprintf(w, "  %s measured with %s\n", wording.Plural(m.Rows, "row"), known)
		}
	}
	for _, under := range set.Under() {
		only := ""
		if under.Variables != "" {
			only = " (for jobs with these variables only)"
		}
		fmt.Fprintf(w, "  measured under %s%s\n", under, only)
	}
	if set.Simulated > 0 {
		fmt.Fprintf(w, "  %d of those used are simulated, not measured\n", set.Simulated)
	}
}

// writeAnswer prints the recommendations, what they rest on, and what to do next.
func writeAnswer(w io.Writer, in report.Input) {
	if in.Worth != nil {
		writeWorth(w, in.Worth, in.Job, in.Set.Simulated > 0)
		fmt.Fprintln(w)
	}
	if in.Settings != nil {
		writeSettings(w, in.Settings)
	}
	recommendations := report.Recommendations(in)
	tw := cli.NewList(w)
	gains := false
	decided, harm := 0, 0
	var assumed []string
	for _, v := range recommendations {
		tw.Row(v.Group(), v)
		decided, harm = decided+v.Tried, harm+v.Slower
		gains = gains || !v.Once() && (v.Advice == report.UseIt || v.Advice == report.UseWithCare)
		if v.NoiseAssumed {
			assumed = append(assumed, v.Group())
		}
	}
	tw.Flush()
	fmt.Fprintln(w)
	if gains {
		as := "measured"
		if in.Set.Simulated > 0 {
			as = "simulated, not measured"
		}
		fmt.Fprintf(w, "less time: compared with NCCL's default, both as %s, corrected for picking the best of "+
			"several noisy measurements; it may differ between the sizes measured\n", as)
	}
	if decided > 0 {
		fmt.Fprintf(w, "tried with %s left out of the fit: %d of %s more than 1 %% slower than NCCL's default\n",
			model.LeftOutSizes, harm, wording.Plural(decided, "decision"))
	}
	if len(assumed) > 0 {
		fmt.Fprintf(w, "assumed: the run-to-run variation of %s (too few repetitions to know it)\n",
			cli.Few(assumed, 8, ", "))
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		fmt.Fprintf(w,
			"channels: as many as are chosen here were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS, so a "+
				"job needs %s (a log of the default with NCCL_DEBUG_SUBSYS=TUNING may show that it has them without; "+
				"tunefit sweep measures only what it has)\n", floors)
	}
	if len(in.Apart) > 0 {
		fmt.Fprintf(w,
			"graphs and eager runs choose differently (a policy of one is not for jobs that run the other):\n  %s\n",
			cli.Few(in.Apart, 8, "\n  "))
	}
	if len(in.Bandwidths) > 0 {
		fmt.Fprintf(w, "bus bandwidth: %s\n", strings.Join(in.Bandwidths, "\n               "))
	}
	for _, line := range report.CarriedOver(in.Rows) {
		fmt.Fprintln(w, line)
	}
	gaps := report.Gaps(in.Report)
	for _, f := range gaps {
		if f.Kind == report.NotOffered {
			fmt.Fprintln(w, f)
		}
	}
	if all := doubts(gaps); len(all) > 0 {
		fmt.Fprintf(w, "doubtful: %s\n", cli.Few(all, 8, "\n          "))
	}
	writeRows(w, in.Set, in.Rejected)
	if steps := report.Steps(gaps); len(steps) > 0 {
		fmt.Fprintln(w, "\nwhat to measure next:")
		for _, s := range steps {
			fmt.Fprintf(w, "  %s (%s)\n", s.Do, s.Where)
		}
	}
}

// floorsOf are the least numbers of channels that a job must force to have what the model and the rows choose.
func floorsOf(in report.Input) nccl.Floors {
	floors := in.Model.Floors()
	for _, r := range in.Rows {
		if r.Floored {
			floors.Add(r.Algo, r.Channels)
		}
	}
	return floors
}

// doubts are the gaps of measurements that contradict each other or vary.
func doubts(gaps []report.Gap) []string {
	all := []string{}
	for _, f := range gaps {
		if f.Kind == report.Contradictory || f.Kind == report.Varying {
			all = append(all, f.String())
		}
	}
	return all
}

// fitJSON is what fit --json prints: what the text says, and the files that hold the rest.
type fitJSON struct {
	Job      *worthJSON              `json:"job,omitempty"` // with --profile
	Groups   []report.Recommendation `json:"groups"`
	Doubtful []string                `json:"doubtful"`
	// where graphs and eager runs choose differently
	Apart []string `json:"graphs_and_eager_differ,omitempty"`
	// of the largest sizes; left out: the machine is not known
	Bandwidths []string             `json:"bus_bandwidths,omitempty"`
	Settings   []report.SettingLine `json:"settings,omitempty"` // with --runs fastest; the first is the site's own
	// variables without which a job lacks channels that are chosen
	Needs        string            `json:"job_needs,omitempty"`
	Measurements int               `json:"measurements"` // used
	Simulated    int               `json:"simulated"`    // of them
	Refused      []fit.Refusal     `json:"refused"`
	ToDo         []report.NextStep `json:"to_do"`
	Rows         int               `json:"rows"`                   // of the policy
	NotMeasured  []string          `json:"not_measured,omitempty"` // rows for more nodes than were measured
	Model        string            `json:"model,omitempty"`        // files that were asked for
	Policy       string            `json:"policy,omitempty"`       // left out: no row would improve for sure
	Report       string            `json:"report,omitempty"`
}

// worthJSON is what decisions are worth to a job, in words and numbers.
type worthJSON struct {
	Headline string `json:"headline"`
	*fit.Worth
}

func newFitJSON(f *fitFlags, in report.Input) fitJSON {
	gaps := report.Gaps(in.Report)
	j := fitJSON{
		Groups: report.Recommendations(in), Doubtful: doubts(gaps), Apart: in.Apart,
		Bandwidths: in.Bandwidths, Measurements: in.Set.Used,
		Simulated: in.Set.Simulated, Refused: append(append([]fit.Refusal{}, in.Rejected...), in.Set.Refused...),
		ToDo: append([]report.NextStep{}, report.Steps(gaps)...), Rows: len(in.Rows),
		NotMeasured: report.CarriedOver(in.Rows), Model: f.model, Report: f.report,
	}
	if in.Settings != nil {
		j.Settings = report.SettingLines(in.Settings)
	}
	if len(in.Rows) > 0 {
		j.Policy = f.csv
	}
	if in.Worth != nil {
		j.Job = &worthJSON{report.JobHeadline(in.Worth), in.Worth}
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		j.Needs = floors.String()
	}
	return j
}

// writeWorth prints what decisions are worth to a job.
func writeWorth(out io.Writer, w *fit.Worth, job string, simulated bool) {
	fmt.Fprintf(out, "\n%s: %s\n", cli.Called(job), report.JobHeadline(w))
	for _, note := range report.JobCoverage(w) {
		fmt.Fprintf(out, "  %s\n", note)
	}
	if simulated && w.Covered > 0 {
		fmt.Fprintln(out, "  what was measured here is simulated in part or whole: this says nothing about the job")
	}
	if w.Covered == 0 {
		return
	}
	tw := cli.NewTable(out)
	tw.Row("in the job", "default", "policy", "best", "policy / default", "policy / best", "covered")
	row := func(name string, p fit.WorthSum) {
		tw.Row(name, profile.Duration(p.Default), profile.Duration(p.Policy), profile.Duration(p.Best),
			fmt.Sprintf("%.3f", p.Policy/p.Default), fmt.Sprintf("%.3f", p.Policy/p.Best),
			cli.Percent(p.Covered))
	}
	if len(w.Parts) > 1 {
		row("all", w.WorthSum)
	}
	for _, p := range w.Parts {
		row(p.Key.String(), p.WorthSum)
	}
	tw.Flush()
}

// otherRuns returns a pool for what another pool leaves out: eager runs where that keeps graphs, and graphs where it
// keeps eager runs. Where it keeps anything else there is none.
func otherRuns(pool *fit.Pool) []*fit.Pool {
	runs, ok := map[string]string{"graph": "eager", "eager": "graph"}[pool.Runs]
	if !ok {
		return nil
	}
	other := fit.NewPool()
	other.MadeWith, other.Offers, other.Runs = pool.MadeWith, pool.Offers, runs
	return []*fit.Pool{other}
}

// leastApart is the factor in time from which on another choice is worth a line.
const leastApart = 1.03

// chosenApart says where the rows that the other runs of the same machine make choose what takes longer than the choice
// of the rows, in the set of these, a line for each range of sizes.
func chosenApart(set *fit.Set, others *fit.Pool, rows []fit.Row) (lines []string, err error) {
	other := others.Set()
	if len(other.Groups) == 0 || unlike(other) != nil { // which of them is nobody's to say
		return nil, nil
	}
	file, _ := fit.Fit(other, fit.Options{})
	m, err := model.Compile("the other runs", file)
	if err != nil {
		return nil, err
	}
	theirs := fit.Rows(m)
	kept, left := "in graphs", "in eager runs"
	if others.Runs == "graph" {
		kept, left = left, kept
	}
	for _, g := range set.Groups {
		of := other.Of(g.Key)
		if of == nil {
			continue
		}
		type difference struct{ mine, theirs string }
		said, first, last, worst := difference{}, uint64(0), uint64(0), 0.0
		say := func() {
			if said != (difference{}) {
				lines = append(lines, fmt.Sprintf("%s at %s: %s %s, %s %s, which takes up to %.2f times as long %s",
					g.Key, cli.SizeRange(first, last), said.mine, kept, said.theirs, left, worst, kept))
			}
		}
		for _, d := range g.Default {
			if !slices.ContainsFunc(of.Default, func(o fit.Point) bool { return o.Bytes == d.Bytes }) {
				continue
			}
			mine, their, now := chosenBy(rows, g, d), chosenBy(theirs, g, d), difference{}
			factor := their.Micros / mine.Micros
			if factor > leastApart && mine.Micros > 0 {
				now = difference{inWords(mine, d), inWords(their, d)}
			}
			if now != said {
				say()
				said, first, worst = now, d.Bytes, 0
			}
			last, worst = d.Bytes, max(worst, factor)
		}
		say()
	}
	return lines, nil
}

// chosenBy returns the point that rows choose in a group at the size of a default, which is that where no row decides.
// The time is 0 of a choice that the group does not have there.
func chosenBy(rows []fit.Row, g *fit.Group, byDefault fit.Point) fit.Point {
	call := nccl.Call{Coll: g.Coll, Bytes: byDefault.Bytes}
	c, ok := fit.DecideByRows(rows)(g.Comm, call, nccl.Everything()) // it was measured, so NCCL offers it
	if !ok {
		return byDefault
	}
	for _, p := range g.Points {
		if p.Config == c && p.Bytes == byDefault.Bytes {
			return p
		}
	}
	return fit.Point{Config: c, Bytes: byDefault.Bytes}
}

func inWords(p, byDefault fit.Point) string {
	if p.Config == byDefault.Config {
		return "NCCL's default"
	}
	return p.Config.String()
}

// tuningFunc tells NCCL's estimates for a communicator, with the releases of Set.NCCL; nil: they are not known.
type tuningFunc func(comm nccl.Comm, with string) *tuning.Tuning

// tuningOn tells the estimates on the machine of a topology file. They are not known for RCCL, nor for communicators of
// other nodes.
func tuningOn(env cli.Env, file string) tuningFunc {
	machines := map[nccl.Version]*ask.Estimates{}
	return func(comm nccl.Comm, with string) *tuning.Tuning {
		_, release, ok := nccl.MeasuredWith(with)
		if with != "" && !ok {
			return nil
		}
		if _, seen := machines[release]; !seen {
			from := ask.Flags{Env: env, Topo: file}
			if ok {
				from.NCCL = release.String()
			}
			machines[release], _ = from.Read() // nil: ask.ReadMachine says what is wrong with it
		}
		if machines[release] == nil {
			return nil
		}
		return machines[release].Exactly(comm)
	}
}

// offers tells what NCCL offers, as far as that is known.
func (on tuningFunc) offers(key fit.Key, cell nccl.Cell, with string) bool {
	t := on(key.Comm, with)
	const anySize = 1 << 20 // what there is does not depend on it
	return t == nil || t.Table(key.Coll, anySize, 1)[cell.Algo][cell.Proto] >= 0
}

// Limits of what reached says.
const (
	saturated = 9  // times the latency: the size takes so long to send
	limited   = .5 // of what NCCL counts on. Of the machines that were measured, the worst reach 0.7
)

// reached says which bus bandwidth the largest sizes have, for each collective and communicator whose default was
// measured there, and what NCCL counts on for the links of its rings, or of NVLS where that is the fastest.
func (on tuningFunc) reached(set *fit.Set) (lines []string) {
	for _, g := range set.Groups {
		t := on(g.Comm, set.NCCL)
		under := slices.ContainsFunc(slices.Collect(maps.Keys(g.Under)),
			func(c bench.Conditions) bool { return c.Variables != "" }) // they may take links away
		if t == nil || under {
			continue
		}
		bandwidth := func(a nccl.Algo) float64 { return float64(t.Bandwidths[g.Coll][a][nccl.ProtoSimple]) }
		allowed, of := bandwidth(nccl.AlgoRing), "NCCL's rings"
		enough := saturated * float64(t.Latencies[g.Coll][nccl.AlgoRing][nccl.ProtoSimple]) * allowed * 1e3
		var best fit.Point
		rate := func(p fit.Point) float64 { return float64(p.Bytes) / 1e3 / p.Micros }
		for _, p := range slices.Concat(g.Default, g.Points) {
			large := float64(p.Bytes) >= enough &&
				slices.ContainsFunc(g.Default, func(own fit.Point) bool { return own.Bytes == p.Bytes })
			if large && (best.Bytes == 0 || rate(p) > rate(best)) {
				best = p
			}
		}
		if best.Bytes == 0 || allowed == 0 {
			continue
		}
		if nvls := bandwidth(nccl.AlgoNVLS); best.Config.Algo == nccl.AlgoNVLS && nvls > allowed {
			allowed, of = nvls, "NVLS"
		}
		factor := g.Coll.BusFactor(float64(g.Ranks))
		line := fmt.Sprintf("%s: %s GB/s at %s; the links of %s allow %s", g.Key, gbps(rate(best)*factor),
			nccl.FormatBytes(best.Bytes), of, gbps(allowed*factor))
		if rate(best) < limited*allowed {
			line += ": not the choice of an algorithm limits it; see tunefit doctor --machine"
		}
		lines = append(lines, line)
	}
	return lines
}
