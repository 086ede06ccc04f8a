package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// judge says how a run ended. It returns an error if the set-up is to blame: every other run would end like that.
func (s *Sweep) judge(ctx context.Context, r *Run, text []byte, ended error) error {
	found, code := r.found, s.Launcher.ExitCode(ended, text)
	if ctx.Err() != nil && ended == context.Cause(ctx) {
		r.Outcome, r.Reason = Stopped, ended.Error()
		return nil
	}
	if problem := outside(ended, text); problem != "" {
		r.Outcome, r.Reason = Stopped, problem
		return fmt.Errorf("%s (see %s; it counts for nothing, and what was measured is kept)", problem,
			filepath.Join(s.Dir, r.Log))
	}
	if problem, mend := s.setUp(r, code, text); problem != "" {
		r.Outcome, r.Reason = Stopped, problem
		return fmt.Errorf("%s (see %s; %s)", problem, filepath.Join(s.Dir, r.Log), mend)
	}
	switch {
	case r.refused != "":
		r.Outcome, r.Reason = Refused, r.refused
	case errors.Is(ended, errSilent):
		r.Outcome, r.Reason = Failed, fmt.Sprintf("it printed nothing for %v and was ended", s.Silence)
	case found != nil && found.Wrong() > 0:
		wrong := found.Wrong()
		r.Outcome = Refused
		r.Reason = fmt.Sprintf("it computed wrong results, %d of %s", wrong,
			wording.Plural(wrong+len(found.Samples), "time"))
	case found != nil && slices.ContainsFunc(found.Failed, func(m bench.Sample) bool { return m.Bytes == 0 }):
		r.Outcome, r.Reason = Refused, why(found)
	case code != 0 || found == nil || len(found.Samples) == 0 || found.Failure != "":
		r.Outcome, r.Reason = Failed, why(found)
		if r.Reason == "" {
			r.Reason = fmt.Sprintf("exit code %d: %s", code, lastLine(text))
		}
	default:
		r.Outcome = Measured
		if len(r.instead) > 0 && len(found.Samples) == 0 {
			r.Outcome, r.Reason = Refused, "something else ran in place of "+r.replaced()
		}
	}
	return nil
}

// fromOutside are words of launchers and systems for what no configuration does: Slurm's of a job (a step that is
// cancelled may have lost a rank), those of Open MPI and PRRTE of a node, and those of a disk.
var fromOutside = regexp.MustCompile(`(?m)^.*(?:\*\*\* JOB [0-9]+ ON .* CANCELLED|CANCELLED AT .* DUE TO |` +
	`error: Node failure on |lost communication with a remote daemon|No space left on device|Disk quota exceeded).*$`)

// outside says what ended a run from outside; empty: nothing that is known.
func outside(ended error, text []byte) string {
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		status, ok := exit.Sys().(syscall.WaitStatus)
		if ok && status.Signaled() && slices.Contains([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGINT,
			syscall.SIGHUP, syscall.SIGXCPU}, status.Signal()) {
			return fmt.Sprintf("the command was ended from outside, by signal %d (%[1]s)", status.Signal())
		}
	}
	if line := fromOutside.Find(text); line != nil {
		return "the run was ended from outside: " + wording.Line(string(bytes.TrimSpace(line)))
	}
	return ""
}

// The exit codes of a shell that cannot start a program.
const (
	notExecutable = 126
	notFound      = 127
)

// otherRelease is what our library says of rows that are not for this NCCL; empty: nothing.
func otherRelease(log []byte) string {
	for line := range bytes.Lines(log) {
		e, _ := record.ReadEvent(line)
		if n, is := e.(*record.NoEffect); is && n.Why == record.NoEffectRelease {
			return n.Is
		}
	}
	return ""
}

// alone is NCCL's log of a communicator of one rank, as of a process that MPI does not connect with others.
var alone = regexp.MustCompile(`\bnranks 1 cudaDev [^\n]*Init COMPLETE`)

