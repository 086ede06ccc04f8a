package sweep

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, ctx context.Context, script string, silence time.Duration) (string, error) {
	t.Helper()
	output, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	p := process{argv: []string{"/bin/bash", "-c", script}, mark: "TUNEFIT_SWEEP=" + t.TempDir(), output: output,
		silence: silence, grace: time.Second}
	p.env = append(os.Environ(), p.mark)
	ended := p.run(ctx)
	text, err := os.ReadFile(output.Name())
	if err != nil {
		t.Fatal(err)
	}
	if left := marked(p.mark); len(left) > 0 {
		t.Errorf("processes %v are still there", left)
	}
	return string(text), ended
}

func TestProcessEnds(t *testing.T) {
	var exit *exec.ExitError
	for name, test := range map[string]struct {
		script string
		code   int
	}{
		"well":              {"echo out; echo err >&2", 0},
		"badly":             {"echo out; echo err >&2; exit 3", 3},
		"by a signal":       {"echo out; echo err >&2; kill -SEGV $$", -1},
		"with a child left": {"echo out; echo err >&2; sleep 1000 &", 0},
		"with a deaf daemon": {
			"echo out; echo err >&2; setsid bash -c 'trap \"\" TERM HUP; while :; do sleep 1000; done' &", 0},
		"with more output than pipes": {"echo out; echo err >&2; head -c 1000000 /dev/zero", 0},
	} {
		t.Run(name, func(t *testing.T) {
			text, ended := start(t, t.Context(), test.script, time.Hour)
			if test.code == 0 && ended != nil ||
				test.code != 0 && (!errors.As(ended, &exit) || exit.ExitCode() != test.code) {
				t.Errorf("it ended with %v", ended)
			}
			if !strings.HasPrefix(text, "out\nerr\n") {
				t.Errorf("it printed %q", text)
			}
		})
	}
}

// A tree that ignores what it is told is ended all the same, in what sessions it may be.
func TestProcessIsEnded(t *testing.T) {
	const deaf = "trap '' TERM INT HUP; echo begun; setsid bash -c \"trap '' TERM HUP; while :; do sleep 1000; " +
		"done\" & while :; do sleep 1000; done"
	t.Run("silent", func(t *testing.T) {
		if _, ended := start(t, t.Context(), "echo begun; sleep 1000", time.Second); !errors.Is(ended, errSilent) {
			t.Error(ended)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errBudget)
		if _, ended := start(t, ctx, deaf, time.Hour); !errors.Is(ended, errBudget) {
			t.Error(ended)
		}
	})
}

func TestProcessThatIsNotThere(t *testing.T) {
	p := process{argv: []string{filepath.Join(t.TempDir(), "all_reduce_perf")}, silence: time.Hour}
	if err := p.run(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A run ends with the budget, of which earlier runs have used their part.
func TestRunEndsWithTheBudget(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 1) // of 6 s
	o.Budget, o.Silence, o.Programs = 6*time.Second, time.Second, t.TempDir()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := s.journal.batches[0].Starts[0]
	if err := os.WriteFile(s.program(start.Key), []byte("#!/bin/sh\nsleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = s.run(t.Context(), 0, 0, start.Steps()[0])
	if last := s.journal.runs[1]; last.Outcome != Stopped || !errors.Is(err, errBudget) {
		t.Errorf("%s, %v", last.Outcome, err)
	}
}
