package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/policytest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/lint"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func checkCommand(env cli.Env) *cobra.Command {
	from := ask.Flags{Env: env}
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check POLICY.csv [MODEL.json]",
		Short: "Find mistakes in a policy, compare it with measurements, run its tests",
		Long: `Find mistakes in a policy: what the tuner refuses, and what was probably not meant.
--rules lists the rules, --explain RULE says what one means and what to do. --invariant
also finds what NCCL_TUNER_DETERMINISTIC=1 refuses: rows by which the last bits of sums
change. --topo also finds what that machine cannot do.

A comment line "# tunefit:ignore RULE" silences a rule for the next row. The same words in
a row's comment column silence it for that row. A reason may follow after " -- ".

"tunefit check POLICY|MODEL --measured SWEEP..." compares decisions with measurements, best
with some that they were not made of. It prints the slowdown at each size measured: the
time of the decision / the fastest time measured. The mean has a 90 % interval by
bootstrap. Measure the default, too: only sizes that have it tell how good decisions are.
In the column plain, a model decides even where it is not sure.

"tunefit check POLICY|MODEL --tests FILE.yaml" runs unit tests: calls, and what the policy
must make of them. configs/policies/example_test.yaml names the fields.

Exit code: 0 without errors and warnings, 1 with some, or if there is nothing to check.
With --measured it is 1 if no decision can be judged, with --tests if a test fails.`,
		Example: `  tunefit check configs/policies/example.csv
  tunefit check configs/policies/example.csv --topo configs/topo/dgx-h100.xml
  tunefit check configs/policies/invariant.csv --invariant
  tunefit check --explain shadowed
  tunefit check rows.csv --measured sweeps/*.csv
  tunefit check configs/policies/example.csv --tests configs/policies/example_test.yaml`,
		Args: o.arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.rules:
				writeLintRules(cmd.OutOrStdout())
				return nil
			case o.explain != "":
				return explainLintRule(cmd.OutOrStdout(), o.explain)
			case len(o.measured) > 0:
				return o.runMeasured(cmd, env.Inputs, args[0], append(o.measured, args[1:]...))
			case len(o.tests) > 0:
				return cli.FailIf(o.runTests(cmd, from, args[0]))
			}
			return cli.FailIf(o.run(cmd, from, args))
		},
	}
	from.Register(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.asJSON, "json", false, "print JSON: an object per finding, test, or collective and communicator")
	f.BoolVar(&o.all, "all", false, "print each finding; without it, many of one rule are counted")
	f.BoolVar(&o.invariant, "invariant", false, "find rows by which sums could vary, too")
	f.BoolVar(&o.rules, "rules", false, "list the rules")
	f.StringVar(&o.explain, "explain", "", "say what a rule means and what to do")
	cli.Complete(cmd, "explain", func([]string) []string { return lint.RuleNames() })
	f.StringArrayVar(&o.measured, "measured", nil,
		"compare decisions with the measurements of `SWEEP`, and of all files after the policy or the model")
	f.StringArrayVar(&o.tests, "tests", nil, "run the unit tests in `FILE.yaml`")
	return cmd
}

type checkOptions struct {
	asJSON, all, invariant, rules bool
	explain                       string
	measured, tests               []string
}

// arguments says what is wrong with the command line. Some flags make check do something else than look for mistakes.
// Most others mean nothing beside these.
func (o *checkOptions) arguments(cmd *cobra.Command, args []string) error {
	const judged = "the policy or the model"
	switch {
	case (o.rules || o.explain != "") && len(args) > 0:
		return cli.Usagef("--rules and --explain take no file")
	case o.rules:
		return onlyWith(cmd, "rules")
	case o.explain != "":
		return onlyWith(cmd, "explain")
	case len(o.measured) > 0:
		return cmp.Or(onlyWith(cmd, "measured", "json"), cli.Args(1, -1, judged)(cmd, args))
	case len(o.tests) > 0:
		return cmp.Or(onlyWith(cmd, "tests", "json", "nccl"), cli.Args(1, 1, judged)(cmd, args))
	case o.invariant && len(args) == 2:
		return cli.Usagef("--invariant takes no model: with NCCL_TUNER_DETERMINISTIC=1 the library refuses one")
	}
	return cli.Args(1, 2, "the policy file, and a model file if there is one")(cmd, args)
}

