package wording

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes what is not printable, as \u001b: as JSON does, so that JSON keeps its meaning. It keeps line ends and
// tabs.
func Text(s string) string { return escaped(s, true) }

// Line is Text for a single line: it escapes line ends and tabs, too.
func Line(s string) string { return escaped(s, false) }

func escaped(s string, lines bool) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1: // not UTF-8
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t' || r == '\r' && strings.HasPrefix(s[i:], "\r\n")):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}
