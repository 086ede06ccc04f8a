package policy

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Condition is what a row's "when" says: an expression in expr-lang's syntax, of
// which only that part is allowed whose cost is bounded by the length of the
// text. It is immutable.
type Condition struct {
	id      int    // from 0, in one file
	text    string // as in the file
	normal  string // of the meaning: white space, spelling and constants do not change it
	program program

	perCall      bool // else it is the same for all calls of a communicator
	topology     bool // it mentions topo
	ranksPerNode bool // it mentions ranks_per_node
	limits       map[string][]uint64
	names        []string // that it mentions, each once
}

const (
	maxWhenBytes = 1000
	maxWhenNodes = 200 // of the syntax tree
)

// maxConditions bounds what the conditions of one file cost: each takes some 50 us to
// compile, 6 KB, and 0.1 us of every call that comes to it.
const maxConditions = 10_000

var errConditions = fmt.Errorf("more than %d different conditions (allowed: %d in a file; rows may share them, and sizes, nodes and ranks have columns, which need none)", maxConditions, maxConditions)

var tooLong = fmt.Sprintf("the condition is too long (allowed: %d names, numbers and operators)", maxWhenNodes)

// Limits returns the numbers that the condition compares a name with: where they
// are, what it says may change. Those that are computed, as in bytes > 1024*ranks, are
// not among them. A nil condition has none.
func (c *Condition) Limits(name string) []uint64 {
	if c == nil {
		return nil
	}
	return c.limits[name]
}

// whenReader compiles the conditions of one file. Equal ones become one.
type whenReader struct {
	language *whenLanguage
	byText   map[string]*Condition
	byNormal map[string]*Condition
	tooMany  bool // and that was said
}

func (w *whenReader) read(text string) (*Condition, error) {
	if c, ok := w.byText[text]; ok {
		return c, nil
	}
	if w.language == nil {
		w.language = newWhenLanguage()
		w.byText, w.byNormal = map[string]*Condition{}, map[string]*Condition{}
	}
	if len(w.byText) == maxConditions {
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
	if twin := w.byNormal[c.normal]; twin != nil {
		c = twin
	} else {
		c.id = len(w.byNormal)
		w.byNormal[c.normal] = c
	}
	w.byText[text] = c
	return c, nil
}

func (w *whenReader) compile(text string) (*Condition, error) {
	if len(text) > maxWhenBytes {
		return nil, fmt.Errorf("the condition has %d bytes (allowed: %d)", len(text), maxWhenBytes)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the condition is not UTF-8")
	}
	parsed, err := w.language.parse(text)
	if err != nil {
		return nil, err
	}
	r := rewriter{nodes: maxWhenNodes, c: &Condition{text: text, limits: map[string][]uint64{}}}
	rewritten, err := r.rewrite(parsed)
	if err != nil {
		return nil, err
	}
	if r.c.program, r.c.normal, err = w.language.compile(rewritten, r.choices); err != nil {
		return nil, err
	}
	return r.c, nil
}

// holds evaluates the condition. Nothing that goes wrong gets out but as an error.
func (m *machine) holds(c *Condition, env whenEnv) (bool, error) {
	holds, err := m.run(c.program, env)
	if err != nil {
		err = located(c.text, err)
	}
	return holds, err
}

// whenError is an error at a place in a condition, in characters.
type whenError struct {
	at   int
	what string
}

func (e *whenError) Error() string { return e.what }

func errorAt(t tree, format string, args ...any) error {
	return &whenError{t.at(), fmt.Errorf(format, args...).Error()}
}

// located adds to an error the expression, with a caret under the place.
func located(text string, err error) error {
	var at *whenError
	if errors.As(err, &at) {
		return withCaret(at.what, text, at.at)
	}
	return withCaret(err.Error(), text, 0)
}
