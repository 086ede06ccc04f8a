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

// SettingLine is a setting of a job in words: what it changes by itself, and with its policy.
type SettingLine struct {
	Name, Alone, Both, Verdict string
	Starts                     int
}

// SettingLines are those of a comparison, in its order.
func SettingLines(c *fit.Comparison) (all []SettingLine) {
	for i := range c.Settings {
		s := &c.Settings[i]
		line := SettingLine{Name: s.String(), Starts: s.Starts, Alone: Less(s.Alone), Both: Less(s.Both)}
		switch {
		case i == c.Best:
			line.Verdict = "chosen"
		case i == 0:
		case s.Starts > 1:
			switch line.Verdict = "its gain is not sure"; {
			case s.OverOwn.Mean > 0:
				line.Verdict = "no gain"
			case s.OverOwn.Mean+s.OverOwn.Half() < 0 && c.Best > 0:
				line.Verdict = "it gains less"
			}
		default:
			line.Verdict = "left after " + wording.Plural(s.Starts, "start")
		}
		if i == 0 {
			line.Alone = "–"
		}
		all = append(all, line)
	}
	return all
}

// Less says how much less time something takes, with the 95 % interval.
func Less(d stats.Location) string {
	percent := func(ln float64) string { return strings.TrimSuffix(percent(1-math.Exp(ln)), " %") }
	switch half := d.Half(); {
	case math.IsNaN(d.Mean):
		return "–"
	case !(d.DF > 0) || math.IsNaN(half):
		return percent(d.Mean) + " %"
	default:
		return fmt.Sprintf("%s %% (%s .. %s)", percent(d.Mean), percent(d.Mean+half), percent(d.Mean-half))
	}
}

// AboutSettings says which setting is chosen, what could have been seen, and where another would be better.
func AboutSettings(c *fit.Comparison) (lines []string) {
	best := &c.Settings[c.Best]
	switch {
	case c.Best > 0:
		lines = append(lines, fmt.Sprintf("chosen for the job: %s, since with its policy it takes %s less time than the "+
			"site's own setting with its policy", best, Less(best.OverOwn)))
	default:
		lines = append(lines, "chosen for the job: the site's own setting, since no other surely gains")
	}
	if c.Found > 0 {
		lines = append(lines, fmt.Sprintf("a setting that gains %s or more would have been found; less is hidden by "+
			"what starts differ by", percent(1-math.Exp(-c.Found))))
	} else if len(c.Settings) > 1 {
		lines = append(lines, "nothing tells how much starts differ: measure each setting in four fresh starts, in turns")
	}
	for i := 0; i < len(c.Better); {
		j, most := i, 0.0
		for ; j < len(c.Better) && c.Better[j].Key == c.Better[i].Key && c.Better[j].Setting == c.Better[i].Setting; j++ {
			most = max(most, 1-math.Exp(-c.Better[j].Gain))
		}
		at := nccl.Range{Min: c.Better[i].Bytes, Max: c.Better[j-1].Bytes}
		lines = append(lines, fmt.Sprintf("%s of %s: %s would take up to %s less time", c.Better[i].Key, at,
			&c.Settings[c.Better[i].Setting], percent(most)))
		i = j
	}
	return lines
}
