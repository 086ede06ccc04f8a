// Package termsafe escapes text from files, file names and other people's records, so that it can neither steer the
// terminal of a reader nor forge a line.
package termsafe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text escapes what is not printable, as JSON does. It keeps line ends and tabs.
func Text(s string) string { return escaped(s, true) }

// Line is Text for a single line: it escapes line ends and tabs, too.
func Line(s string) string { return escaped(s, false) }

func escaped(s string, lines bool) string {
	var b strings.Builder
	done := 0 // bytes of s that are in b
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1: // not UTF-8
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t' || r == '\r' && strings.HasPrefix(s[i:], "\r\n")):
			continue
		}
		b.WriteString(s[done:i])
		done = i + size
		switch high, low := utf16.EncodeRune(r); {
		case size == 1 && r == utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if done == 0 {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}
