package when

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
)

const (
	maxBytes = 1000
	maxNodes = 200 // of the syntax tree
	// maxDepth bounds brackets within brackets. Each level can double the program, because the parser
	// puts x into the tree twice for 0 < x < 9.
	maxDepth = 8
)

// MaxConditions bounds what the conditions of one file cost: each takes some 70 us to compile, 3
// KB, and 0.1 us of every call that comes to it.
const MaxConditions = 10_000

var errConditions = fmt.Errorf("more than %d different conditions (allowed: %[1]d in a file; rows may share them, "+
	"and sizes, nodes and ranks have columns, which need none)", MaxConditions)

// allowed says what expr's errors leave open, by how they begin.
var allowed = map[string]string{
	"bad number syntax":                      "4096, 1.5, 64*KiB, 1*MiB, 2*GiB",
	"compilation failed: expression exceeds": fmt.Sprint(maxNodes, " names, numbers and operators"),
	"expected bool":                          "what is true or false, as bytes > 4*MiB",
	"unknown name topo":                      "topo.gpus and the like",
}

// Reader compiles the conditions of one file. Rows with equal texts share one. The zero value is
// ready.
type Reader struct {
	byText  map[string]*Condition
	tooMany bool // and that was said
}

// Read returns the condition of a text, or an error with a caret under the place.
func (r *Reader) Read(text string) (*Condition, error) {
	if c, ok := r.byText[text]; ok {
		return c, nil
	}
	if len(r.byText) == MaxConditions {
		if r.tooMany {
			return nil, nil
		}
		r.tooMany = true
		return nil, errConditions
	}
	c, err := compile(text)
	if err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	if r.byText == nil {
		r.byText = map[string]*Condition{}
	}
	r.byText[text] = c
	return c, nil
}

func compile(text string) (*Condition, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the condition has %d bytes (allowed: %d)", len(text), maxBytes)
	}
	if depth(text) > maxDepth {
		return nil, fmt.Errorf("the condition has more than %d brackets within each other", maxDepth)
	}
	p := patch{c: &Condition{text: text, limits: limits{}}}
	program, err := expr.Compile(text, append(language(), expr.Patch(&p))...)
	if p.err != nil { // expr's own is what comes of it
		return nil, p.err.Bind(file.NewSource(text))
	}
	if err != nil {
		return nil, describe(err, text)
	}
	p.c.program = program
	root := program.Node()
	ast.Walk(&root, p.c.limits)
	return p.c, nil
}

func depth(text string) (deepest int) {
	now := 0
	for _, r := range text {
		switch r {
		case '(', '[', '{':
			now++
		case ')', ']', '}':
			now--
		}
		deepest = max(deepest, now)
	}
	return deepest
}

// describe completes an error of expr's.
func describe(err error, text string) error {
	var at *file.Error
	if !errors.As(err, &at) {
		at = (&file.Error{Message: err.Error()}).Bind(file.NewSource(text))
	}
	for begin, what := range allowed {
		if strings.HasPrefix(at.Message, begin) {
			at.Message += " (allowed: " + what + ")"
		}
	}
	return at
}
