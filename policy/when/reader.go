package when

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	maxBytes = 1000
	maxNodes = 200 // of the syntax tree
)

// MaxConditions bounds what the conditions of one file cost: each takes some 50 us to compile, 6
// KB, and 0.1 us of every call that comes to it.
const MaxConditions = 10_000

var errConditions = fmt.Errorf("more than %d different conditions (allowed: %d in a file; rows may share them, and sizes, nodes and ranks have columns, which need none)", MaxConditions, MaxConditions)

var tooLong = fmt.Sprintf("the condition is too long (allowed: %d names, numbers and operators)", maxNodes)

// Reader compiles the conditions of one file. Equal ones become one. The zero value is ready.
type Reader struct {
	language *language
	byText   map[string]*Condition
	byNormal map[string]*Condition // by Meaning
	tooMany  bool                  // and that was said
}

// Read returns the condition of a text, or an error with a caret under the place.
func (w *Reader) Read(text string) (*Condition, error) {
	if c, ok := w.byText[text]; ok {
		return c, nil
	}
	if w.language == nil {
		w.language = newLanguage()
		w.byText, w.byNormal = map[string]*Condition{}, map[string]*Condition{}
	}
	if len(w.byText) == MaxConditions {
		if w.tooMany {
			return nil, nil
		}
		w.tooMany = true
		return nil, errConditions
	}
	c, err := w.compile(text)
	if err != nil {
		return nil, located(text, err)
	}
	if same := w.byNormal[c.Meaning]; same != nil {
		c = same
	}
	w.byNormal[c.Meaning], w.byText[text] = c, c
	return c, nil
}

func (w *Reader) compile(text string) (*Condition, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the condition has %d bytes (allowed: %d)", len(text), maxBytes)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the condition is not UTF-8")
	}
	parsed, err := w.language.parse(text)
	if err != nil {
		return nil, err
	}
	r := rewriter{nodes: maxNodes, c: &Condition{text: text, limits: map[string][]uint64{}}}
	rewritten, err := r.rewrite(parsed)
	if err != nil {
		return nil, err
	}
	if r.c.program, r.c.Meaning, err = w.language.compile(rewritten, r.choices); err != nil {
		return nil, err
	}
	return r.c, nil
}
