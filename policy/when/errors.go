package when

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCaretLine is how many characters are shown of an expression.
const maxCaretLine = 100

// withCaret is an error about an expression, with a caret under its at-th character. Of several
// lines only that with the place is shown, of a long one only what is around it.
func withCaret(what, expression string, at int) error {
	text := []rune(expression)
	at = min(at, len(text))
	before, after := text[:at], text[at:]
	for i, r := range slices.Backward(before) {
		if r == '\n' {
			before = before[i+1:]
			break
		}
	}
	if i := slices.Index(after, '\n'); i >= 0 {
		after = after[:i]
	}
	if len(before)+len(after) > maxCaretLine {
		before = before[max(0, len(before)-maxCaretLine/2):]
		after = after[:min(len(after), maxCaretLine/2)]
	}
	line := strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, string(before)+string(after))
	return fmt.Errorf("when: %s\n    %s\n    %s^", what, line, strings.Repeat(" ", len(before)))
}

// placedError is an error at a place in a condition, in characters.
type placedError struct {
	at   int
	what string
}

func (e *placedError) Error() string { return e.what }

func errorAt(t tree, format string, args ...any) error {
	return &placedError{t.at(), fmt.Errorf(format, args...).Error()}
}

// located adds to an error the expression, with a caret under the place.
func located(text string, err error) error {
	var at *placedError
	if errors.As(err, &at) {
		return withCaret(at.what, text, at.at)
	}
	return withCaret(err.Error(), text, 0)
}
