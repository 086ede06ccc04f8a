package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// strictYAML reads a YAML file field by field and collects what is wrong, with its
// place: unknown fields, fields given twice, values of another kind.
type strictYAML struct {
	file     string
	problems policy.Problems
}

// fields says what reads each field of a mapping.
type fields map[string]func(*yaml.Node)

func (y *strictYAML) fail(at *yaml.Node, format string, args ...any) {
	y.problems = append(y.problems, policy.Problem{File: y.file, Line: at.Line, Column: at.Column, Text: fmt.Sprintf(format, args...)})
}

// maxYAMLProblems is how many problems of a file are printed.
const maxYAMLProblems = 20

func (y *strictYAML) err() error {
	if len(y.problems) == 0 {
		return nil
	}
	if more := len(y.problems) - maxYAMLProblems; more > 0 {
		return fmt.Errorf("%w\nand %d more", y.problems[:maxYAMLProblems], more)
	}
	return y.problems
}

// parse returns the one document of a file.
func (y *strictYAML) parse(text []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	err := d.Decode(&doc)
	if err == nil {
		if err = d.Decode(&next); err == nil {
			return nil, fmt.Errorf("%s:%d:%d: another document (allowed: one a file)", y.file, next.Line, next.Column)
		}
		if errors.Is(err, io.EOF) {
			return doc.Content[0], nil
		}
	}
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file is empty", y.file)
	}
	what, where := strings.TrimPrefix(err.Error(), "yaml: "), y.file
	var at *yaml.LoadError
	if errors.As(err, &at) && at.Mark.Line > 0 {
		what, where = at.Message, fmt.Sprintf("%s:%d:%d", y.file, at.Mark.Line, at.Mark.Column)
	}
	return nil, fmt.Errorf("%s: not YAML: %s", where, what)
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// mapping reads the fields of a mapping; what names it in messages.
func (y *strictYAML) mapping(n *yaml.Node, what string, known fields) {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		y.fail(n, "%s is %s (needed: fields and their values)", what, kindOf(n))
		return
	}
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		read := known[name.Value]
		switch {
		case read == nil:
			y.fail(name, "unknown field %q of %s (%sallowed: %s)", name.Value, what, suggest.DidYouMean(name.Value, names), strings.Join(names, ", "))
		case seen[name.Value]:
			y.fail(name, "field %s is given twice", name.Value)
		default:
			seen[name.Value] = true
			read(value)
		}
	}
}

// list calls read for each element of a list; one value stands for a list of one.
func (y *strictYAML) list(n *yaml.Node, read func(*yaml.Node)) {
	if n = resolved(n); n.Kind != yaml.SequenceNode {
		read(n)
		return
	}
	for _, element := range n.Content {
		read(element)
	}
}

// text reads a scalar as it is written.
func (y *strictYAML) text(n *yaml.Node, what string) (string, bool) {
	n = resolved(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		y.fail(n, "%s is %s (needed: one value)", what, kindOf(n))
		return "", false
	}
	return n.Value, true
}

func (y *strictYAML) number(n *yaml.Node, what string, least, most int) int {
	s, ok := y.text(n, what)
	if !ok {
		return least
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < least || v > most {
		y.fail(resolved(n), "%s is %q (allowed: %d to %d)", what, s, least, most)
		return least
	}
	return v
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Tag == "!!null":
		return "empty"
	}
	return strconv.Quote(n.Value)
}
