package csvtable

import (
	"errors"
	"io"
	"slices"
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
	names, wrong := Columns([]string{"rank", "Bytes", "bytes", " x"}, []string{"collective", "ranks", "bytes"},
		[]string{"collective", "ranks"}, func(field string) string {
			return map[string]string{"Bytes": "bytes", "bytes": "bytes"}[field]
		})
	want := []Wrong{{1, `unknown column "rank" (did you mean "ranks"; allowed: collective, ranks, bytes)`},
		{3, "column bytes is named twice"}, {4, `unknown column "x" (allowed: collective, ranks, bytes)`},
		{0, "no column collective (needed: collective, ranks)"}, {0, "no column ranks (needed: collective, ranks)"}}
	if !slices.Equal(wrong, want) || !slices.Equal(names, []string{"", "bytes", "", ""}) {
		t.Errorf("%q, %v", names, wrong)
	}
}
