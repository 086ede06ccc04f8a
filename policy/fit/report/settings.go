package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// SettingLine is a setting of a job: what it changes by itself, and with its policy.
type SettingLine struct {
	Name    string `json:"setting"`
	Starts  int    `json:"starts"`
	Alone   Saving `json:"alone,omitzero"`
	Both    Saving `json:"with_policy,omitzero"`
	Verdict string `json:"verdict,omitempty"`
}

// Saving is a share of the time that NCCL's default takes under the site's own setting, with its 95 % interval.
type Saving struct {
	Gain stats.Optional `json:"gain"`
	Low  stats.Optional `json:"low,omitzero"`
	High stats.Optional `json:"high,omitzero"`
}

func savingOf(d stats.Location) Saving {
	of := func(ln float64) stats.Optional { return stats.Optional(1 - math.Exp(ln)) }
	return Saving{of(d.Mean), of(d.Mean + d.Half()), of(d.Mean - d.Half())}
}

// IsZero reports that it is not known.
func (s Saving) IsZero() bool { return s.Gain.IsZero() }

func (s Saving) String() string {
	if text := percent(s.Gain.Float()); !s.IsZero() && !s.Low.IsZero() {
		return fmt.Sprintf("%s (%s .. %s)", text, strings.TrimSuffix(percent(s.Low.Float()), " %"),
			strings.TrimSuffix(percent(s.High.Float()), " %"))
	}
	return percent(s.Gain.Float())
}

// Less says how much less time something takes, with the 95 % interval.
func Less(d stats.Location) string { return savingOf(d).String() }

// SettingLines are those of a comparison, in its order.
func SettingLines(c *fit.Comparison) (all []SettingLine) {
	for i := range c.Settings {
		s := &c.Settings[i]
		line := SettingLine{Name: s.String(), Starts: s.Starts, Alone: savingOf(s.Alone), Both: savingOf(s.Both)}
		switch {
		case i == c.Best:
			line.Verdict = "chosen"
		case i == 0:
		case s.Starts < 2:
			line.Verdict = "left after " + wording.Plural(s.Starts, "start")
		case c.Best > 0 && s.OverOwn.Mean+s.OverOwn.Half() < 0 && s.OverOwn.Mean > c.Settings[c.Best].OverOwn.Mean:
			line.Verdict = "it gains less"
		default:
			line.Verdict = "its gain is not sure"
		}
		if i == 0 { // it is what all are compared with
			nothing := stats.Optional(math.NaN())
			line.Alone = Saving{nothing, nothing, nothing}
		}
		all = append(all, line)
	}
	return all
}

// AboutSettings says which setting is chosen, what could have been seen, and where another would be better.
func AboutSettings(c *fit.Comparison) (lines []string) {
	best := &c.Settings[c.Best]
	text := "chosen for the job: the site's own setting, since no other surely gains"
	if c.Best > 0 {
		text = fmt.Sprintf("chosen for the job: %s, since with its policy it takes %s less time than the site's own "+
			"setting with its policy", best, Less(best.OverOwn))
	}
	lines = append(lines, text)
	if c.Found > 0 {
		lines = append(lines, fmt.Sprintf("a setting that gains %s or more would have been found; less is hidden by "+
			"what starts differ by", percent(1-math.Exp(-c.Found))))
	} else if len(c.Settings) > 1 {
		lines = append(lines, "nothing tells how much starts differ: measure each setting in four "+
			"fresh starts, in turns")
	}
	var better []string
	for _, at := range c.Better {
		better = append(better, fmt.Sprintf("%s of %s (%s, %s less)", at.Key, nccl.FormatBytes(at.Bytes),
			&c.Settings[at.Setting], percent(1-math.Exp(-at.Gain))))
	}
	if len(better) > 0 {
		lines = append(lines, "another setting would be better at "+strings.Join(better, ", "))
	}
	return lines
}
