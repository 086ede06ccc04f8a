package tuner

import (
	"errors"
	"testing"
)

// What a file holds, or is called, neither steers a terminal nor makes a line of its own.
func TestLogEscapes(t *testing.T) {
	var r recorder
	r.log().Warnf("%s: %v", "p\x1b[2J\n.csv", errors.New("p.csv:1:1: unknown \x1b[31m\n  caret ^"))
	if want := `WARN TUNER/Go: p\u001b[2J\u000a.csv: p.csv:1:1: unknown \u001b[31m` + "\n  caret ^"; len(r.lines) != 1 || r.lines[0] != want {
		t.Errorf("%q, want %q", r.lines, want)
	}
}
