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

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// The values in a file of tests. The YAML library calls their UnmarshalText, and adds the place to their errors.
type (
	release  string    // of NCCL
	channels int       // 0: NCCL's own
	chunk    uint64    // 0: NCCL's own
	micros   float32   // a time
	cells    nccl.Cell // an algorithm or a protocol of -1 is any
	decider  string    // nccl, row or model
	sizes    struct {
		bytes   []uint64
		isRange bool // bytes are samples
	}
)

// oneOrMore is a list. A single value stands for a list of one.
type oneOrMore[T any] []T

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *oneOrMore[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Load((*[]T)(l))
	}
	*l = make([]T, 1)
	return n.Load(&(*l)[0])
}

func (r *release) UnmarshalText(text []byte) error {
	v, err := nccl.ParseVersion(string(text))
	*r = release(v.String())
	return err
}

func (c *channels) UnmarshalText(text []byte) error {
	if *c = 0; string(text) == "nccl" {
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > nccl.MaxChannels {
		return fmt.Errorf("channels: %s (allowed: nccl, 1 to %d)", wording.Quote(string(text)),
			nccl.MaxChannels)
	}
	*c = channels(n)
	return nil
}

func (c *chunk) UnmarshalText(text []byte) error {
	if *c = 0; string(text) == "nccl" {
		return nil
	}
	n, err := nccl.ParseBytes(string(text))
	*c = chunk(n)
	return err
}

func (m *micros) UnmarshalText(text []byte) error {
	us, err := strconv.ParseFloat(string(text), 32)
	if err != nil || !(us > 0) || us > 1e9 {
		return fmt.Errorf("%s is no time (allowed: microseconds above 0, up to 1e9)", wording.Quote(string(text)))
	}
	*m = micros(us)
	return nil
}

// UnmarshalText reads ALGORITHM or ALGORITHM/PROTOCOL, with any for either.
func (c *cells) UnmarshalText(text []byte) (err error) {
	algo, proto, both := strings.Cut(string(text), "/")
	*c = cells(nccl.NoCell)
	if algo != "any" {
		c.Algo, err = nccl.Algos.Parse(algo)
	}
	if err == nil && both && proto != "any" {
		c.Proto, err = nccl.Protos.Parse(proto)
	}
	return err
}

func (d *decider) UnmarshalText(text []byte) error {
	if *d = decider(text); *d != "nccl" && *d != "row" && *d != "model" {
		return fmt.Errorf("decided_by: %s (allowed: nccl, row, model)", wording.Quote(string(text)))
	}
	return nil
}

func (s *sizes) UnmarshalText(text []byte) (err error) {
	s.bytes, s.isRange, err = cli.ParseSizes(string(text))
	return err
}

// unknownField is what the YAML library says of one.
var unknownField = regexp.MustCompile(`^field (.*) not found in type (.*)$`)

// problems lists the YAML library's errors with their places. top is the value of a whole file.
func problems(file string, err error, top any) error {
	var all policy.Problems
	add := func(e *yaml.LoadError, text string) {
		all = append(all, policy.Problem{File: file, Line: max(e.Mark.Line, 1), Column: e.Mark.Column, Text: text})
	}
	var several *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &several):
		for _, e := range several.Errors {
			text := wording.Line(strings.TrimPrefix(e.Message, "yaml: "))
			if m := unknownField.FindStringSubmatch(text); m != nil {
				text = unknown(m[1], m[2], top)
			}
			add(e, text)
		}
	case errors.As(err, &one):
		add(one, "not YAML: "+one.Message)
	default:
		return fmt.Errorf("%s: not YAML: %w", file, err)
	}
	return all
}

// unknown says what a field may have been meant as. of is the name of the Go type that has no such field.
func unknown(field, of string, top any) string {
	at := reflect.TypeOf(top)
	switch of {
	case "policytest.test":
		at = reflect.TypeFor[policyCase]()
	case "policytest.expectation":
		at = reflect.TypeFor[expectation]()
	}
	var names []string
	for f := range at.Fields() {
		if f.IsExported() {
			names = append(names, cmp.Or(f.Tag.Get("yaml"), strings.ToLower(f.Name)))
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("unknown field %s (%sallowed: %s)", wording.Quote(field), wording.DidYouMean(field, names),
		strings.Join(names, ", "))
}