// onlyWith refuses all flags beside one but some others.
func onlyWith(cmd *cobra.Command, flag string, others ...string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != flag && !slices.Contains(others, f.Name) {
			err = cli.Usagef("--%s takes no --%s", flag, f.Name)
		}
	})
	return err
}

func (o *checkOptions) run(cmd *cobra.Command, from ask.Flags, args []string) (found bool, err error) {
	file := args[0]
	text, err := from.Decider(file, cli.KindPolicy)
	if err != nil {
		return false, err
	}
	_, newest, _ := nccl.MeasuredWith(nccl.ReadRemarks(text).Measured)
	opt := lint.Options{NCCL: newest, Invariant: o.invariant}
	if from.NCCL != "" {
		if opt.NCCL, _, err = ask.WhichNCCL(&from.Env, from.NCCL); err != nil {
			return false, err
		}
	}
	var here *topo.Fingerprint
	if from.Topo != "" {
		from.Measured(file, newest)
		costs, err := from.Read()
		if err != nil {
			return false, err
		}
		machine, err := ask.ReadMachine(from.Env, from.Topo)
		if err != nil {
			return false, err
		}
		opt.Machine, here = costs.Exactly, &machine.Fingerprint
	}
	var ofModel []lint.Diagnostic
	if len(args) == 2 {
		model, err := from.Decider(args[1], cli.KindModel)
		if err != nil {
			return false, err
		}
		ofModel, opt.Model = lint.CheckModel(args[1], model, here)
	}
	findings := append(append([]lint.Diagnostic{}, lint.Check(file, text, opt)...), ofModel...)
	worst, any := lint.Worst(findings)
	return any && worst >= lint.Warning, cli.Print(cmd.OutOrStdout(), o.asJSON, findings,
		func(w io.Writer) { writeFindings(w, findings, o.all) })
}

// explainLintRule prints what --explain asks for.
func explainLintRule(w io.Writer, name string) error {
	r, ok := lint.RuleNamed(name)
	if !ok {
		return cli.Usagef("no rule is called %q (%sallowed: %s)", name, wording.DidYouMean(name, lint.RuleNames()),
			strings.Join(lint.RuleNames(), ", "))
	}
	fmt.Fprintf(w, "%s (%s): %s\n\n%s\n", r.Name, r.Severity, r.Summary, r.Explain)
	return nil
}

// shownOfRule is how many findings of one rule are printed before the rest is
// counted.
const shownOfRule = 3

// writeFindings prints findings, the worst first, each rule's together.
func writeFindings(w io.Writer, findings []lint.Diagnostic, all bool) {
	if len(findings) == 0 {
		fmt.Fprintln(w, "no problems found")
		return
	}
	var counts [lint.Error + 1]int
	for _, f := range findings {
		counts[f.Severity]++
	}
	findings = slices.Clone(findings)
	slices.SortStableFunc(findings, func(a, b lint.Diagnostic) int { return cmp.Compare(b.Severity, a.Severity) })
	for _, of := range cli.Groups(findings, func(f lint.Diagnostic) string { return f.Severity.String() + f.Rule }) {
		shown := len(of)
		if !all && shown > shownOfRule+1 && of[0].Severity < lint.Error {
			shown = shownOfRule
		}
		for _, f := range of[:shown] {
			fmt.Fprintln(w, f)
		}
		if more := len(of) - shown; more > 0 {
			fmt.Fprintf(w, "  and %d more, lines %d to %d [%s]\n", more, of[shown].Line, of[len(of)-1].Line, of[0].Rule)
		}
	}
	if slices.ContainsFunc(findings, func(f lint.Diagnostic) bool { return f.Rule == lint.Invalid }) {
		fmt.Fprintln(w, "the tuner refuses the policy; nothing else is looked for in it until the errors are gone")
	}
	fmt.Fprintf(w, "%s, %s, %s\n", wording.Plural(counts[lint.Error], "error"),
		wording.Plural(counts[lint.Warning], "warning"), wording.Plural(counts[lint.Note], "note"))
}

