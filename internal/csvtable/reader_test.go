package csvtable

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A row beyond the limits is refused by its line, however it is cut into reads; one within them is a row.
func TestLimits(t *testing.T) {
	wide := strings.Repeat(",", mostFields-1)
	for _, c := range []struct {
		name, text string
		line       int // refused; 0: not
	}{
		{"as many fields as allowed", "a\n" + wide + "\r\n" + wide + "\nb", 0},
		{"one field more", "a\n\n" + wide + ",\nb", 3},
		{"the last row", "a\n" + wide + ",", 2},
		{"commas in quotes", `"` + wide + `""` + wide + `",` + "\n" + `a,"` + wide + "\n" + wide + `",b`, 0},
		{"fields behind quotes", "a\n" + `"` + "\n" + `",` + wide, 2},
		{"quotes over many lines", "a\n" + strings.Repeat("\"\n\",", mostFields), 2},
		{"a comment", "# \"" + wide + wide + "\n" + wide, 0},
		{"a quote within a field", "a\"b\n" + wide + ",", 2},
		{"text behind a quote", `"a"b,"` + "\n" + wide + ",", 2},
		{"a long row", "a\n" + strings.Repeat("x", mostRow-1) + "\n" + strings.Repeat("x", mostRow+1), 3},
		{"a quote that is not closed", "a\n\"" + strings.Repeat("x,\n", mostRow), 2},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.text), iotest.HalfReader(strings.NewReader(c.text))} {
			r := NewReader(in)
			var refused *RowError
			var err error
			for err != io.EOF && refused == nil {
				var row []string
				row, err = r.Read()
				if !errors.As(err, &refused) && len(row) > mostFields {
					t.Errorf("%s: a row of %d fields", c.name, len(row))
				}
			}
			if refused == nil && c.line != 0 || refused != nil && refused.Line != c.line {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// FuzzFields: no row has more fields than allowed, whatever the quotes.
func FuzzFields(f *testing.F) {
	f.Add("a,\"b\n\",c\"d,\"\"\"\n#,,\r\n\"x\"y,\"")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, ",", strings.Repeat(",", mostFields/2))
		r := NewReader(strings.NewReader(text))
		for {
			row, err := r.Read()
			if len(row) > mostFields {
				t.Fatalf("a row of %d fields", len(row))
			}
			if err == io.EOF || errors.As(err, new(*RowError)) {
				return
			}
		}
	})
}