// setUp says what a run shows to be wrong with the set-up, and what mends it; empty: nothing.
func (s *Sweep) setUp(r *Run, code int, text []byte) (problem, mend string) {
	found := r.found
	switch {
	case code == notExecutable || code == notFound:
		return "the program could not be started: " + lastLine(text),
			"--perf-dir names the folder of nccl-tests' programs, as all nodes see it"
	case found != nil && found.NotLoaded():
		return fmt.Sprintf("NCCL did not load the tuner library %s", s.Library),
			"NCCL says there why; --plugin names the library"
	case r.unlike != "":
		return r.unlike, "give the options and variables that it was begun with, or begin another sweep with -o"
	case (found == nil || len(found.Samples) == 0) && r.of.Key.Ranks > 1 && alone.Match(text):
		return "each process is alone: NCCL's communicators have 1 rank, and not " + strconv.Itoa(r.of.Key.Ranks),
			"nccl-tests has to be built with MPI=1, for the MPI of the launcher, and srun may need --launch-args " +
				"--mpi=pmix; --launch local starts one process for all GPUs of a node"
	case r.took.Nodes > 0:
		nodes := "one node"
		if r.took.Nodes > 1 {
			nodes = wording.Plural(r.took.Nodes, "node")
		}
		return fmt.Sprintf("NCCL takes these hosts for %s: --comm %s", nodes, r.took), "a policy for " +
			r.of.Key.Comm.String() + " would never match; docs/SWEEP.md says how to place the ranks"
	case r.kind == Prove && r.of.Tuned() && otherRelease(text) != "":
		return "the policy's rows have no effect: " + otherRelease(text),
			"a NCCL that is linked statically may not tell its release: link nccl-tests with libnccl.so"
	case found == nil || len(r.of.Passes) == 1 && r.of.Tuned():
		return "", ""
	case r.of.Tuned() && len(found.Samples) > 0 && !bytes.Contains(text, []byte(record.Prefix+"pass ")):
		return fmt.Sprintf("the tuner library does not know %s: it is of another release than tunefit (%s)",
				tuner.EnvPasses, cmp.Or(r.setup().Tuner, "it does not tell which")+", tunefit is "+tuner.Release),
			"--plugin names the library"
	}
	i := slices.IndexFunc(found.Samples, func(m bench.Sample) bool {
		return m.Selection != bench.SelectionDefault && r.of.Passes[max(0, m.Pass-1)].Policy == ""
	})
	if i < 0 {
		return "", ""
	}
	by := "variables"
	if setup := found.Samples[i].Setup; setup != nil && setup.Tuner != "" {
		by = "the tuner " + setup.Tuner
	}
	return "this run is to measure NCCL's default, and " + by + " decided",
		"NCCL says there which are set; look into /etc/nccl.conf and ~/.nccl.conf, too"
}

// why is what a log says of its failure, or why its rows do not count.
func why(found *bench.Result) string {
	switch {
	case found == nil:
	case found.Failure != "":
		return found.Failure
	case len(found.Rejected) > 0:
		return found.Rejected[0].Reason
	}
	return ""
}

