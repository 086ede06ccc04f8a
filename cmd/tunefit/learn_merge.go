package main

import (
	"bytes"
	"cmp"
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

It averages the effects that different jobs found, by their precision (inverse
variance), where these are the same: the machine, the release of NCCL, nodes, ranks, the
collective, the range of sizes and NCCL's choice. All else stays apart. Communicators of
one DIR made the same steps: of a shape that several have, the one with most blocks
counts.

It names contradictions: effects of two jobs that differ by more than three standard
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
	var merged []trial.Evidence
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Comm == all[0].Comm && all[n].NCCL == all[0].NCCL {
			n++
		}
		e := commonOf(all[:n])
		if proven := mergeFactors(notes, &e, all[:n]); proven {
			e.State = trial.Learned
		}
		merged = append(merged, e)
		var text bytes.Buffer
		err := cli.WriteJSON(&text, e)
		name := fmt.Sprintf("merged-%dn-%dr-%s.json", e.Nodes, e.Ranks, e.NCCL)
		if err = errors.Join(err, atomicfile.Write(filepath.Join(out, name), text.Bytes())); err != nil {
			return err
		}
		all = all[n:]
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

// commonOf is what evidence of several communicators of one kind says together, without the factors. Its steps and
// blocks are as long as the first one's.
func commonOf(all []learned) trial.Evidence {
	e := all[0].Evidence
	for i, l := range all[1:] {
		e.Key, e.Name, e.State, e.LeftOut, e.Result = "merged", "", trial.Stopped, nil, nil
		e.Of = slices.Concat(e.Of, l.Of)
		if l.job != all[i].job { // others of a job made the same steps
			e.Blocks, e.Steps, e.LostSteps = e.Blocks+l.Blocks, e.Steps+l.Steps, e.LostSteps+l.LostSteps
		}
		if l.Began.Before(e.Began) {
			e.Began = l.Began
		}
		if l.At.After(e.At) {
			e.At = l.At
		}
	}
	slices.Sort(e.Of)
	e.Of = slices.Compact(e.Of)
	return e
}

// part is a factor as one job has it.
type part struct {
	learned
	trial.Factor
}

// factorKey is what is the same in all parts of a factor.
type factorKey struct {
	coll  nccl.Coll
	sizes nccl.Range
	own   nccl.Config
}

// mergeFactors sets the factors of e to all that the jobs have, and reports whether something is proven. Of ranges that
// overlap, the narrower comes first.
func mergeFactors(notes io.Writer, e *trial.Evidence, all []learned) (proven bool) {
	e.Factors = nil
	parts, proofs := map[factorKey][]part{}, map[factorKey][]nccl.Config{}
	for _, l := range all {
		for _, f := range l.Factors {
			k := factorKey{f.Coll, f.Range, f.Arms[0].Config}
			for _, a := range f.Arms {
				if a.Proven {
					proofs[k] = append(proofs[k], a.Config)
				}
			}
			if i := len(parts[k]) - 1; i < 0 || parts[k][i].job != l.job {
				parts[k] = append(parts[k], part{l, f})
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(parts), func(a, b factorKey) int {
		return cmp.Or(cmp.Compare(a.coll, b.coll), cmp.Compare(a.sizes.Max-a.sizes.Min, b.sizes.Max-b.sizes.Min),
			cmp.Compare(a.sizes.Min, b.sizes.Min), a.own.Compare(b.own))
	}) {
		f := mergeFactor(notes, parts[k])
		leader := f.Leader()
		for j, a := range f.Arms {
			f.Arms[j].Proven = j == leader && slices.Contains(proofs[k], a.Config) && !slowerInOne(parts[k], a.Config)
			proven = proven || f.Arms[j].Proven
		}
		e.Factors = append(e.Factors, f)
	}
	return proven
}

// mergeFactor averages effects by their precision, and names contradictions. An arm stays dropped if every job that has
// it has dropped it.
func mergeFactor(notes io.Writer, parts []part) trial.Factor {
	f := parts[0].Factor
	f.Arms = slices.Clone(f.Arms)
	for i, p := range parts {
		for _, a := range p.Arms {
			for _, q := range parts[:i] {
				b := q.Arm(a.Config)
				if b != nil && a.Estimated() && b.Estimated() &&
					math.Abs(a.Effect-b.Effect) > 3*math.Hypot(a.Error, b.Error) {
					cli.Notes(notes, fmt.Sprintf("contradiction: %s %s: %s %s in %s, %s %s in %s", learning.Shape(f),
						a.Config, learning.Percent(b.Effect), learning.Range(b.Effect, b.Error), q.File,
						learning.Percent(a.Effect), learning.Range(a.Effect, a.Error), p.File))
				}
			}
			if b := f.Arm(a.Config); i == 0 {
				continue
			} else if b != nil {
				*b = averaged(*b, a)
			} else {
				f.Arms = append(f.Arms, a)
			}
		}
	}
	f.Settle()
	return f
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
	return a
}

// slowerInOne reports whether a job finds that an arm makes steps longer for sure.
func slowerInOne(parts []part, config nccl.Config) bool {
	return slices.ContainsFunc(parts, func(p part) bool {
		a := p.Arm(config)
		return a != nil && a.Estimated() && a.Effect > trial.Surely*a.Error
	})
}
