package telemetry

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// recorder is a Log that keeps what it is told.
type recorder struct{ lines []string }

func (r *recorder) log() Log {
	return Log{Emit: func(level Level, file string, line int, text string) {
		if !strings.HasSuffix(file, ".go") || line == 0 {
			panic("no place in the source")
		}
		r.lines = append(r.lines, map[Level]string{Warn: "WARN ", Info: "INFO "}[level]+text)
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

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What a file holds, or is called, neither steers a terminal nor makes a line of its own.
func TestLogEscapes(t *testing.T) {
	var r recorder
	r.log().Warnf("%s: %v", "p\x1b[2J\n.csv", errors.New("p.csv:1:1: unknown \x1b[31m\n  caret ^"))
	if want := `WARN TUNER/Go: p\u001b[2J\u000a.csv: p.csv:1:1: unknown \u001b[31m` +
		"\n  caret ^"; len(r.lines) != 1 || r.lines[0] != want {
		t.Errorf("%q, want %q", r.lines, want)
	}
}
