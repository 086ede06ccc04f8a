package sweep

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// report is the line about a run that has ended.
func (s *Sweep) report(r *Run) string {
	start := r.of
	what := strings.TrimPrefix(start.Name, perfrun.Name(start.Key)+"-")
	text := fmt.Sprintf("%4d of ~%-3d %-17s %-24s %6.1f s", r.ID, r.ID+s.runsLeft(), start.Key.String(),
		what, r.Seconds)
	switch {
	case r.Outcome == Measured && len(r.Sizes) > 0:
		text += "  "
		if configs := start.ConfigsAt(r.Sizes); len(configs) > 1 {
			text += wording.Plural(len(configs), "configuration") + ", "
		} else if len(start.Rows) > 1 {
			text += configs[0].String() + ", "
		}
		text += fmt.Sprintf("%s at %s", wording.Plural(len(r.Sizes), "size"),
			cli.SizeRange(r.Sizes[0], r.Sizes[len(r.Sizes)-1]))
	default:
		text += fmt.Sprintf("  %s: %s", strings.ToUpper(string(r.Outcome)), r.Reason)
	}
	if left := s.timeLeft(); left > time.Minute {
		text += fmt.Sprintf("; about %s left", minutes(left))
	}
	return text
}

func minutes(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%.0f min", math.Ceil(d.Minutes()))
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

// present says which run this is, of about how many, and how long the rest may take.
func (s *Sweep) present(r *Run) string {
	start := r.of
	text := fmt.Sprintf("run %d of about %d: %s", r.ID, r.ID+s.runsLeft(), start.Name)
	if left := s.timeLeft(); left > time.Minute {
		text += fmt.Sprintf(", about %s left", minutes(left))
	}
	return text
}

// conclude says what was found out about a subject.
func (s *Sweep) conclude(key fit.Key) {
	group, space, err := s.known(key)
	name := key.String()
	s.over[key] = true
	if reason := s.hopeless(key); reason != "" {
		s.Say("%s is left to NCCL, since no gain can be told without its default: %s", name, reason)
		return
	}
	if err == nil {
		for _, line := range perfrun.Unmet(space, group) {
			s.Say("%s: %s", name, line)
		}
	}
	if line := s.changedByLoading(key, group); line != "" {
		s.Say("%s: %s", name, line)
	}
	if group == nil || len(group.Points) == 0 {
		return
	}
	s.Say("%s: %d of %s measured, each at the sizes where it may be the fastest",
		name, len(group.Configs()), wording.Plural(space.Count(), "configuration"))
	var unsteady []string
	for _, u := range group.Unsteady() {
		unsteady = append(unsteady, fmt.Sprintf("%s (%s gains %.1f %%, times moved by %.1f %%)",
			nccl.FormatBytes(u.Bytes), u.Config, 100*u.Gain, 100*u.Moved))
	}
	if len(unsteady) > 0 {
		s.Say("%s: left to NCCL, as the default or the configuration moved by more than it gains: %s",
			name, cli.Few(unsteady, mostUnsteady, "; "))
	}
}

// mostUnsteady bounds what is said of sizes at which times moved.
const mostUnsteady = 6

// Summary says what the sweep took.
func (s *Sweep) Summary() string {
	return fmt.Sprintf("%s, %s, %.1f GPU hours", wording.Plural(len(s.journal.runs), "run"), minutes(s.spent()),
		s.GPUHours())
}
