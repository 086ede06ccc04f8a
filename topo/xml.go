package topo

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// Document is a topology file in memory. File is used in messages only.
type Document struct {
	File string
	Root *Element // <system>
}

// Element is one element of a topology file. The elements NCCL knows are system, cpu, pci, gpu, nvlink, c2c, pcilink,
// nic and net.
type Element struct {
	Name     string
	Attrs    []Attr // in file order
	Children []*Element
	Line     int // line of the opening tag, from 1; 0 when not read from a file
}

// Attr is one attribute. Value is the text between the quotes as it stands: NCCL knows no entities.
type Attr struct {
	Name, Value string
}

// NewElement returns an element with attributes given as name, value, name, value...
func NewElement(name string, nameValues ...string) *Element {
	return &Element{Name: name, Attrs: Attrs(nameValues...)}
}

// Attrs makes attributes of names and values in turn.
func Attrs(nameValues ...string) []Attr {
	attrs := make([]Attr, 0, len(nameValues)/2)
	for i := 0; i+1 < len(nameValues); i += 2 {
		attrs = append(attrs, Attr{nameValues[i], nameValues[i+1]})
	}
	return attrs
}

// Attr returns the value of an attribute and whether it is there. If a name is repeated the first one counts, as in
// NCCL.
func (e *Element) Attr(name string) (value string, ok bool) {
	for _, a := range e.Attrs {
		if a.Name == name {
			return a.Value, true
		}
	}
	return "", false
}

// Has reports whether the attribute is there, be it empty.
func (e *Element) Has(name string) bool {
	_, ok := e.Attr(name)
	return ok
}

// Set sets an attribute, at the end of the list if it is new.
func (e *Element) Set(name, value string) {
	for i := range e.Attrs {
		if e.Attrs[i].Name == name {
			e.Attrs[i].Value = value
			return
		}
	}
	e.Attrs = append(e.Attrs, Attr{name, value})
}

// Int returns an attribute read as C's strtol reads it (leading number, 0x and 0 prefixes; text without one is 0),
// and def when the attribute is missing.
func (e *Element) Int(name string, def int) int {
	if s, ok := e.Attr(name); ok {
		return int(int32(cnum.Int(s, 0)))
	}
	return def
}

// Add appends a child and returns it.
func (e *Element) Add(child *Element) *Element {
	e.Children = append(e.Children, child)
	return child
}

// Child returns the first child with this name, or nil.
func (e *Element) Child(name string) *Element {
	for _, c := range e.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Find returns, depth first, the first element below e (or e itself) with this name whose attribute has the value in
// upper or lower case, or nil.
func (e *Element) Find(name, attr, value string) *Element {
	for d := range e.All() {
		if d.Name != name {
			continue
		}
		if v, ok := d.Attr(attr); ok && strings.EqualFold(v, value) {
			return d
		}
	}
	return nil
}

// All yields e and everything below it, parents before children, in file order.
func (e *Element) All() func(yield func(*Element) bool) {
	return func(yield func(*Element) bool) { e.walk(yield) }
}

func (e *Element) walk(yield func(*Element) bool) bool {
	if !yield(e) {
		return false
	}
	for _, c := range e.Children {
		if !c.walk(yield) {
			return false
		}
	}
	return true
}

// Clone copies an element with all below it.
func (e *Element) Clone() *Element {
	c := *e
	c.Attrs = slices.Clone(e.Attrs)
	c.Children = make([]*Element, len(e.Children))
	for i, child := range e.Children {
		c.Children[i] = child.Clone()
	}
	return &c
}
