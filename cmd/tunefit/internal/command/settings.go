package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
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

// settingJSON is a setting of fit --json.
type settingJSON struct {
	Variables  []string `json:"variables"` // that differ from the site's own setting
	Starts     int      `json:"starts"`
	Chosen     bool     `json:"chosen"`
	Alone      gainJSON `json:"alone"`
	WithPolicy gainJSON `json:"with_policy"`
}

// gainJSON is a share of the time that NCCL's default takes under the site's own setting, with its 95 % interval.
type gainJSON struct {
	Gain stats.Optional `json:"gain,omitzero"`
	Low  stats.Optional `json:"low,omitzero"`
	High stats.Optional `json:"high,omitzero"`
}

func settingsJSON(c *fit.Comparison) (all []settingJSON) {
	gain := func(d stats.Location) gainJSON {
		saved := func(ln float64) stats.Optional { return stats.Optional(1 - math.Exp(ln)) }
		return gainJSON{saved(d.Mean), saved(d.Mean + d.Half()), saved(d.Mean - d.Half())}
	}
	for i := range c.Settings {
		s := &c.Settings[i]
		all = append(all, settingJSON{append([]string{}, s.Words...), s.Starts, i == c.Best, gain(s.Alone),
			gain(s.Both)})
	}
	return all
}

// settingsFile is the text of a file of variables, as NCCL reads them, with what each gains. A line with an equals sign
// is a variable to NCCL even if it is a comment.
func settingsFile(c *fit.Comparison) string {
	var out strings.Builder
	out.WriteString("# The setting that policy.csv was measured under: for nccl.conf, or for the job's environment.\n")
	for _, word := range c.Settings[c.Best].Words {
		gains := "not measured by itself"
		if less, ok := c.Without(word); ok {
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
func keepSettings(file string, c *fit.Comparison) error {
	if c != nil && c.Best > 0 {
		return cli.WriteText(file, settingsFile(c))
	}
	if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
