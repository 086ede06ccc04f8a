package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// compareJob shows what jobs have found out about their policy and left in a directory.
func (f *compareFlags) compareJob(cmd *cobra.Command, dir string) (slower bool, err error) {
	for _, flag := range []string{"config", "all", "turns", "threshold", "restore", "force"} {
		if cmd.Flags().Changed(flag) {
			return false,
				fmt.Errorf("--%s is about measurements before and after (needed: files of both; %s is what a job has "+
					"found out)", flag, dir)
		}
	}
	all, err := readComparisons(dir)
	if err != nil {
		return false, err
	}
	if f.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), all)
	} else {
		err = writeComparisons(cmd.OutOrStdout(), all)
	}
	if err != nil {
		return false, err
	}
	if slower = slices.ContainsFunc(all, trial.Finding.Slower); !slower &&
		!slices.ContainsFunc(all, trial.Finding.Known) {
		return false, fmt.Errorf("%s: nothing is known yet", dir)
	}
	return slower, nil
}

// readComparisons returns those in a directory, the largest communicator's first.
func readComparisons(dir string) (all []trial.Finding, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, entry := range entries {
		if matches, _ := filepath.Match(telemetry.ComparisonFiles, entry.Name()); !matches {
			continue
		}
		c, err := readComparison(filepath.Join(dir, entry.Name()))
		all, failed = append(all, c), append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil,
			fmt.Errorf("%s: no job has left a comparison here (it needs %s=%s and %s=nccl, another policy, or %s=1)",
				dir, tuner.EnvRecord, dir, tuner.EnvCompare, tuner.EnvCanary)
	}
	slices.SortStableFunc(all, func(a, b trial.Finding) int {
		return cmp.Or(cmp.Compare(b.Ranks, a.Ranks), a.Began.Compare(b.Began), cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

func readComparison(file string) (c trial.Finding, err error) {
	text, err := cli.ReadRegular(file)
	if err != nil {
		return c, err
	}
	if err = json.Unmarshal(text, &c); err == nil && (c.A.Name == "" || c.B.Name == "" || c.Ranks < 1 || c.Nodes < 1) {
		err = errors.New("it does not name what is compared on which ranks")
	}
	if err != nil {
		return c,
			fmt.Errorf("%s: this is no comparison: %w (the library writes these files whole: copy it again, or "+
				"remove it)", file, wording.JSONError(err))
	}
	return c, nil
}

func writeComparisons(w io.Writer, all []trial.Finding) error {
	for i, c := range all {
		gap := "\n"
		if i == 0 {
			gap = ""
		}
		_, err := fmt.Fprintf(w, "%s%s against %s, on %s of %s, %s to %s\n  %s\n  %s\n", gap,
			wording.Line(c.A.Name), wording.Line(c.B.Name), wording.Plural(c.Ranks, "rank"),
			wording.Plural(c.Nodes, "node"),
			c.Began.Format("2006-01-02 15:04"), c.At.Format("15:04"), c.Verdict(), c.Effort())
		if err != nil {
			return err
		}
	}
	return nil
}
