package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// compareJob shows what jobs have found out about their policy and left in a directory.
func (f *compareFlags) compareJob(cmd *cobra.Command, dir string) error {
	for _, flag := range []string{"config", "all", "turns", "alpha", "threshold", "restore", "force"} {
		if cmd.Flags().Changed(flag) {
			return cli.FailWith(exitNotCompare, fmt.Errorf("--%s is about measurements before and after (needed: files of both; %s is what a job has found out)", flag, dir))
		}
	}
	all, err := readComparisons(dir)
	if err != nil {
		return cli.FailWith(exitNotCompare, err)
	}
	if f.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), all)
	} else {
		err = writeComparisons(cli.Printable{Writer: cmd.OutOrStdout()}, all)
	}
	if err != nil {
		return cli.FailWith(exitNotCompare, err)
	}
	switch {
	case slices.ContainsFunc(all, tuner.Comparison.Slower):
		return cli.ExitWith(exitSlower)
	case !slices.ContainsFunc(all, tuner.Comparison.Known):
		return cli.FailWith(exitNotCompare, fmt.Errorf("%s: nothing is known yet", dir))
	}
	return nil
}

// readComparisons returns those in a directory, the largest communicator's first.
func readComparisons(dir string) (all []tuner.Comparison, err error) {
	files, err := filepath.Glob(filepath.Join(dir, tuner.ComparisonFiles))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := cli.ReadRegular(file)
		if err != nil {
			return nil, err
		}
		var c tuner.Comparison
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("%s: this is no comparison: %w", file, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no job has left a comparison here (it needs %s=%s and %s=nccl, another policy, or %s=1)", dir, tuner.EnvRecord, dir, tuner.EnvCompare, tuner.EnvCanary)
	}
	slices.SortStableFunc(all, func(a, b tuner.Comparison) int {
		return cmp.Or(cmp.Compare(b.Ranks, a.Ranks), a.Began.Compare(b.Began), cmp.Compare(a.Comm, b.Comm))
	})
	return all, nil
}

func writeComparisons(w cli.Printable, all []tuner.Comparison) error {
	for i, c := range all {
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		_, err := fmt.Fprintf(w, "%s%s against %s, on %s of %s, %s to %s\n  %s\n  %s\n", gap, c.A.Name, c.B.Name, cli.CountOf(c.Ranks, "rank"), cli.CountOf(c.Nodes, "node"),
			c.Began.Format("2006-01-02 15:04"), c.At.Format("15:04"), c.Verdict(), c.Effort())
		if err != nil {
			return err
		}
	}
	return nil
}
