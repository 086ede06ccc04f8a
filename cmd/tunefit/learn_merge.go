package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/learning"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/atomicfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

func learnMergeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge DIR... -o OUT",
		Short: "Put what several jobs have learned together",
		Long: `Put what several jobs have learned together. Each DIR is what one job left. It writes
evidence and learned.csv into OUT, a new directory, which a job can go on from.

Effects are estimated anew from the blocks of all jobs together, each job by its own
noise, where these are the same: the machine, the release of NCCL, nodes, ranks, the
collective, the range of sizes and NCCL's choice. All else stays apart. What several DIR
have counts once. Communicators of one DIR made the same steps: of a shape that several
have, the one with most blocks counts.

It names contradictions: effects that differ between two jobs by more than three standard
errors. learned.csv has what some job has proven, if that gains by all evidence
together and no job finds it slower. The rows are for one machine. Each is for the
release that it was learned with.`,
		Example: `  tunefit learn merge learned/job1 learned/job2 -o all`,
		Args:    cli.Args(1, -1, "directories of "+tuner.EnvLearn),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if out == "" {
				return cli.Usagef("nowhere to write to (needed: -o OUT, a new directory)")
			}
			old, err := os.ReadDir(out)
			if len(old) > 0 {
				err = fmt.Errorf("%s is not empty (needed: a new directory)", out)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			all, err := readToMerge(cmd.ErrOrStderr(), dirs)
			if err != nil {
				return err
			}
			return mergeLearned(cmd.ErrOrStderr(), all, out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "directory to write: a new or an empty one")
	return cmd
}

// readToMerge reads the evidence of jobs, all of one machine: by kind of communicator and release, and what rests on
// most blocks first.
func readToMerge(notes io.Writer, dirs []string) (all []learned, err error) {
	for _, dir := range dirs {
		found, err := readLearned(notes, dir)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			if l.Machine == "" || l.NCCL == "" {
				cli.Notes(notes, l.File+" is left out: its machine or its release of NCCL is not known")
				continue
			}
			if all = append(all, l); l.Machine != all[0].Machine {
				return nil, fmt.Errorf("%s is of machine %s, %s of %s (needed: evidence of one machine)", all[0].File,
					all[0].Machine, l.File, l.Machine)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no evidence that can be put together")
	}
	slices.SortStableFunc(all, func(a, b learned) int {
		return cmp.Or(b.Comm.Compare(a.Comm), cmp.Compare(a.NCCL, b.NCCL), cmp.Compare(b.Blocks, a.Blocks))
	})
	return all, nil
}

// mergeLearned writes what comes of evidence.
func mergeLearned(notes io.Writer, all []learned, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var merged []trial.Evidence
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(l learned) bool { return l.Comm != all[0].Comm || l.NCCL != all[0].NCCL })
		if n < 0 {
			n = len(all)
		}
		e := together(notes, all[:n])
		all, merged = all[n:], append(merged, e)
		text, err := json.Marshal(e)
		if err = errors.Join(err, atomicfile.Write(filepath.Join(out, tuner.EvidenceFile(e)), text)); err != nil {
			return err
		}
	}
	policy := tuner.LearnedPolicy(merged)
	rows := strings.Count(policy, "\n# ")
	if rows > 0 {
		if err := atomicfile.Write(filepath.Join(out, tuner.LearnedFile), []byte(policy)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(notes, "wrote %s of evidence and %s of %s (tunefit learn %s)\n",
		plural.Of(len(merged), "file"), plural.Of(rows, "row"), tuner.LearnedFile, cli.ShellWord(out))
	return err
}

// together puts evidence of one kind of communicators together. Its steps and blocks are as long as the first one's.
func together(notes io.Writer, all []learned) trial.Evidence {
	e := all[0].Evidence
	e.Key, e.State, e.Factors, e.Runs = "merged", trial.Stopped, nil, nil
	if len(all) > 1 {
		e.Name, e.LeftOut, e.Result = "", nil, nil
	}
	for _, l := range all {
		for _, f := range l.Factors {
			i := slices.IndexFunc(e.Factors, f.Same)
			if i < 0 {
				i = len(e.Factors)
				e.Factors = append(e.Factors, trial.Factor{Coll: f.Coll, Range: f.Range, CallsPerStep: f.CallsPerStep})
			}
			for _, a := range f.Arms {
				if !slices.ContainsFunc(e.Factors[i].Arms, func(b trial.Arm) bool { return a.Config == b.Config }) {
					e.Factors[i].Arms = append(e.Factors[i].Arms, trial.Arm{Config: a.Config})
				}
			}
		}
		if l.Began.Before(e.Began) {
			e.Began = l.Began
		}
		if l.At.After(e.At) {
			e.At = l.At
		}
	}
	// Of rows that overlap, the narrower comes first.
	slices.SortStableFunc(e.Factors, func(a, b trial.Factor) int {
		return cmp.Or(cmp.Compare(a.Coll, b.Coll), cmp.Compare(a.Max-a.Min, b.Max-b.Min), cmp.Compare(a.Min, b.Min))
	})
	directories := map[string][]trial.Evidence{}
	for _, l := range all {
		dir := filepath.Dir(l.File)
		directories[dir] = append(directories[dir], l.Evidence)
	}
	for _, dir := range slices.Sorted(maps.Keys(directories)) {
		e.Add(directories[dir])
	}
	e.DropArms()
	for _, f := range e.Factors {
		for k := range f.Arms {
			a := &f.Arms[k]
			found := findings(all, f, a.Config)
			sayContradictions(notes, f, found)
			proven := slices.ContainsFunc(found, func(by finding) bool { return by.Proven })
			slower := slices.ContainsFunc(found, func(by finding) bool { return by.Effect > trial.Surely*by.Error })
			if a.Proven = proven && !slower && k == f.Leader(); a.Proven {
				e.State = trial.Learned
			}
		}
	}
	return e
}

// finding is what a job has found about an arm.
type finding struct {
	trial.Arm
	file string
}

func (f finding) String() string {
	return fmt.Sprintf("%s %s in %s", learning.Percent(f.Effect), learning.Range(f.Effect, f.Error), f.file)
}

func findings(all []learned, of trial.Factor, config nccl.Config) (found []finding) {
	for _, l := range all {
		for _, f := range l.Factors {
			k := slices.IndexFunc(f.Arms, func(a trial.Arm) bool { return a.Config == config && a.Estimated() })
			if f.Same(of) && k >= 0 {
				found = append(found, finding{f.Arms[k], l.File})
			}
		}
	}
	return found
}

func sayContradictions(notes io.Writer, f trial.Factor, found []finding) {
	for i, a := range found {
		for _, b := range found[:i] {
			if math.Abs(a.Effect-b.Effect) > 3*math.Hypot(a.Error, b.Error) {
				cli.Notes(notes, fmt.Sprintf("contradiction: %s %s: %s, %s", learning.Shape(f), a.Config, b, a))
			}
		}
	}
}
