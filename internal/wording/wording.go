// Package wording is what messages have in common: how they count, quote, escape, hide secrets, guess a name that
// was meant, and say what is wrong with JSON.
package wording

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plural returns "1 rank" or "8 ranks".
func Plural(n int, what string) string {
	return fmt.Sprintf("%d %s%s", n, what, Verb(n, "", "s"))
}

// Verb returns the word that agrees with a number.
func Verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

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

// HideSecrets returns a URL, or a list of URLs, without user names and passwords. It hides all text before the last @,
// because a password may hold any character.
func HideSecrets(text string) string {
	scheme, at := strings.Index(text, "://"), strings.LastIndex(text, "@")
	if scheme < 0 || at < scheme {
		return text
	}
	return text[:scheme] + "://***" + text[at:]
}

// longest is above all known names, in bytes. What is longer, as a file of another kind has it, is not compared.
const longest = 64

// Nearest returns the known name, in lower case, nearest to got, or "" when none is near.
func Nearest(got string, known []string) string {
	if len(got) > longest {
		return ""
	}
	got = strings.ToLower(got)
	best, distance := "", 2+len(got)/4 // a transposition is two edits
	for _, k := range known {
		if d := edits(got, k); d < distance {
			best, distance = k, d
		}
	}
	for i := range max(len(got)-1, 0) { // of a short word, no two edits are near
		swapped := got[:i] + got[i+1:i+2] + got[i:i+1] + got[i+2:]
		if best == "" && slices.Contains(known, swapped) {
			best = swapped
		}
	}
	return best
}

// edits counts the bytes to insert, drop or replace between two words. row has it for each beginning of b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range len(a) + 1 {
		diagonal := 0
		for j, above := range row {
			switch {
			case i == 0 || j == 0:
				row[j] = i + j
			case a[i-1] == b[j-1]:
				row[j] = diagonal
			default:
				row[j] = 1 + min(diagonal, above, row[j-1])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// DidYouMean returns `did you mean "x"; ` for the known name, in lower case, nearest to got, or "" when none is near.
func DidYouMean(got string, known []string) string {
	best := Nearest(got, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q; ", best)
}

// Quote shows a word in a message, cut where it would flood the log.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}

// embedded is the name of a Go type in the path to a field. Files do not have it.
var embedded = regexp.MustCompile(`\b[A-Z]\w*\.`)

// JSONErrorAt adds the file to an error of encoding/json, and line and column if the error has an offset.
func JSONErrorAt(name string, text []byte, err error) error {
	at := int64(-1)
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &mistyped):
		at = mistyped.Offset
	}
	err = JSONError(err)
	if at < 0 || at > int64(len(text)) {
		return fmt.Errorf("%s: %w", name, err)
	}
	before := text[:max(0, at-1)] // the offset includes the wrong byte
	line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%s:%d:%d: %w", name, line, column, err)
}

// JSONError says what an error of encoding/json says, without names of Go, and without much of the file: encoding/json
// quotes a wrong number or key as a whole. Of nil it makes nil.
func JSONError(err error) error {
	if err == nil {
		return nil
	}
	var mistyped *json.UnmarshalTypeError
	if !errors.As(err, &mistyped) {
		return errors.New(cut(strings.TrimPrefix(err.Error(), "json: "), 500))
	}
	needed := mistyped.Type.String()
	if mistyped.Type.Kind() == reflect.Struct {
		needed = "JSON object" // not the type's name in this project
	}
	err = fmt.Errorf("%s where a %s is needed", cut(mistyped.Value, 60), needed)
	if field := embedded.ReplaceAllString(mistyped.Field, ""); field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	return err
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
