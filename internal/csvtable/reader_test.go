package csvtable

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A line that is too long is refused by its number, however it is cut into reads.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", mostLine)
	for _, c := range []struct {
		name, text string
		line       int // refused; 0: not
	}{
		{"as long as allowed", "a\n" + long + "\n" + long, 0},
		{"longer", "a\n" + long + "\n" + long + "x\n", 3},
		{"commas", "a\n\n" + strings.Repeat(",", mostLine+1), 3},
		{"a comment", "# " + long, 1},
		{"a quote that is not closed", "a\n\"" + long, 2},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.text), iotest.HalfReader(strings.NewReader(c.text))} {
			_, err := NewReader(in).ReadAll()
			var refused *RowError
			if errors.As(err, &refused) != (c.line > 0) || c.line > 0 && refused.Line != c.line {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// All mistakes of a header are reported at once, each with its place.
func TestHeader(t *testing.T) {
	_, err := Read("f.csv", "rank,Bytes,bytes, x\n", 2, []string{"collective", "ranks", "bytes"}, 2)
	want := `f.csv:3:1: unknown column "rank" (did you mean "ranks"; allowed: collective, ranks, bytes)
f.csv:3:12: column bytes is named twice
f.csv:3:19: unknown column "x" (allowed: collective, ranks, bytes)
f.csv:3:1: no column collective (needed: collective, ranks)
f.csv:3:1: no column ranks (needed: collective, ranks)`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}
