package sweep

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// report is the line about a run that has ended.
func (s *Sweep) report(r *Run) string {
	start := r.of
	what := strings.TrimPrefix(start.Name, perfrun.Name(start.Key)+"-")
	ahead, left := s.ahead()
	text := fmt.Sprintf("%4d of ~%-3d %-17s %-24s %6.1f s", r.ID, r.ID+ahead, start.Key.String(), what, r.Seconds)
	switch {
	case r.Outcome == Measured && len(r.Sizes) > 0:
		text += "  "
		if n := len(r.of.Passes); n > 1 {
			text += wording.Plural(n, "measurement") + " of "
		}
		if configs := start.ConfigsAt(r.Sizes); len(configs) > 1 {
			text += wording.Plural(len(configs), "configuration") + ", "
		} else if len(configs) == 1 {
			text += configs[0].String() + ", "
		}
		text += fmt.Sprintf("%s at %s", wording.Plural(len(r.Sizes), "size"),
			cli.SizeRange(r.Sizes[0], r.Sizes[len(r.Sizes)-1]))
		if len(r.instead) > 0 {
			text += "; not available: " + r.replaced()
		}
	default:
		text += fmt.Sprintf("  %s: %s", strings.ToUpper(string(r.Outcome)), r.Reason)
		if c := r.reach(); c.died && r.refused == "" && c.at == fit.ByDefault {
			text += "; it broke off at the default"
		} else if c.died && r.refused == "" {
			text += "; it broke off at " + c.at.String()
		}
	}
	if left = s.bounded(left); left > time.Minute {
		text += fmt.Sprintf("; about %s left", cli.Roughly(left))
	}
	return text
}

// step is how many passes were run, of about how many, and how long the rest may take. passes are those of the run that
// is going on.
func (s *Sweep) step(r *Run, passes int) cli.Step {
	for _, before := range s.journal.runs {
		if before != r {
			passes += len(before.of.Passes)
		}
	}
	starts, left := s.ahead()
	return cli.Step{Done: passes, Of: passes + max(s.passesOf(starts), 1), Unit: "passes", About: true,
		Left: s.bounded(left), Now: r.of.Name}
}

// row is a line of nccl-tests' table.
var row = regexp.MustCompile(`(?m)^\s+[0-9]+\s+[0-9]+\s+[a-z0-9]+\s.*[0-9]`)

// passesIn counts the passes that a run's log has so far.
func (s *Sweep) passesIn(r *Run) int {
	text, err := os.ReadFile(filepath.Join(s.Dir, r.Log))
	if err != nil {
		return 0
	}
	return len(row.FindAllIndex(text, -1)) / max(1, len(r.Sizes))
}