// writeLintRules prints the rules as a table.
func writeLintRules(w io.Writer) {
	tw := cli.NewTable(w)
	tw.Row("rule", "severity", "what")
	for _, r := range lint.Rules {
		tw.Row(r.Name, r.Severity, r.Summary)
	}
	tw.Flush()
}

// runTests runs the tests of a policy or a model. It reads all files before it runs any.
func (o *checkOptions) runTests(cmd *cobra.Command, from ask.Flags, file string) (failed bool, err error) {
	kind, err := from.Kind(file)
	if err != nil {
		return false, err
	}
	of := ask.Decider{Policy: file}
	if kind == cli.KindModel {
		of = ask.Decider{Model: file}
	}
	var all []*policytest.File
	for _, tests := range o.tests {
		t, err := policytest.Read(from.Env, tests, of)
		if err != nil {
			return false, err
		}
		if from.NCCL != "" {
			t.Costs.NCCL = from.NCCL
		}
		all = append(all, t)
	}
	var results []policytest.Result
	for _, t := range all {
		of, asked, comms, err := t.Run()
		if err != nil {
			return false, err
		}
		asked.Note(cmd.ErrOrStderr(), comms)
		results = append(results, of...)
	}
	failed = slices.ContainsFunc(results, func(r policytest.Result) bool { return !r.Passed })
	return failed, cli.Print(cmd.OutOrStdout(), o.asJSON, results, func(w io.Writer) { policytest.Write(w, results) })
}

// runMeasured prints how good the decisions of a model or a policy are by sweeps.
func (o *checkOptions) runMeasured(cmd *cobra.Command, in *cli.Inputs, file string, sweeps []string) error {
	evaluated, err := readEvaluated(in, file, sweeps)
	if err != nil {
		return err
	}
	set, sources, rejected, err := readSweeps(fit.NewPool(), in, cmd, sweeps, nil, true)
	if err != nil {
		return err
	}
	if set.Used == 0 {
		return errors.New("not one usable measurement")
	}
	results := evaluated.on(set)
	err = cli.Print(cmd.OutOrStdout(), o.asJSON, results, func(w io.Writer) {
		writeRows(w, set, rejected)
		evaluated.note(cmd.ErrOrStderr(), set, sources)
		writeEvaluation(w, results)
	})
	return errors.Join(err, unjudged(results))
}

// evaluated is what is compared with measurements: one of both.
type evaluated struct {
	model  *model.Model
	policy *policy.Policy
}

// readEvaluated reads the file to judge, or says whether one of the sweeps should be it.
func readEvaluated(in *cli.Inputs, file string, sweeps []string) (e evaluated, err error) {
	kind, err := in.Kind(file)
	switch {
	case err != nil:
		return e, err
	case kind == cli.KindPolicy:
		e.policy, _, err = ask.ReadPolicy(in, file)
		return e, err
	}
	text, err := in.Text(file, cli.KindModel, cli.KindPolicy)
	if err == nil && strings.TrimSpace(string(text)) == "" {
		return e, fmt.Errorf("%s is empty (needed: a cost model or a policy)", file)
	}
	if err == nil {
		if e.model, err = model.Read(file, text); err == nil {
			return e, nil
		}
	}
	for i, name := range sweeps {
		if kind, err := in.Kind(name); err == nil && (kind == cli.KindModel || kind == cli.KindPolicy) {
			order := append(slices.Delete(slices.Clone(sweeps), i, i+1), file)
			is := map[cli.Kind]string{cli.KindModel: "a cost model", cli.KindPolicy: "a policy"}[kind]
			return e, cli.Usagef("%s is neither a cost model nor a policy, %s is %s (did you mean: tunefit check %s "+
				"--measured %s)", file, name, is, name, strings.Join(order, " "))
		}
	}
	return e, fmt.Errorf("%w\nneeded first: a cost model or a policy; its sweeps follow --measured", err)
}

func (e evaluated) on(set *fit.Set) []fit.Evaluation {
	if e.model != nil {
		return fit.Evaluate(e.model, set)
	}
	engine, as := policy.NewEngine(e.policy, nil, nil), e.releases(set)
	decide := func(on nccl.Comm, call nccl.Call, costs nccl.Costs) (nccl.Config, bool) {
		a := engine.For(policy.Comm{Comm: on, NCCL: as}).Decide(policy.Query{Call: call, PipeOps: 1, Costs: costs})
		return a.Config, a.By == policy.ByRow
	}
	return fit.EvaluateDecisions(decide, set)
}

