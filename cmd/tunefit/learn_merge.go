package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/learning"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/atomicfile"
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

It averages the effects that different jobs found, by their precision (inverse
variance), where these are the same: the machine, the release of NCCL, nodes, ranks, the
collective, the range of sizes and NCCL's choice. All else stays apart. Communicators of
one DIR made the same steps: of a shape that several have, the one with most blocks
counts.

It names contradictions: an effect that differs from what the jobs before it found by more
than three standard errors. learned.csv has what some job has proven, if that gains by all evidence
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
				err = fmt.Errorf("%s is not empty (needed: a new directory; evidence there would count twice)", out)
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

// readToMerge reads the evidence of jobs, all of one machine: by kind of communicator, then by job, and of a job what
// rests on most blocks first.
func readToMerge(notes io.Writer, dirs []string) (all []learned, err error) {
	seen := map[string]learned{} // by a job's communicator, who has it
	for i, dir := range dirs {
		found, err := readLearned(notes, dir)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			l.job, l.Of = i, l.Jobs()
			for _, of := range l.Of {
				if other, ok := seen[of]; ok && other.job != i {
					return nil, fmt.Errorf("%s and %s both have what one job learned on communicator %s (needed: one "+
						"of them; it would count twice)", other.File, l.File, of)
				}
				seen[of] = l
			}
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
		return cmp.Or(b.Comm.Compare(a.Comm), cmp.Compare(a.NCCL, b.NCCL), cmp.Compare(a.job, b.job),
			cmp.Compare(b.Blocks, a.Blocks))
	})
	return all, nil
}

// mergeLearned writes what comes of evidence.
func mergeLearned(notes io.Writer, all []learned, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var kinds []*merging
	for i, l := range all {
		if i == 0 || l.Comm != all[i-1].Comm || l.NCCL != all[i-1].NCCL {
			kinds = append(kinds, &merging{Evidence: l.Evidence, slower: map[string]bool{}})
			kinds[len(kinds)-1].Factors = nil
		} else {
			kinds[len(kinds)-1].addSteps(l, l.job == all[i-1].job)
		}
		kinds[len(kinds)-1].addFactors(notes, l)
	}
	var merged []trial.Evidence
	for _, m := range kinds {
		m.conclude()
		merged = append(merged, m.Evidence)
		var text bytes.Buffer
		err := cli.WriteJSON(&text, m.Evidence)
		name := fmt.Sprintf("merged-%dn-%dr-%s.json", m.Nodes, m.Ranks, m.NCCL)
		if err = errors.Join(err, atomicfile.Write(filepath.Join(out, name), text.Bytes())); err != nil {
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

// merging is evidence of one kind of communicators while it is put together. Its steps and blocks are as long as the
// first one's.
type merging struct {
	trial.Evidence
	last   []learned       // by factor, who has it
	slower map[string]bool // by factor and arm: a job finds that it makes steps longer for sure
}

// addSteps counts the steps of one more communicator. Others of a job made the same ones.
func (m *merging) addSteps(l learned, sameJob bool) {
	m.Key, m.Name, m.LeftOut, m.Result = "merged", "", nil, nil
	m.Of = slices.Concat(m.Of, l.Of)
	if !sameJob {
		m.Blocks, m.Steps, m.LostSteps = m.Blocks+l.Blocks, m.Steps+l.Steps, m.LostSteps+l.LostSteps
	}
	if l.Began.Before(m.Began) {
		m.Began = l.Began
	}
	if l.At.After(m.At) {
		m.At = l.At
	}
}

// addFactors averages effects by their precision, and names contradictions. Of a job's communicators only the first
// that has a factor counts. An arm stays dropped if every job that has it has dropped it.
func (m *merging) addFactors(notes io.Writer, l learned) {
	for _, f := range l.Factors {
		i := slices.IndexFunc(m.Factors, f.Same)
		if i < 0 {
			i = len(m.Factors)
			m.Factors, m.last = append(m.Factors, f), append(m.last, learned{job: -1})
			m.Factors[i].Arms = nil
		}
		into, before := &m.Factors[i], m.last[i]
		counts := before.job != l.job
		m.last[i] = l
		for _, a := range f.Arms {
			b := into.Arm(a.Config)
			switch {
			case b == nil && counts:
				into.Arms = append(into.Arms, a)
			case b == nil:
				continue
			case counts:
				if a.Estimated() && b.Estimated() && math.Abs(a.Effect-b.Effect) > 3*math.Hypot(a.Error, b.Error) {
					cli.Notes(notes, fmt.Sprintf("contradiction: %s %s: %s %s up to %s, %s %s in %s", learning.Shape(f),
						a.Config, learning.Percent(b.Effect), learning.Range(b.Effect, b.Error), before.File,
						learning.Percent(a.Effect), learning.Range(a.Effect, a.Error), l.File))
				}
				*b = averaged(*b, a)
			default:
				b.Proven = b.Proven || a.Proven
			}
			if counts && a.Estimated() && a.Effect > trial.Surely*a.Error {
				m.slower[fmt.Sprint(i, a.Config)] = true
			}
		}
	}
}

func averaged(a, b trial.Arm) trial.Arm {
	precision := func(of trial.Arm) float64 {
		if of.Estimated() {
			return 1 / (of.Error * of.Error)
		}
		return 0
	}
	if both := precision(a) + precision(b); both > 0 {
		a.Effect, a.Error = (precision(a)*a.Effect+precision(b)*b.Effect)/both, 1/math.Sqrt(both)
	}
	if a.Blocks += b.Blocks; b.Dropped == "" {
		a.Dropped = ""
	}
	a.Proven = a.Proven || b.Proven
	return a
}

// conclude finds what is proven by all evidence together. Of ranges that overlap, the narrower comes first.
func (m *merging) conclude() {
	slices.Sort(m.Of)
	m.Of, m.State = slices.Compact(m.Of), trial.Stopped
	for i := range m.Factors {
		f := &m.Factors[i]
		f.Settle()
		leader := f.Leader()
		for k := range f.Arms {
			a := &f.Arms[k]
			if a.Proven = a.Proven && k == leader && !m.slower[fmt.Sprint(i, a.Config)]; a.Proven {
				m.State = trial.Learned
			}
		}
	}
	slices.SortStableFunc(m.Factors, func(a, b trial.Factor) int {
		return cmp.Or(cmp.Compare(a.Coll, b.Coll), cmp.Compare(a.Max-a.Min, b.Max-b.Min), cmp.Compare(a.Min, b.Min))
	})
}
