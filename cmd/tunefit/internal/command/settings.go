package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

// runsFastest is the value of --runs that compares settings, and fits the one that is chosen.
const runsFastest = "fastest"

// writeSettings prints how settings compare.
func writeSettings(w io.Writer, c *fit.Comparison) {
	tw := cli.NewTable(w)
	tw.Row("setting of the job", "starts", "less time: by itself", "with its policy", "")
	for _, line := range report.SettingLines(c) {
		tw.Row(line.Name, line.Starts, line.Alone, line.Both, line.Verdict)
	}
	tw.Flush()
	for _, line := range report.AboutSettings(c) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintln(w)
}

// settingsFile is the text of a file of variables, as NCCL reads them, with what each gains. A line with an equals sign
// is a variable to NCCL even if it is a comment.
func settingsFile(c *fit.Comparison) string {
	var out strings.Builder
	out.WriteString("# The setting that policy.csv was measured under: for nccl.conf, or for the job's environment.\n")
	for _, word := range c.Settings[c.Best].Words {
		gains := "not measured by itself"
		if i, less := c.Without(word); i >= 0 {
			gains = report.Less(less) + " less time than without it"
		}
		fmt.Fprintf(&out, "# %s\n", gains)
		if name, unset := strings.CutSuffix(word, "="); unset {
			fmt.Fprintf(&out, "# %s has to be unset, in the environment and here\n", name)
		} else {
			fmt.Fprintln(&out, word)
		}
	}
	return out.String()
}

// keepSettings writes the setting that is chosen; none: an older file goes.
func keepSettings(w io.Writer, file string, c *fit.Comparison) error {
	if c != nil && c.Best > 0 {
		err := cli.WriteText(file, settingsFile(c))
		if err == nil {
			fmt.Fprintf(w, "wrote %s: jobs need what it sets, with a policy and without\n", file)
		}
		return err
	}
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
