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

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

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
	outside, alone := true, true
	for _, e := range results {
		if e.Judged() {
			return nil
		}
		outside = outside && e.Outside()
		alone = alone && !e.Compares
	}
	const nothing = "nothing to compare: "
	switch {
	case outside:
		return errors.New(nothing + "neither a model nor a row knows any of these collectives, communicators and sizes")
	case alone:
		return errors.New(nothing +
			"only one configuration was measured at each size (needed: NCCL's default and what is chosen instead, or " +
			"several configurations)")
	}
	return errors.New(nothing +
		"neither the chosen configurations were measured, nor NCCL's default where they leave it")
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