// releases are those that the model or the rows are for, and are asked as; the zero value: for all. Of rows for several
// releases, they are those of the measurements, if there are rows for these.
func (e evaluated) releases(set *fit.Set) (as nccl.Releases) {
	if e.model != nil {
		return e.model.Releases()
	}
	for _, r := range e.policy.Rules {
		switch {
		case r.NCCL == nccl.AnyRelease:
		case set.Releases() != nccl.AnyRelease && r.NCCL.Contains(set.Releases()):
			return set.Releases()
		case as == nccl.Releases{}:
			as = r.NCCL
		}
	}
	return as
}

// note says where the comparison flatters, and what it leaves out.
func (e evaluated) note(w io.Writer, set *fit.Set, sources []model.Source) {
	as := e.releases(set)
	if with := set.Releases(); with != nccl.AnyRelease && as != (nccl.Releases{}) && !as.Contains(with) {
		fmt.Fprintf(w, "note: the decisions are for NCCL %s. With NCCL %s, which was measured here, nothing "+
			"is decided\n",
			as, set.NCCL)
	}
	if e.model == nil {
		if e.policy.NeedsTopology() {
			fmt.Fprintln(w,
				"note: rows whose conditions name the machine are left out: a sweep does not tell its topology")
		}
		return
	}
	for _, s := range sources {
		for _, f := range e.model.File.Provenance.Files {
			if s.SHA256 == f.SHA256 {
				fmt.Fprintf(w, "note: %s is what the model was fitted to, which flatters it\n", cli.Called(s.Name))
			}
		}
	}
}

// unjudged is the failure to compare anything.
func unjudged(results []fit.Evaluation) error {
	if slices.ContainsFunc(results, func(e fit.Evaluation) bool { return e.Judged() }) {
		return nil
	}
	return errors.New("nothing to compare (needed: times of NCCL's default and of what is chosen instead, for " +
		"collectives, communicators and sizes that the model or a row knows)")
}

func writeEvaluation(w io.Writer, results []fit.Evaluation) {
	tw := cli.NewTable(w)
	tw.Row()
	tw.Row("collective", "policy / best", "p95", "max", "plain / best", "p95", "max", "default",
		"policy / default", "slower than default", "off by", "in 90 %")
	judged := false
	for _, v := range results {
		if !v.Judged() {
			continue
		}
		judged = true
		harm, inside := "-", "-"
		if v.PolicyScore.Decisions > 0 {
			harm = fmt.Sprintf("%d of %d", v.Harm, v.Decided)
		}
		if v.Predicted > 0 {
			inside = fmt.Sprintf("%.0f %%", 100*float64(v.Inside)/float64(v.Predicted))
		}
		policy := v.PolicyScore
		tw.Row(v.Key, interval(policy), ratio(policy, policy.P95), ratio(policy, policy.Max), interval(v.Plain),
			ratio(v.Plain, v.Plain.P95), ratio(v.Plain, v.Plain.Max), ratio(v.Default, v.Default.Mean),
			interval(v.VersusDefault), harm, cli.Percent(v.TypicalError), inside)
	}
	if judged {
		tw.Flush()
	}
	for _, e := range results {
		if e.Unmeasured > 0 {
			fmt.Fprintf(w, "%s: not judged at %d of %d sizes: what is chosen there was not measured\n", e.Key,
				e.Unmeasured, e.Sizes)
		}
		if e.Left > 0 {
			fmt.Fprintf(w, "%s: no row decides at %d of %d sizes\n", e.Key, e.Left, e.Sizes)
		}
		for _, why := range slices.SortedFunc(maps.Keys(e.Abstained), func(a, b model.Abstention) int {
			return cmp.Or(cmp.Compare(e.Abstained[b], e.Abstained[a]), cmp.Compare(a, b))
		}) {
			fmt.Fprintf(w, "%s: abstains at %d of %d sizes: %s\n", e.Key, e.Abstained[why], e.Sizes, why)
		}
	}
}

func interval(s fit.Score) string {
	if s.Decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", s.Mean, s.Low, s.High)
}

func ratio(s fit.Score, v float64) string {
	if s.Decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}