// conclude says what was found out about a subject.
func (s *Sweep) conclude(key fit.Key) {
	group, space, err := s.known(key)
	name := key.String()
	s.concluded[key] = true
	if slices.ContainsFunc(s.runs(key), func(r *Run) bool { return r.direct }) {
		s.Say("%s: RCCL's direct access (DDA) may have run what was measured: it asks no tuner, and NCCL_ALGO does "+
			"not count (RCCL_DDA_ENABLE=0, for the sweep and for jobs, lets a policy decide; measure which is faster)",
			name)
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
	if group == nil || len(group.Points) == 0 {
		return
	}
	if line := s.changedByLoading(key, group); line != "" {
		s.Say("%s: %s", name, line)
	}
	s.Say("%s: %d of %s measured, each at the sizes where it may be the fastest",
		name, len(group.Configs()), wording.Plural(space.Count(), "configuration"))
	var unsteady []string
	for _, u := range slices.DeleteFunc(group.Unproven(), func(u fit.Unproven) bool { return !u.Seems() }) {
		unsteady = append(unsteady, fmt.Sprintf("%s (%s gains %.1f %%, run-to-run variation %.1f %%)",
			nccl.FormatBytes(u.Bytes), u.Config, 100*u.Gain, 100*u.Moved))
	}
	if len(unsteady) > 0 {
		s.Say("%s: left to NCCL, as the gain does not exceed the run-to-run variation: %s",
			name, cli.Few(unsteady, mostUnsteady, "; "))
	}
}

// changedByLoading says where the default takes another time with the library loaded, by 3 % or more and by more than
// times vary; "" where it does not.
func (s *Sweep) changedByLoading(key fit.Key, group *fit.Group) string {
	var changed []string
	for _, d := range group.Default {
		var us []float64
		for _, r := range s.runs(key) {
			for _, m := range r.loaded {
				if m.Bytes == d.Bytes {
					us = append(us, m.Micros)
				}
			}
		}
		if len(us) == 0 {
			continue
		}
		if ratio := stats.Median(us) / d.Micros; math.Abs(math.Log(ratio)) > max(0.03, 4*group.Noise) {
			changed = append(changed, fmt.Sprintf("%s (%.2f times as long)", nccl.FormatBytes(d.Bytes), ratio))
		}
	}
	if len(changed) == 0 {
		return ""
	}
	return "loading the library, or any tuner, changes RCCL's default at " + cli.Few(changed, mostUnsteady, ", ") +
		" (gains are counted against RCCL without a tuner; a row that asks for what RCCL chose brings it back)"
}

// mostUnsteady bounds what is said of sizes at which times moved.
const mostUnsteady = 6

// Summary says what the sweep took.
func (s *Sweep) Summary() string {
	hours := 0.0 // of GPUs
	for _, r := range s.journal.runs {
		hours += r.Seconds / 3600 * float64(r.of.Key.Ranks)
	}
	return fmt.Sprintf("%s, %s, %.1f GPU hours", wording.Plural(len(s.journal.runs), "start"),
		cli.Roughly(s.spent()), hours)
}

// spent is the time so far.
func (s *Sweep) spent() time.Duration { return s.earlier + time.Since(s.begun) }

// typicalPasses is how many passes a start has, in the mean of a sweep.
const typicalPasses = 12

// costOf estimates what a start of a subject takes, by its runs, else by all runs; isKnown: some have told.
func (s *Sweep) costOf(key fit.Key) (start time.Duration, isKnown bool) {
	for _, runs := range [][]*Run{s.runs(key), s.journal.runs} {
		n, seconds := 0, 0.0
		for _, r := range runs {
			if r.Outcome == Measured {
				n, seconds = n+1, seconds+r.Seconds
			}
		}
		if n > 0 {
			return time.Duration(seconds / float64(n) * float64(time.Second)), true
		}
	}
	return assumedStart + time.Duration(key.Ranks)*assumedRank + time.Duration(s.passesOf(1))*s.assumedPass(), false
}

// passesOf estimates the passes of some starts.
func (s *Sweep) passesOf(starts int) int {
	if s.Single != "" {
		return starts
	}
	return starts * typicalPasses
}

// assumedPass is what a pass is taken to cost before any has told.
func (s *Sweep) assumedPass() (sum time.Duration) {
	for _, b := range s.Sizes {
		sum += 2 * assumedIteration * (assumedLatency + time.Duration(float64(b)/assumedBytes*float64(time.Second)))
	}
	return sum
}

// affords reports whether the budget reaches for one more start, by what starts have taken. The first begins in any
// case, and ends with the budget.
func (s *Sweep) affords(key fit.Key) bool {
	start, isKnown := s.costOf(key)
	return s.Budget <= 0 || !isKnown || s.spent()+start <= s.Budget
}

// expected estimates how many starts a subject takes, and how many of them verify.
func (s *Sweep) expected(key fit.Key) (starts, verify int) {
	configs, plans := fit.Contenders, 4 // the first, two rounds and the verification
	verify = s.Repetitions
	if len(s.before(key)) > 0 {
		configs, plans, verify = fit.Carried, 1, max(verify, fit.CarriedStarts)
	}
	each := 1
	switch {
	case s.Single != "":
		space, _ := s.Choices.Space(key, nil, s.release(key))
		space.LeaveOut(func(f nccl.Cell) bool { return s.notOffered[key][f] })
		verify *= configs + 2
		return verify + (plans-1)*(2+len(space.Families)), verify
	case nccl.IsRCCL(s.release(key)): // its default has starts of its own, before and after
		each = 3
	}
	return each * (plans - 1 + verify), each * verify
}

// reserved reports whether the rest of the budget is kept for the verification: the time that it takes, but at most
// half of the subject's time. Before anything was measured there is nothing to verify, so nothing is kept.
func (s *Sweep) reserved(key fit.Key) bool {
	left, took := s.Budget-s.spent(), 0.0
	for _, r := range s.runs(key) {
		took += r.Seconds
	}
	start, _ := s.costOf(key)
	_, verify := s.expected(key)
	return s.Budget > 0 && s.setting == "" && left < time.Duration(verify+1)*start && left.Seconds() < took
}

// ahead estimates how many starts are left, with the proof, and how long they take.
func (s *Sweep) ahead() (starts int, left time.Duration) {
	add := func(key fit.Key, n int) {
		start, _ := s.costOf(key)
		starts, left = starts+n, left+time.Duration(n)*start
	}
	last := &Batch{}
	if n := len(s.journal.batches); n > 0 {
		last = s.journal.batches[n-1]
	}
	begun := map[fit.Key]int{} // starts of the last batch that have not run
	for i := range last.Starts {
		if start := &last.Starts[i]; len(s.journal.runsOf(start)) == 0 {
			begun[start.Key]++
		}
	}
	for _, key := range s.Keys {
		all, verify := s.expected(key)
		switch {
		case last.Kind == Prove:
			add(key, begun[key])
			continue
		case s.concluded[key]:
		case last.Kind == Verify && last.Starts[0].Key == key:
			add(key, begun[key])
		default:
			add(key, max(all-len(s.runs(key)), verify))
		}
		if s.Proof > 0 {
			add(key, len(s.proofBatch(0, []fit.Key{key}, s.Proof, "").Starts))
		}
		if !s.compared {
			tried := 0
			for _, setting := range s.Settings {
				tried += len(s.under(setting).runs(key))
			}
			add(key, max(0, s.ofSettings()-tried))
		}
	}
	return starts, left
}

// bounded is a time that is left, within the budget.
func (s *Sweep) bounded(left time.Duration) time.Duration {
	if s.Budget > 0 {
		return min(left, s.Budget-s.spent())
	}
	return left
}

// ofSettings estimates the starts that settings take on a subject.
func (s *Sweep) ofSettings() int {
	if len(s.Settings) == 0 {
		return 0
	}
	return len(s.Settings) + 2 + 3*max(fit.MeetingStarts, s.Repetitions)
}

// unfinished says what the budget did not reach.
func (s *Sweep) unfinished() string {
	var missing []string
	for _, key := range s.Keys {
		if s.cutShort[key] || !s.concluded[key] {
			missing = append(missing, key.String())
		}
	}
	if len(s.Settings) > 0 && !s.compared {
		missing = append(missing, "the comparison of settings")
	}
	text := fmt.Sprintf("the budget of %v is spent", s.Budget)
	if len(missing) > 0 {
		text += "; not measured to the end: " + cli.Few(missing, 8, ", ")
	}
	text += " (to continue: the same command with a larger --budget"
	if _, left := s.ahead(); left > 0 {
		text += fmt.Sprintf(", by about %s", cli.Roughly(left))
	}
	return text + ")"
}
