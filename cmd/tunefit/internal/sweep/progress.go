package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	text := fmt.Sprintf("%4d of ~%-3d %-17s %-24s %6.1f s", r.ID, r.ID+s.ahead().starts, start.Key.String(),
		what, r.Seconds)
	switch {
	case r.Outcome == Measured && len(r.Sizes) > 0:
		text += "  "
		if n := len(r.passes()); n > 1 {
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
		if c := r.cells(); c.died && r.refused == "" {
			text += "; it broke off at " + r.whatRan()
		}
	}
	if left := s.timeLeft(); left > time.Minute {
		text += fmt.Sprintf("; about %s left", cli.Roughly(left))
	}
	return text
}

// whatRan is the configuration at which a run broke off.
func (r *Run) whatRan() string {
	if c := r.cells().at; c != fit.ByDefault {
		return c.String()
	}
	return "the default"
}

// step is how many passes were run, of about how many, and how long the rest may take. passes are those of the run that
// is going on.
func (s *Sweep) step(r *Run, passes int) cli.Step {
	for _, before := range s.journal.runs {
		if before != r {
			passes += len(before.passes())
		}
	}
	left, done := s.ahead().passes, 0
	if r.Outcome == Running {
		done = min(passes, len(r.passes()))
	}
	return cli.Step{Done: passes, Of: passes + max(left-done, 1), Unit: "passes", About: true, Left: s.timeLeft(),
		Now: r.of.Name}
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
	if slices.ContainsFunc(s.of(key).runs, func(r *Run) bool { return r.direct }) {
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
	return fmt.Sprintf("%s, %s, %.1f GPU hours", wording.Plural(len(s.journal.runs), "start"),
		cli.Roughly(s.spent()), hours)
}

// spent is the time so far.
func (s *Sweep) spent() time.Duration { return s.earlier + time.Since(s.begun) }

// work is a number of starts, and of passes in all of them.
type work struct{ starts, passes int }

func (w work) plus(o work) work { return work{w.starts + o.starts, w.passes + o.passes} }

// costs estimates what a start and a pass of a subject take, by its runs, else by all runs; isKnown: some have told.
func (s *Sweep) costs(key fit.Key) (start, pass time.Duration, isKnown bool) {
	runs := s.of(key).runs
	if len(runs) == 0 {
		runs = s.journal.runs
	}
	ranks := time.Duration(key.Ranks) * assumedRank
	n, seconds, passes, inPasses := 0.0, 0.0, 0.0, 0.0
	for _, r := range runs {
		if r.Outcome != Measured || r.found == nil || len(r.found.Samples) == 0 {
			continue
		}
		calls := callsOf(setupOf(&r.found.Samples[0]).Options)
		for i := range r.found.Samples {
			inPasses += r.found.Samples[i].Micros * calls / 1e6
		}
		n, seconds, passes = n+1, seconds+r.Seconds, passes+float64(len(r.passes()))
	}
	if n == 0 {
		return assumedStart + ranks, s.assumedPass(), false
	}
	inPasses = min(inPasses, seconds)
	return time.Duration((seconds - inPasses) / n * float64(time.Second)),
		time.Duration(inPasses / passes * float64(time.Second)), true
}

// callsOf is how many calls nccl-tests makes for one time, by its options.
func callsOf(options string) float64 {
	calls, words := 0, strings.Fields(options)
	for i, word := range words {
		if i > 0 && (words[i-1] == "-n" || words[i-1] == "-w") {
			n, _ := strconv.Atoi(word)
			calls += n
		}
	}
	if calls == 0 {
		return assumedIteration
	}
	return float64(calls)
}

// assumedPass is what a pass is taken to cost before any has told.
func (s *Sweep) assumedPass() (sum time.Duration) {
	for _, b := range s.Sizes {
		sum += 2 * assumedIteration * (assumedLatency + time.Duration(float64(b)/assumedBytes*float64(time.Second)))
	}
	return sum
}

// costOf estimates what some starts take.
func (s *Sweep) costOf(key fit.Key, starts, passes int) time.Duration {
	start, pass, _ := s.costs(key)
	return time.Duration(starts)*start + time.Duration(passes)*pass
}

// affords reports whether the budget reaches for one more start, by what starts have taken. The first begins in any
// case, and ends with the budget.
func (s *Sweep) affords(key fit.Key) bool {
	start, pass, isKnown := s.costs(key)
	if !isKnown {
		start, pass = 0, 0
	}
	return s.Budget <= 0 || s.spent()+start+pass <= s.Budget
}

// ofVerification is the most that a subject's verification takes.
func (s *Sweep) ofVerification(key fit.Key) work {
	configs, starts := fit.Contenders, s.Repetitions
	if len(s.before(key)) > 0 {
		configs, starts = fit.Carried, max(starts, fit.CarriedStarts)
	}
	w := work{1, fit.Turns * (1 + configs)}
	switch {
	case s.Single != "":
		w = work{configs + 2, configs + 2}
	case nccl.IsRCCL(s.release(key)):
		w.starts = 3
	}
	return work{starts * w.starts, starts * w.passes}
}

// reserved reports whether the rest of the budget is kept for the verification: the time that it takes, but at most
// half of the subject's time. Before anything was measured there is nothing to verify, so nothing is kept.
func (s *Sweep) reserved(key fit.Key) bool {
	left, took := s.Budget-s.spent(), 0.0
	for _, r := range s.of(key).runs {
		took += r.Seconds
	}
	w := s.ofVerification(key)
	return s.Budget > 0 && s.setting == "" && left < s.costOf(key, w.starts+1, w.passes+1) && left.Seconds() < took
}

// timeLeft estimates how long the runs still take, within the budget.
func (s *Sweep) timeLeft() time.Duration {
	if s.Budget > 0 {
		return min(s.remainingTime(), s.Budget-s.spent())
	}
	return s.remainingTime()
}

// remainingTime estimates how long the runs that are left take.
func (s *Sweep) remainingTime() (sum time.Duration) {
	for u, key := range s.subjects() {
		w := u.aheadOf(key)
		sum += s.costOf(key, w.starts, w.passes)
	}
	return sum
}

// ahead estimates what is left to run, with the proof.
func (s *Sweep) ahead() (w work) {
	for u, key := range s.subjects() {
		w = w.plus(u.aheadOf(key))
	}
	return w
}

// aheadOf estimates what is left of a subject.
func (s *Sweep) aheadOf(key fit.Key) work {
	if s.setting != "" {
		return s.first(key)
	}
	proof := s.ofProof(key).plus(s.meetings(key))
	if n := len(s.journal.batches); n > 0 && s.journal.batches[n-1].Kind == Prove {
		return s.notBegun(s.journal.batches[n-1], key)
	}
	of, begun := s.of(key), work{}
	if n := len(of.batches); n > 0 {
		begun = s.notBegun(of.batches[n-1], key)
	}
	switch {
	case s.concluded[key]:
		return proof
	case len(of.batches) > 0 && of.batches[len(of.batches)-1].Kind == Verify:
		return proof.plus(begun)
	}
	left := s.expected(key)
	for _, r := range of.runs {
		left = left.plus(work{-1, -len(r.passes())})
	}
	least := begun.plus(s.ofVerification(key))
	return proof.plus(work{max(left.starts, least.starts), max(left.passes, least.passes)})
}

// notBegun counts the starts of a batch that have no run yet, of a subject.
func (s *Sweep) notBegun(b *Batch, key fit.Key) (w work) {
	for i := range b.Starts {
		if start := &b.Starts[i]; start.Key == key && len(s.journal.runsOf(start)) == 0 {
			w = w.plus(work{1, len(start.Passes)})
		}
	}
	return w
}

// expected estimates what a subject takes.
func (s *Sweep) expected(key fit.Key) work {
	verification := s.ofVerification(key)
	space, err := s.Choices.Space(key, nil, s.release(key))
	if err != nil || len(s.before(key)) > 0 {
		return verification
	}
	space.LeaveOut(func(f nccl.Cell) bool { return s.notOffered[key][f] })
	n := len(space.Families)
	switch {
	case s.Single != "":
		return verification.plus(work{1 + 2*n + 5, 1 + 2*n + 5})
	case nccl.IsRCCL(s.release(key)):
		verification.starts += 5
	}
	const rounds = 2
	return verification.plus(work{1 + rounds, 2 + 5*n/2 + rounds*(fit.Wide+4)})
}

// unfinished says what the budget did not reach.
func (s *Sweep) unfinished() string {
	var missing []string
	for _, key := range s.Keys {
		if s.cutShort[key] || !s.verified(key, nil) {
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
