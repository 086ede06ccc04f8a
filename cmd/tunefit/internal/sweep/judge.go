package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
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

// otherRelease is how our library says that the rows of a policy are not for this NCCL (policy.View.Idle).
var otherRelease = regexp.MustCompile(
	`TUNER/Go: (?:[^\n]*: )?([0-9]+ rows? (?:is|are) for (?:some|other) releases of NCCL, [^\n]*): without effect`)

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
	case r.took.Nodes > 0:
		nodes := "one node"
		if r.took.Nodes > 1 {
			nodes = wording.Plural(r.took.Nodes, "node")
		}
		return fmt.Sprintf("NCCL takes these hosts for %s: --comm %s", nodes, r.took), "a policy for " +
			r.of.Key.Comm.String() + " would never match; docs/SWEEP.md says how to place the ranks"
	case r.kind == Prove && r.of.Policy != "" && otherRelease.Match(text):
		return "the policy's rows have no effect: " + string(bytes.TrimSpace(otherRelease.FindSubmatch(text)[1])),
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
	return "this run is to measure NCCL's choice, and " + by + " decided",
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