// lastLine is the last with words in it: mpirun frames what it says by lines of dashes.
func lastLine(text []byte) string {
	text = bytes.TrimRight(text, "- \t\r\n")
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// account is what the runs of a subject have come to.
type account struct {
	failed  map[nccl.Config]int  // how many runs died at it, at NoCell: at the default
	refused map[nccl.Config]bool // NCCL does not have it here, or it computed wrong results
	alone   map[nccl.Config]bool // it was tried by itself since it failed
	missing map[nccl.Cell]bool   // NCCL does not have these here, whatever their channels
}

// givenUp reports whether a configuration is not tried any more.
func (a *account) givenUp(c nccl.Config) bool {
	return a.refused[c] || a.missing[c.Cell] || a.failed[c] >= attempts
}

// suspect is a configuration that a run died at, and that is to be tried by itself.
func (a *account) suspect() (c nccl.Config, ok bool) {
	for _, c := range slices.SortedFunc(maps.Keys(a.failed), nccl.Config.Compare) {
		if !a.givenUp(c) && !a.alone[c] {
			return c, true
		}
	}
	return c, false
}

func (s *Sweep) account(key fit.Key) *account {
	a := &account{failed: map[nccl.Config]int{}, refused: map[nccl.Config]bool{}, alone: map[nccl.Config]bool{},
		missing: s.notOffered[key]}
	for _, r := range s.runs(key) {
		if r.kind == Prove || r.kind == Loaded || r.Outcome == Running {
			continue
		}
		came := r.reach()
		if c, is := r.of.Only(); is && a.failed[c] > 0 {
			a.alone[c] = true
		}
		for c := range r.instead {
			a.refused[c] = true
		}
		for _, c := range came.wrong {
			a.refused[c] = true
		}
		switch {
		case !came.died:
		case r.Outcome == Refused && came.at != fit.ByDefault:
			a.refused[came.at] = true
		case r.kind == Try && came.at == fit.ByDefault: // nothing runs under the setting
			a.failed[came.at] = attempts
		default:
			a.failed[came.at]++
		}
	}
	return a
}

// reach is how far a run came.
type reach struct {
	of    Outcome
	asked []fit.Request // what it came to, of a policy
	wrong []nccl.Config // what computed wrong results
	died  bool          // it broke off
	at    nccl.Config   // where: at the first place without a time
}

// reach is counted once for a run that has ended.
func (r *Run) reach() *reach {
	if r.counted == nil || r.counted.of != r.Outcome {
		r.counted = r.count()
	}
	return r.counted
}

func (r *Run) count() *reach {
	all := &reach{of: r.Outcome}
	// nccl-tests measures in place, too: a row that lacks that broke off, or was wrong.
	type place struct {
		pass  int
		bytes uint64
	}
	times, most, wrong := map[place]int{}, 1, false
	if r.found != nil {
		wrong = r.found.Wrong() > 0
		for i := range r.found.Samples {
			m := &r.found.Samples[i]
			at := place{max(0, m.Pass-1), m.Bytes}
			times[at]++
			most = max(most, times[at])
		}
	}
	var order []place
	ended := 0 // so many places come before the first that it did not come to
	for k := range r.of.Passes {
		for _, b := range r.Sizes {
			if order = append(order, place{k, b}); times[place{k, b}] == most {
				ended = len(order)
			}
		}
	}
	if r.Outcome == Measured || r.Outcome == Refused && wrong {
		ended = len(order)
	}
	for i, at := range order {
		c := r.of.Passes[at.pass].At(at.bytes)
		lacks := r.found != nil && slices.ContainsFunc(r.found.NotOffered,
			func(m bench.Sample) bool { return m.Cell == c.Cell })
		if i >= ended && (!lacks || r.Outcome == Refused) {
			all.died, all.at = r.Outcome == Failed || r.Outcome == Refused, c
			break
		}
		if c != fit.ByDefault {
			all.asked = append(all.asked, fit.Request{Config: c, Bytes: at.bytes})
			if wrong && times[at] < most && !slices.Contains(all.wrong, c) {
				all.wrong = append(all.wrong, c)
			}
		}
	}
	return all
}

// givenUp returns the configurations of a subject that failed too often, computed wrong results, or were replaced by
// NCCL.
func (s *Sweep) givenUp(key fit.Key) []nccl.Config {
	a := s.account(key)
	for c := range a.failed {
		if c != fit.ByDefault && a.givenUp(c) {
			a.refused[c] = true
		}
	}
	return slices.SortedFunc(maps.Keys(a.refused), nccl.Config.Compare)
}

// whyNotMeasured is why the default of a subject cannot be measured; empty: it can. Without it no gain can be told.
func (s *Sweep) whyNotMeasured(key fit.Key) (reason string) {
	a := s.account(key)
	if !a.givenUp(fit.ByDefault) {
		return ""
	}
	for _, r := range s.runs(key) {
		if c := r.reach(); c.died && c.at == fit.ByDefault {
			reason = r.Reason
		}
	}
	return reason
}

// NotMeasured are the subjects that could not be measured.
func (s *Sweep) NotMeasured() (all []string) {
	for _, key := range s.Keys {
		if s.whyNotMeasured(key) != "" {
			all = append(all, key.String())
		}
	}
	return all
}

// trusted tells which measurements of a subject count. Those of configurations that were given up do not: what crashes,
// hangs or computes wrong results at one size must not be chosen at another. Nothing of a hopeless subject counts.
func (s *Sweep) trusted(key fit.Key) func(*bench.Sample) bool {
	if s.whyNotMeasured(key) != "" {
		return func(*bench.Sample) bool { return false }
	}
	given := s.givenUp(key)
	return func(m *bench.Sample) bool {
		return m.Selection == bench.SelectionDefault ||
			!slices.ContainsFunc(given, func(c nccl.Config) bool { return c.Admits(m.Config) })
	}
}
