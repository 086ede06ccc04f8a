package wording

import "testing"

func TestEscape(t *testing.T) {
	for _, c := range []struct{ in, text, line string }{
		{"", "", ""},
		{"größer, 1 µs → 2", "größer, 1 µs → 2", "größer, 1 µs → 2"},
		{"a\x1b[2Jb", `a\u001b[2Jb`, `a\u001b[2Jb`},
		{"a\nb\tc\r\n", "a\nb\tc\r\n", `a\u000ab\u0009c\u000d\u000a`},
		{"a\rb", `a\u000db`, `a\u000db`}, // it would be written over
		{"\x7f\u009b", `\u007f\u009b`, `\u007f\u009b`},
		{"a\u202eb", `a\u202eb`, `a\u202eb`}, // right to left from here on
		{"\xff\xfea", `\xff\xfea`, `\xff\xfea`},
		{"\ufffd", "\ufffd", "\ufffd"},
		{"\U000e0001", `\udb40\udc01`, `\udb40\udc01`},
	} {
		if got := Text(c.in); got != c.text {
			t.Errorf("Text(%q) = %q, want %q", c.in, got, c.text)
		}
		if got := Line(c.in); got != c.line {
			t.Errorf("Line(%q) = %q, want %q", c.in, got, c.line)
		}
	}
}
