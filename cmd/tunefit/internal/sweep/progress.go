package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// report is the line of progress about a run that has ended.
func (s *Sweep) report(r *Run) string {
	start := s.journal.start(r)
	what := strings.TrimPrefix(start.Name, perfrun.Name(start.Key)+"-")
	text := fmt.Sprintf("%4d of ~%-3d %-17s %-24s %6.1f s", r.ID, r.ID+s.runsLeft(), start.Key.String(), what, r.Seconds)
	switch {
	case r.Outcome == Measured && len(r.Sizes) > 0:
		text += "  "
		if configs := start.ConfigsAt(r.Sizes); len(configs) > 1 {
			text += cli.CountOf(len(configs), "configuration") + ", "
		} else if len(start.Rows) > 1 {
			text += configs[0].String() + ", "
		}
		text += fmt.Sprintf("%s at %s", cli.CountOf(len(r.Sizes), "size"), commspec.SizeRange(r.Sizes[0], r.Sizes[len(r.Sizes)-1]))
	default:
		text += fmt.Sprintf("  %s: %s", strings.ToUpper(string(r.Outcome)), r.Reason)
	}
	if len(r.Nodes) > 0 {
		text += fmt.Sprintf("; it names %s", strings.Join(r.Nodes, ", "))
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

// meanRun is what a run of a subject takes, as far as runs tell; 0: nothing does.
func (s *Sweep) meanRun(key fit.Key) time.Duration {
	sum, n := 0.0, 0
	for _, i := range s.journal.of(key).runs {
		if r := &s.journal.runs[i]; r.Outcome == Measured {
			sum, n = sum+r.Seconds, n+1
		}
	}
	return time.Duration(sum / float64(max(1, n)) * float64(time.Second))
}

// verificationStarts is how many a verification has at most, but on more nodes than were measured.
func (s *Sweep) verificationStarts() int { return s.Repetitions*(1+fit.Contenders) + 1 }

// reserved reports that the rest of the budget is for the verification: as much as that takes, or where there is less,
// half of what the subject has. Without something measured there is nothing to verify, nor a policy.
func (s *Sweep) reserved(key fit.Key) bool {
	left, took := s.Budget-s.spent(), 0.0
	for _, i := range s.journal.of(key).runs {
		took += s.journal.runs[i].Seconds
	}
	return s.Budget > 0 && left < time.Duration(s.verificationStarts()+1)*s.meanRun(key) && left.Seconds() < took
}

// timeLeft is what runs still take, within the budget.
func (s *Sweep) timeLeft() time.Duration {
	if s.Budget > 0 {
		return min(s.toTheEnd(), s.Budget-s.spent())
	}
	return s.toTheEnd()
}

// toTheEnd is a guess: so many starts as subjects have in the mean, of what they take so far.
func (s *Sweep) toTheEnd() (left time.Duration) {
	var mean time.Duration
	n := 0
	for _, key := range s.Keys {
		if m := s.meanRun(key); m > 0 {
			mean = m // of the subject at work, or the last
		}
		left += mean * time.Duration(s.startsLeft(key))
		n += s.startsLeft(key)
	}
	return left + mean*time.Duration(s.runsLeft()-n)
}

// runsLeft is about how many runs are to come, with those of a proof.
func (s *Sweep) runsLeft() (n int) {
	if last := len(s.journal.batches) - 1; last >= 0 && s.journal.batches[last].Kind == Prove {
		return s.notBegun(last)
	}
	for _, key := range s.Keys {
		n += s.startsLeft(key)
	}
	return n + 2*s.Proof*len(s.Keys)
}

// startsLeft is about how many starts of a subject are to come, but for those of a proof.
func (s *Sweep) startsLeft(key fit.Key) int {
	of, begun := s.journal.of(key), 0
	if n := len(of.batches); n > 0 {
		begun = s.notBegun(of.batches[n-1])
	}
	switch {
	case s.over[key]:
		return 0
	case s.verified(key):
		return begun
	case len(of.runs) == 0:
		return s.expected(key)
	}
	return max(s.expected(key)-len(of.runs), begun+s.verificationStarts())
}

// notBegun counts the starts of a batch that no run belongs to.
func (s *Sweep) notBegun(b int) int {
	begun := map[int]bool{}
	for i := range s.journal.runs { // a proof has several subjects
		if r := &s.journal.runs[i]; r.Batch == b {
			begun[r.Start] = true
		}
	}
	return len(s.journal.batches[b].Starts) - len(begun)
}

// present says what runs now, as the how manieth, and how long it may all take.
func (s *Sweep) present(r *Run) string {
	start := s.journal.start(r)
	text := fmt.Sprintf("run %d of about %d: %s", r.ID, r.ID+s.runsLeft(), start.Name)
	if left := s.timeLeft(); left > time.Minute {
		text += fmt.Sprintf(", about %s left", minutes(left))
	}
	return text
}

// expected is about how many starts a subject takes.
func (s *Sweep) expected(key fit.Key) int {
	space, err := s.Choices.Space(key, nil)
	if err != nil {
		return 0
	}
	space.Families = slices.DeleteFunc(space.Families, func(f nccl.Cell) bool { return !s.isOffered(key, f) })
	if len(s.before(key)) > 0 {
		return s.verificationStarts() + s.Repetitions
	}
	// All with most channels, and nearly as many rounds.
	return 1 + 2*len(space.Families) + 2 + s.verificationStarts()
}

// conclude says what was found out about a subject.
func (s *Sweep) conclude(key fit.Key) {
	group, space, err := s.known(key)
	name := key.String()
	s.over[key] = true
	if reason := s.hopeless(key); reason != "" {
		s.Say("%s is left to NCCL, without its default nothing tells what is gained: %s", name, reason)
		return
	}
	if err == nil {
		for _, line := range perfrun.Unmet(space, group) {
			s.Say("%s: %s", name, line)
		}
	}
	if group == nil || len(group.Cells) == 0 {
		return
	}
	s.Say("%s: %d of %s measured, each at the sizes where it may be the fastest",
		name, len(group.Configs()), cli.CountOf(space.Count(), "configuration"))
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

// unfinished says what the budget did not reach.
func (s *Sweep) unfinished() string {
	var missing []string
	for _, key := range s.Keys {
		if s.short[key] || !s.verified(key) {
			missing = append(missing, key.String())
		}
	}
	text := fmt.Sprintf("the budget of %v is spent", s.Budget)
	if len(missing) > 0 {
		text += "; not measured to the end: " + cli.Few(missing, 8, ", ")
	}
	text += " (to continue: the same command with a larger --budget"
	if left := s.toTheEnd(); left > 0 {
		text += fmt.Sprintf(", by about %s", minutes(left))
	}
	return text + ")"
}
