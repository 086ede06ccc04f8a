package cli

import (
	"strings"
	"testing"
)

// What is worked on stays within the line, whatever its name.
func TestProgressOfForeignName(t *testing.T) {
	var out strings.Builder
	p := &Progress{line: &Line{&out}, what: "reading", total: 2}
	p.TurnTo("a\x1b[2J\nb")
	if want := "\r\x1b[K" + `reading   0 % a\u001b[2J\u000ab`; out.String() != want {
		t.Errorf("%q", out.String())
	}
}
