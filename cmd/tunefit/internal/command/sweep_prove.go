package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// mostProof bounds the times of each side.
const mostProof = 100

// proof compares a policy with the default.
func (f *sweepFlags) proof(ctx context.Context, cmd *cobra.Command, s *sweep.Sweep, file string,
	found *sweepJSON) error {
	rows, _, err := ask.ReadPolicy(f.choices.Topology.Inputs, file)
	if err != nil {
		return err
	}
	keys := slices.DeleteFunc(slices.Clone(s.Keys), func(k fit.Key) bool {
		return !slices.ContainsFunc(rows.Rules, func(r policy.Rule) bool {
			return r.IsFor(k.Coll, policy.Comm{Comm: k.Comm})
		})
	})
	if len(keys) == 0 {
		return fmt.Errorf("%s has no row for what is swept: there is nothing to validate", file)
	}
	proof, err := s.Prove(ctx, file, keys, f.Proof)
	if err != nil {
		return f.resumeError(ctx, s, err)
	}
	if len(proof.Broken) > 0 {
		err := fmt.Errorf("%s is not validated: not all runs of its validation ended well and right at all sizes:"+
			"\n  %s", file, strings.Join(proof.Broken, "\n  "))
		return errors.Join(err, f.keepProof(file, err.Error()+"\n", nil))
	}
	t := proof.Compare()
	var text strings.Builder
	if writeTable(&text, t); f.asJSON {
		found.Proof = t
	} else {
		writeTable(cmd.OutOrStdout(), t)
	}
	verdict := f.judge(t, file)
	return errors.Join(f.keepProof(file, text.String(), verdict), verdict)
}

// keepProof writes proof.txt, and adds the proof to the report. verdict is why it does not hold; nil: it does.
func (f *sweepFlags) keepProof(file, text string, verdict error) error {
	err := cli.WriteText(filepath.Join(f.Dir, "proof.txt"), text)
	page := f.page
	if page.Proven, page.Proof = file, text; verdict != nil {
		page.Proof += "\n" + verdict.Error() + "\n"
	}
	return errors.Join(err, cli.WriteWhole(filepath.Join(f.Dir, "report.html"), true, func(w io.Writer) error {
		return report.Write(w, page)
	}))
}

// judge says why a proof does not hold. A policy that collapsed in one run may do so in the job, whatever the means
// say.
func (f *sweepFlags) judge(t *compare.Table, file string) error {
	if t.Beyond > 0 || t.MeanBeyond {
		return fmt.Errorf("%s makes something slower: do not deploy it as it is", file)
	}
	var unsteady []string
	for _, g := range t.Sections {
		for _, u := range g.Unsteady {
			if u.Side == t.After.Name && u.Alone() {
				unsteady = append(unsteady, fmt.Sprintf("%s: %s", g.Series, u))
			}
		}
	}
	if len(unsteady) == 0 {
		return nil
	}
	return fmt.Errorf("%s is not validated, since it was unsteady:\n  %s\n(to see whether that happens again: %s; if "+
		"it does, take out the rows of these sizes)", file, strings.Join(unsteady, "\n  "),
		f.resumeCommand(min(2*f.Proof, mostProof)))
}

// tellJob prints how a job finds out whether the policy makes it faster. That is the last line of a sweep.
func (f *sweepFlags) tellJob(stdout io.Writer, s *sweep.Sweep, policy string, found *sweepJSON) error {
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		return err
	}
	if policy, err = filepath.Abs(policy); err != nil {
		return err
	}
	record := filepath.Join(dir, "job")
	text, err := os.ReadFile(policy)
	if err != nil {
		return err
	}
	found.InJob = bench.SettingOf(s.SettingOf(text)) // it was measured under it
	maps.Copy(found.InJob, s.Bounds)
	words := cli.Assignments(found.InJob)
	for _, v := range [][2]string{{tuner.EnvPlugin, s.Library}, {tuner.EnvConfigFile, policy},
		{tuner.EnvCompare, "nccl"}, {tuner.EnvRecord, record}} {
		found.InJob[v[0]] = v[1]
		words = append(words, v[0]+"="+cli.ShellWord(v[1]))
	}
	if f.asJSON {
		return nil
	}
	nodes := ""
	if slices.ContainsFunc(s.Keys, func(k fit.Key) bool { return k.Nodes > 1 }) {
		nodes = fmt.Sprintf(" (on several nodes %s, too: a directory that they share)", tuner.EnvRendezvous)
	}
	_, err = fmt.Fprintf(stdout, "only the job itself can tell whether it gets faster: run it with %s%s, then tunefit "+
		"status, or tunefit compare %s\n", strings.Join(words, " "), nodes, cli.ShellWord(record))
	return err
}
