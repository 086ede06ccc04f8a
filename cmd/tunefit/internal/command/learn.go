package command

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/livejobs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// learned is what a job has learned on one communicator, and the file that says so.
type learned struct {
	File string `json:"file"`
	*trial.Evidence
}

func learnCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "learn DIR",
		Short: "Print what a job has learned from the time of its own steps",
		Long: `Print what a job has learned from the time of its own steps. DIR is the directory of
` + tuner.EnvLearn + `. The job may still be running.

A line for each communicator, or for all that try the same, says what gains most, how many
call signatures (a collective and a range of sizes) are settled, and what trying has cost.
A table has what each configuration does to the time of a step, against NCCL's default,
with an interval of 95 %.

Exit code: 0 if evidence was read, 1 if there is none or a file is damaged.`,
		Example: `  tunefit learn learned/job1
  tunefit learn learned/job1 --json`,
		Args: cli.Args(1, 1, "the directory of "+tuner.EnvLearn),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := readLearned(cmd.ErrOrStderr(), args[0])
			if len(all) == 0 {
				return err
			}
			text := func(w io.Writer) { writeLearned(w, all) }
			return errors.Join(cli.Print(cmd.OutOrStdout(), asJSON, all, text), err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the evidence of each file")
	return cmd
}

// readLearned reads the evidence in a directory. It names files of other kinds and leaves them out. The error is about
// those that are damaged.
func readLearned(notes io.Writer, dir string) (all []learned, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" || entry.IsDir() {
			continue
		}
		l := learned{File: filepath.Join(dir, entry.Name())}
		text, err := cli.ReadRegular(l.File)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		foreign := cli.Sniff(text).Refuse(l.File, "what a job has learned")
		if foreign != nil && !bytes.Contains(text, []byte(trial.EvidenceFormat)) {
			fmt.Fprintf(notes, "left out: %v\n", foreign)
			continue
		}
		if l.Evidence, _, err = trial.Read(l.File, text); err != nil {
			failed = append(failed, fmt.Errorf("%w (the library writes these files whole: copy it again, or remove it)",
				err))
			continue
		}
		if l.Evidence == nil { // a comparison
			continue
		}
		l.Estimate()
		l.Factors, l.Runs = append([]trial.Factor{}, l.Factors...), append([]trial.Run{}, l.Runs...)
		for i := range l.Runs { // what is empty is [] in JSON, not null
			l.Runs[i].Blocks = append([]trial.Block{}, l.Runs[i].Blocks...)
		}
		l.Name, l.Machine = wording.Line(l.Name), wording.Line(l.Machine)
		for i, why := range l.LeftOut {
			l.LeftOut[i] = wording.Line(why)
		}
		all = append(all, l)
	}
	if len(all)+len(failed) == 0 {
		return nil, fmt.Errorf("%s: no job has left what it learned here (it needs %s=%s)", dir, tuner.EnvLearn, dir)
	}
	slices.SortStableFunc(all, func(a, b learned) int {
		return cmp.Or(b.Comm.Compare(a.Comm), cmp.Compare(a.Name, b.Name), cmp.Compare(a.NCCL, b.NCCL),
			cmp.Compare(b.Blocks, a.Blocks), a.Began.Compare(b.Began))
	})
	return all, errors.Join(failed...)
}

// title names the communicator.
func title(l learned) string {
	return strings.TrimSpace(l.Comm.String() + " " + l.Name)
}

// armVerdict says what is known of the i-th arm, in words.
func armVerdict(f trial.Factor, i int) string {
	a := f.Arms[i]
	switch {
	case i == 0 && !f.Known():
		return "NCCL's default, hardly tried: the others' figures may all be off by as much"
	case i == 0:
		return "NCCL's default"
	case a.Dropped == "worse" && a.Effect > trial.Surely*a.Error:
		return "slower: dropped"
	case a.Dropped == "worse":
		return "not the fastest: dropped"
	case a.Dropped != "":
		return a.Dropped + ": dropped"
	case !a.Estimated():
		return "not tried yet"
	case a.Faster:
		return "faster"
	case f.Settled:
		return "no significant gain"
	}
	return "open"
}

func writeLearned(w io.Writer, all []learned) {
	for i := range all {
		line := livejobs.LearningHeadline(*all[i].Evidence)
		if len(all) > 1 {
			line = title(all[i]) + ": " + line
		}
		fmt.Fprintln(w, line)
	}
	for _, l := range all {
		e := l.Evidence
		fmt.Fprintf(w, "\n%s, NCCL %s, machine %s, %s to %s: %s\n", title(l), cmp.Or(e.NCCL, "not known"),
			cmp.Or(e.Machine, "not known"), e.Began.Format("2006-01-02 15:04"), e.At.Format("2006-01-02 15:04"),
			livejobs.LearningState(*e))
		t := cli.NewTable(w)
		if len(e.Factors) > 0 {
			t.Row("collective", "size", "calls a step", "tried", "step time", "95 %", "ms a step", "blocks", "")
		}
		for _, f := range e.Factors {
			for j, a := range f.Arms {
				cells := []any{"", "", "", a.Config, "-", "-", "-", a.Blocks, armVerdict(f, j)}
				if j == 0 {
					cells[0], cells[1] = f.Coll, cli.SizeRange(f.Min, f.Max)
					cells[2] = fmt.Sprintf("%.4g", f.CallsPerStep)
				} else if a.Estimated() {
					cells[4], cells[5] = livejobs.EffectPercent(a.Effect), livejobs.EffectRange(a.Effect, a.Error)
					cells[6] = fmt.Sprintf("%+.1f", 1e3*a.Effect*e.StepSeconds)
				}
				t.Row(cells...)
			}
		}
		t.Flush()
		for _, why := range e.LeftOut {
			fmt.Fprintf(w, "not tried: %s\n", why)
		}
	}
}
