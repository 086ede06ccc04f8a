package policytest

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// reader makes values of a YAML file's nodes and collects what is wrong, with its place. A node of kind 0 is a field
// that is left out.
type reader struct {
	file     string
	problems policy.Problems
}

func (r *reader) fail(at *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, policy.Problem{File: r.file, Line: at.Line, Column: at.Column,
		Text: fmt.Sprintf(format, args...)})
}

// maxProblems is how many problems of a file are printed.
const maxProblems = 20

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b policy.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if more := len(r.problems) - maxProblems; more > 0 {
		return fmt.Errorf("%w\nand %d more", r.problems[:maxProblems], more)
	}
	return r.problems
}

var (
	unknownField = regexp.MustCompile(`^field (.*) not found in type `)
	otherKind    = regexp.MustCompile(`^cannot construct (.*) into (\S+)$`)
)

// note takes the library's errors about what, which was to be read into a value; nil is none.
func (r *reader) note(err error, what string, to any) {
	var all *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case err == nil:
	case errors.As(err, &all):
		for _, e := range all.Errors {
			text := termsafe.Line(e.Message)
			if m := unknownField.FindStringSubmatch(text); m != nil {
				names := fieldNames(to)
				text = fmt.Sprintf("unknown field %q of %s (%sallowed: %s)", m[1], what,
					suggest.DidYouMean(m[1], names), strings.Join(names, ", "))
			} else if m := otherKind.FindStringSubmatch(text); m != nil {
				needed := "fields and their values"
				if m[2] == "string" {
					needed = "one value"
				}
				text = fmt.Sprintf("%s is %s (needed: %s)", what, m[1], needed)
			}
			r.fail(&yaml.Node{Line: max(e.Mark.Line, 1), Column: e.Mark.Column}, "%s",
				strings.TrimPrefix(text, "yaml: "))
		}
	case errors.As(err, &one):
		r.fail(&yaml.Node{Line: one.Mark.Line, Column: one.Mark.Column}, "not YAML: %s", one.Message)
	default:
		r.fail(&yaml.Node{Line: 1}, "not YAML: %v", err)
	}
}

// fields fills a struct of nodes from a mapping; what names it in messages.
func (r *reader) fields(n *yaml.Node, what string, to any) {
	if n.Kind != 0 {
		r.note(n.Load(to, yaml.WithKnownFields()), what, to)
	}
}

func fieldNames(of any) (names []string) {
	for f := range reflect.TypeOf(of).Elem().Fields() {
		names = append(names, cmp.Or(f.Tag.Get("yaml"), strings.ToLower(f.Name)))
	}
	slices.Sort(names)
	return names
}

// each calls read for each element of a list; one value stands for a list of one.
func each(n *yaml.Node, read func(*yaml.Node)) {
	var list []yaml.Node
	if n.Kind == 0 {
		return
	}
	if err := n.Load(&list); err != nil {
		list = []yaml.Node{*n}
	}
	for i := range list {
		read(&list[i])
	}
}

// value reads a scalar that parse understands; its zero value where it is left out.
func value[T any](r *reader, n *yaml.Node, what string, parse func(string) (T, error)) (v T) {
	if n.Kind == 0 {
		return v
	}
	var s string
	if err := n.Load(&s); err != nil {
		r.note(err, what, nil)
		return v
	}
	v, err := parse(s)
	if err != nil {
		r.fail(n, "%s: %v", what, err)
	}
	return v
}

// optional is value, nil where it is left out.
func optional[T any](r *reader, n *yaml.Node, what string, parse func(string) (T, error)) *T {
	if n.Kind == 0 {
		return nil
	}
	v := value(r, n, what, parse)
	return &v
}

func text(s string) (string, error) { return s, nil }

// number parses a number of a range.
func number(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		v, err := strconv.Atoi(s)
		if err != nil || v < least || v > most {
			return least, fmt.Errorf("%q (allowed: %d to %d)", s, least, most)
		}
		return v, nil
	}
}

// ownOr parses nccl, for NCCL's own, as 0.
func ownOr[T int | uint64](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		if s == "nccl" {
			return 0, nil
		}
		return parse(s)
	}
}
