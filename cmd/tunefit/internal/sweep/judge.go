package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// judge says how a run ended. It returns an error if the set-up is to blame: every other run would end like that.
func (s *Sweep) judge(ctx context.Context, r *Run, text []byte, ended error) error {
	found, code := r.found, s.Launcher.ExitCode(ended, text)
	if ctx.Err() != nil && ended == context.Cause(ctx) {
		r.Outcome, r.Reason = Stopped, ended.Error()
		return nil
	}
	if problem, mend := s.setUp(r, code, text); problem != "" {
		r.Outcome, r.Reason = Stopped, problem
		return fmt.Errorf("%s (see %s; %s)", problem, filepath.Join(s.Dir, r.Log), mend)
	}
	switch {
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
		if other := disobeyed(r.of, found); other != "" {
			r.Outcome, r.Reason = Refused, other
		}
	}
	return nil
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
	case r.kind == Prove && r.of.Policy != "" && otherRelease(text) != "":
		return "the policy's rows have no effect: " + otherRelease(text),
			"a NCCL that is linked statically may not tell its release: link nccl-tests with libnccl.so"
	case found == nil || r.of.Policy != "":
		return "", ""
	}
	i := slices.IndexFunc(found.Samples, func(m bench.Sample) bool { return m.Selection != bench.SelectionDefault })
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

// disobeyed says where NCCL's log names another configuration than the start's.
func disobeyed(start *perfrun.Start, found *bench.Result) string {
	for _, m := range found.Samples {
		for _, row := range start.Rows {
			if row.Bytes.Contains(m.Bytes) && m.Cell.Known() && m.Cell != row.Cell {
				return fmt.Sprintf("%s was asked for, and at %s %s ran", row.Config,
					nccl.FormatBytes(m.Bytes), m.Cell)
			}
		}
	}
	return ""
}

// left returns those of some sizes of a start that no run has measured. It also says how often runs at these sizes
// alone failed, and whether NCCL refused one.
func (s *Sweep) left(start *perfrun.Start, of []uint64) (sizes []uint64, failed int, refused bool) {
	sizes = slices.Clone(of)
	for _, r := range s.journal.runsOf(start) {
		done := r.Sizes
		if r.Outcome != Measured {
			done = r.measured()
		}
		if r.Outcome == Failed && len(done) > 0 { // the last that it printed may be what failed
			last := slices.Max(done)
			done = slices.DeleteFunc(done, func(b uint64) bool { return b == last })
		}
		sizes = slices.DeleteFunc(sizes, func(b uint64) bool { return slices.Contains(done, b) })
		if slices.ContainsFunc(r.Sizes, func(b uint64) bool { return !slices.Contains(of, b) }) {
			continue
		}
		refused = refused || r.Outcome == Refused
		if r.Outcome == Failed {
			failed++
		}
	}
	return sizes, failed, refused
}

// measured returns the sizes that a run's log has times of.
func (r *Run) measured() (sizes []uint64) {
	if r.found != nil {
		for i := range r.found.Samples {
			sizes = append(sizes, r.found.Samples[i].Bytes)
		}
	}
	return sizes
}

// givenUp returns the configurations of a subject that failed too often, computed wrong results, or were replaced by
// NCCL. Where nothing tells which configuration of a run is to blame, all of the run are given up.
func (s *Sweep) givenUp(key fit.Key) (all []nccl.Config) {
	for _, b := range s.journal.of(key).batches {
		for i := range b.Starts {
			start := &b.Starts[i]
			_, failed, refused := s.left(start, start.Sizes)
			if len(start.Rows) == 0 || !refused && failed < attempts {
				continue
			}
			var alone, together []nccl.Config
			for _, part := range start.Split() {
				c := part.Rows[0].Config
				together = append(together, c)
				if _, failed, refused := s.left(start, part.Sizes); refused || failed > 0 ||
					s.computedWrong(start, part.Sizes) {
					alone = append(alone, c)
				}
			}
			if len(alone) == 0 && refused {
				alone = together
			}
			all = append(all, alone...)
		}
	}
	return all
}

// computedWrong reports whether a run of a start gave fewer times at one of some sizes than at others: the times of
// wrong results are left out.
func (s *Sweep) computedWrong(start *perfrun.Start, sizes []uint64) bool {
	for _, r := range s.journal.runsOf(start) {
		if r.found == nil || r.found.Wrong() == 0 {
			continue
		}
		times, most := map[uint64]int{}, 0
		for _, bytes := range r.measured() {
			times[bytes]++
			most = max(most, times[bytes])
		}
		if slices.ContainsFunc(sizes, func(b uint64) bool { return slices.Contains(r.Sizes, b) && times[b] < most }) {
			return true
		}
	}
	return false
}

// whyNotMeasured is why the default of a subject cannot be measured; empty: it can. Without it no gain can be told.
func (s *Sweep) whyNotMeasured(key fit.Key) (reason string) {
	of := s.journal.of(key)
	if len(of.batches) == 0 {
		return ""
	}
	first := &of.batches[0].Starts[0] // the default comes first
	runs := s.journal.runsOf(first)
	if left, failed, refused := s.left(first, first.Sizes); len(runs) > 0 && len(left) > 0 &&
		(refused || failed >= attempts) {
		reason = runs[len(runs)-1].Reason
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
