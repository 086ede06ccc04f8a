package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func evalCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "eval MODEL.json SWEEP...",
		Short: "Compare a model's decisions with measurements",
		Long: `Compare a model's decisions with measurements, best ones it was not fitted to:
for each size measured, time of the decision / best time measured, NCCL's own among
them, with a 90 % interval of the mean by bootstrap. The policy leaves to NCCL what it
cannot improve for sure; plain is the configuration predicted to be the fastest.

A measurement of the default tells what NCCL would do. Without it only the plain
choice can be judged, and with nothing else there is nothing to choose from. If no
decision can be judged, the exit code is 1.`,
		Example: `  tunefit eval model.json sweeps/later.csv`,
		Args:    cli.Args(2, -1, "the model and one sweep or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := cli.ReadInput(args[0], cli.KindModel)
			if err != nil {
				return notFirst(args, err)
			}
			model, err := model.Read(args[0], text)
			if err != nil {
				return notFirst(args, err)
			}
			set, sources, rejected, err := readSweeps(cmd, args[1:], true)
			if err != nil {
				return err
			}
			if set.Used == 0 {
				return errors.New("not one usable measurement")
			}
			results := fit.Evaluate(model, set)
			if asJSON {
				err = writeEvalJSON(cmd.OutOrStdout(), results)
			} else {
				writeRows(cmd.OutOrStdout(), set, rejected)
				noteFitted(cmd.ErrOrStderr(), model, sources)
				err = writeEval(cmd.OutOrStdout(), results)
			}
			return errors.Join(err, unjudged(results))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per collective and communicator")
	return cmd
}

// notFirst says why the first argument is no model, and whether another one is.
func notFirst(args []string, err error) error {
	for i, name := range args[1:] {
		if _, err := cli.ReadInput(name, cli.KindModel); err == nil {
			order := append([]string{name}, slices.Delete(slices.Clone(args), i+1, i+2)...)
			return cli.Usagef("%s is no cost model, %s is one (did you mean: tunefit eval %s)", args[0], name, strings.Join(order, " "))
		}
	}
	return fmt.Errorf("%w\nneeded first: a cost model that tunefit fit wrote, then sweeps", err)
}

// unjudged is the failure to compare anything.
func unjudged(results []fit.Evaluation) error {
	outside, alone := true, true
	for _, e := range results {
		if e.Judged() {
			return nil
		}
		outside = outside && e.Outside()
		alone = alone && !e.Group.Compares()
	}
	const nothing = "nothing to compare: "
	switch {
	case outside:
		return errors.New(nothing + "the model knows none of these collectives, communicators and sizes")
	case alone:
		return errors.New(nothing + "one thing only was measured at each size (needed: NCCL's own choice and what the model chooses, or several configurations)")
	}
	return errors.New(nothing + "neither what the model chooses was measured, nor NCCL's own choice where the model leaves it alone")
}

// noteFitted says where the comparison flatters.
func noteFitted(w io.Writer, model *model.Model, sources []model.Source) {
	for _, s := range sources {
		for _, f := range model.File.Provenance.Files {
			if s.SHA256 == f.SHA256 {
				fmt.Fprintf(w, "note: %s is what the model was fitted to, which flatters it\n", s.Name)
			}
		}
	}
}

func writeEval(w io.Writer, results []fit.Evaluation) error {
	tw := cli.Table(w)
	fmt.Fprintln(tw, "\ncollective\tpolicy / best\tp95\tmax\tplain / best\tp95\tmax\tdefault\tpolicy / default\tslower than default\toff by\tin 90 %")
	judged := false
	for _, e := range results {
		v := e.Verdict
		if !e.Judged() {
			continue
		}
		judged = true
		harm, inside := "-", "-"
		if v.Cautious.Decisions > 0 {
			harm = fmt.Sprintf("%d of %d", v.Harm, v.Spoke)
		}
		if v.Predicted > 0 {
			inside = fmt.Sprintf("%.0f %%", 100*float64(v.Inside)/float64(v.Predicted))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Group.Key, interval(v.Cautious), ratio(v.Cautious, v.Cautious.P95), ratio(v.Cautious, v.Cautious.Max),
			interval(v.Plain), ratio(v.Plain, v.Plain.P95), ratio(v.Plain, v.Plain.Max),
			ratio(v.Default, v.Default.Mean), interval(v.VersusDefault), harm, cli.Percent(v.TypicalError), inside)
	}
	if judged {
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	for _, e := range results {
		if e.Verdict.Unmeasured > 0 {
			fmt.Fprintf(w, "%s: not judged at %d of %d sizes: what the model chooses there was not measured\n", e.Group.Key, e.Verdict.Unmeasured, e.Sizes)
		}
		for _, s := range e.Silent {
			fmt.Fprintf(w, "%s: silent at %d of %d sizes: %s\n", e.Group.Key, s.Sizes, e.Sizes, s.Why)
		}
	}
	return nil
}

type evalJSON struct {
	Collective string         `json:"collective"`
	Nodes      int            `json:"nodes"`
	Ranks      int            `json:"ranks"`
	Sizes      int            `json:"sizes"`
	Policy     *scoreJSON     `json:"policy,omitempty"`  // left out: no default measured, or the model knows nothing of this
	Plain      *scoreJSON     `json:"plain,omitempty"`   // left out: nothing it chose was measured
	Default    *scoreJSON     `json:"default,omitempty"` // left out: not measured
	Spoke      int            `json:"spoke"`             // decisions that were measured
	Unmeasured int            `json:"unmeasured"`        // and that were not
	Harm       int            `json:"slower_than_default"`
	WorstHarm  float64        `json:"worst_vs_default"`
	Predicted  int            `json:"predicted"`
	Inside     int            `json:"inside_90"`
	Silent     map[string]int `json:"silent"` // sizes by reason
}

type scoreJSON struct {
	Decisions int     `json:"decisions"`
	Mean      float64 `json:"mean"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	P95       float64 `json:"p95"`
	Max       float64 `json:"max"`
}

func newScoreJSON(s fit.Score) *scoreJSON {
	if s.Decisions == 0 {
		return nil
	}
	return &scoreJSON{s.Decisions, s.Mean, s.Low, s.High, s.P95, s.Max}
}

func writeEvalJSON(w io.Writer, results []fit.Evaluation) error {
	all := make([]evalJSON, 0, len(results))
	for _, e := range results {
		v := e.Verdict
		if !e.Judged() {
			v.Cautious, v.Plain = fit.Score{}, fit.Score{}
		}
		j := evalJSON{
			Collective: e.Group.Coll.String(), Nodes: e.Group.Nodes, Ranks: e.Group.Ranks, Sizes: e.Sizes,
			Policy: newScoreJSON(v.Cautious), Plain: newScoreJSON(v.Plain), Default: newScoreJSON(v.Default),
			Spoke: v.Spoke, Unmeasured: v.Unmeasured, Harm: v.Harm, WorstHarm: v.WorstHarm, Predicted: v.Predicted, Inside: v.Inside, Silent: map[string]int{},
		}
		for _, s := range e.Silent {
			j.Silent[s.Why.String()] = s.Sizes
		}
		all = append(all, j)
	}
	return cli.WriteJSON(w, all)
}
