package sweep

import (
	"fmt"
	"slices"
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
		text += fmt.Sprintf("; about %s left", cli.Roughly(left))
	}
	return text
}

// step is which run this is, of about how many, and how long the rest may take.
func (s *Sweep) step(r *Run) cli.Step {
	return cli.Step{Done: r.ID - 1, Of: r.ID + s.runsLeft(), Unit: "runs", About: true, Left: s.timeLeft(), Now: r.of.Name}
}

// conclude says what was found out about a subject.
func (s *Sweep) conclude(key fit.Key) {
	group, space, err := s.known(key)
	name := key.String()
	s.concluded[key] = true
	if slices.ContainsFunc(s.journal.of(key).runs, func(r *Run) bool { return r.direct }) {
		s.Say("%s: RCCL's direct access (DDA) may have run what was measured: it asks no tuner, and NCCL_ALGO does not "+
			"count (RCCL_DDA_ENABLE=0, for the sweep and for jobs, lets a policy decide; measure which is faster)", name)
	}
	if reason := s.whyNotMeasured(key); reason != "" {
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
		unsteady = append(unsteady, fmt.Sprintf("%s (%s gains %.1f %%, run-to-run variation %.1f %%)",
			nccl.FormatBytes(u.Bytes), u.Config, 100*u.Gain, 100*u.Moved))
	}
	if len(unsteady) > 0 {
		s.Say("%s: left to NCCL, as the gain does not exceed the run-to-run variation: %s",
			name, cli.Few(unsteady, mostUnsteady, "; "))
	}
}

// mostUnsteady bounds what is said of sizes at which times moved.
const mostUnsteady = 6

// Summary says what the sweep took.
func (s *Sweep) Summary() string {
	hours := 0.0 // of GPUs
	for _, r := range s.journal.runs {
		hours += r.Seconds / 3600 * float64(r.of.Key.Ranks)
	}
	return fmt.Sprintf("%s, %s, %.1f GPU hours", wording.Plural(len(s.journal.runs), "run"), cli.Roughly(s.spent()), hours)
}

// spent is the time so far.
func (s *Sweep) spent() time.Duration { return s.earlier + time.Since(s.begun) }

// meanRun is the mean time of a subject's runs; 0: it has none yet.
func (s *Sweep) meanRun(key fit.Key) time.Duration {
	sum, n := 0.0, 0
	for _, r := range s.journal.of(key).runs {
		if r.Outcome == Measured {
			sum, n = sum+r.Seconds, n+1
		}
	}
	return time.Duration(sum / float64(max(1, n)) * float64(time.Second))
}

// verificationStarts is the largest number of starts of a subject's verification.
func (s *Sweep) verificationStarts(key fit.Key) int {
	configs := fit.Contenders
	if len(s.before(key)) > 0 {
		configs = fit.Carried
	}
	return s.Repetitions*(1+configs) + 1
}

// reserved reports whether the rest of the budget is kept for the verification: the time that a verification takes, but
// at most half of the subject's time. Before anything was measured there is nothing to verify, so nothing is kept.
func (s *Sweep) reserved(key fit.Key) bool {
	left, took := s.Budget-s.spent(), 0.0
	for _, r := range s.journal.of(key).runs {
		took += r.Seconds
	}
	return s.Budget > 0 && left < time.Duration(s.verificationStarts(key)+1)*s.meanRun(key) && left.Seconds() < took
}

// timeLeft estimates how long the runs still take, within the budget.
func (s *Sweep) timeLeft() time.Duration {
	if s.Budget > 0 {
		return min(s.remainingTime(), s.Budget-s.spent())
	}
	return s.remainingTime()
}

// remainingTime estimates how long the runs that are left take, by the mean of all runs so far.
func (s *Sweep) remainingTime() time.Duration {
	seconds := 0.0
	for _, r := range s.journal.runs {
		seconds += r.Seconds
	}
	mean := seconds / float64(max(1, len(s.journal.runs)))
	return time.Duration(mean * float64(s.runsLeft()) * float64(time.Second))
}

// runsLeft estimates how many runs are left, with those of a proof.
func (s *Sweep) runsLeft() (n int) {
	if n := len(s.journal.batches); n > 0 && s.journal.batches[n-1].Kind == Prove {
		return s.notBegun(s.journal.batches[n-1])
	}
	for _, key := range s.Keys {
		n += s.startsLeft(key)
	}
	return n + 2*s.Proof*len(s.Keys)
}

// startsLeft estimates how many starts of a subject are left. It does not count those of a proof.
func (s *Sweep) startsLeft(key fit.Key) int {
	of, begun := s.journal.of(key), 0
	if n := len(of.batches); n > 0 {
		begun = s.notBegun(of.batches[n-1])
	}
	switch {
	case s.concluded[key]:
		return 0
	case s.verified(key):
		return begun
	case len(of.runs) == 0:
		return s.expected(key)
	}
	return max(s.expected(key)-len(of.runs), begun+s.verificationStarts(key))
}

// notBegun counts the starts of a batch that have no run yet.
func (s *Sweep) notBegun(b *Batch) (n int) {
	for i := range b.Starts {
		if len(s.journal.runsOf(&b.Starts[i])) == 0 {
			n++
		}
	}
	return n
}

// expected estimates how many starts a subject takes.
func (s *Sweep) expected(key fit.Key) int {
	space, err := s.Choices.Space(key, nil, s.release(key))
	if err != nil {
		return 0
	}
	space.LeaveOut(func(f nccl.Cell) bool { return s.notOffered[key][f] })
	if len(s.before(key)) > 0 {
		return s.verificationStarts(key) + s.Repetitions
	}
	// All with most channels, and nearly as many rounds.
	once := 1
	if nccl.IsRCCL(s.release(key)) {
		once++
	}
	return once + 2*len(space.Families) + 2 + s.verificationStarts(key)
}

// unfinished says what the budget did not reach.
func (s *Sweep) unfinished() string {
	var missing []string
	for _, key := range s.Keys {
		if s.cutShort[key] || !s.verified(key) {
			missing = append(missing, key.String())
		}
	}
	text := fmt.Sprintf("the budget of %v is spent", s.Budget)
	if len(missing) > 0 {
		text += "; not measured to the end: " + cli.Few(missing, 8, ", ")
	}
	text += " (to continue: the same command with a larger --budget"
	if left := s.remainingTime(); left > 0 {
		text += fmt.Sprintf(", by about %s", cli.Roughly(left))
	}
	return text + ")"
}
