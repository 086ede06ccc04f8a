package policyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

func unset(string) string { return "" }

// only is an environment of one variable.
func only(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return ""
	}
}

func newLoader() *Loader { return NewLoader(unset, new(safefile.Timeouts), func(string, bool) {}) }

// named are the settings that name a policy file.
func named(file string) Settings {
	return Settings{Policy: Named{Variable: "NCCL_TUNER_CONFIG_FILE", Path: file}}
}

// rows is a policy.
func rows(channels int) string { return fmt.Sprintf("allreduce,0,inf,ring,ll128,%d,-1,-1\n", channels) }

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorder is a Log that keeps what it is told.
type recorder struct{ lines []string }

func (r *recorder) log() telemetry.Log {
	return telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) {
		r.lines = append(r.lines, text)
	}}
}

func (r *recorder) count(substring string) (n int) {
	for _, l := range r.lines {
		if strings.Contains(l, substring) {
			n++
		}
	}
	return n
}

// Communicators of one file version share one compiled policy.
func TestFileIsCompiledOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.csv")
	write(t, path, "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	l := newLoader()
	load := func() *file { return l.loadFile(fileKey{Named: named(path).Policy}, Settings{}) }
	first := load()
	compiled := first.policy
	if load() != first || first.policy != compiled {
		t.Error("read just now: compiled again")
	}
	old := time.Now().Add(-time.Hour)
	os.Chtimes(path, old, old)
	if load() != first {
		t.Error("touched: compiled again")
	}
}

// All problems are logged once; later communicators of the process say so in one line.
func TestProblemsAreLoggedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.csv")
	write(t, file, strings.Repeat("allreduce,0,inf,rign,simple,-1,-1,-1\n", maxWarned+5))
	var r recorder
	l := newLoader()
	for _, log := range []telemetry.Log{{}, r.log(), r.log(), r.log()} { // the first has nobody to tell
		if _, err := l.Load(named(file), log); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.count("unknown algorithm"); n != maxWarned {
		t.Errorf("%d problems logged", n)
	}
	if r.count("... and 5 more; tunefit show "+file+" prints them all") != 1 ||
		r.count("still has 105 problems, reported before") != 2 {
		t.Errorf("%q", r.lines)
	}
}

func TestTooLargeAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.csv")
	write(t, file, "")
	if err := os.Truncate(file, MaxFileBytes+1); err != nil {
		t.Skip(err)
	}
	if f := newLoader().loadFile(fileKey{Named: Named{Path: file}}, Settings{}); f.unread == nil || f.text != nil {
		t.Errorf("read: %v", f.unread)
	}
}
