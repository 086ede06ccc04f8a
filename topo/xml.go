package topo

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
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

// Limits of a topology file. The lengths, the attribute count and MaxKnown are NCCL's own; the others are generous
// bounds that keep a hostile file from exhausting memory or stack.
const (
	MaxFileBytes = 16 << 20
	MaxElements  = 1 << 16
	MaxKnown     = 256 // elements that NCCL keeps (NCCL_TOPO_XML_MAX_NODES)
	MaxDepth     = 256
	MaxChildren  = 640
	MaxAttrs     = 16  // further attributes are read and ignored
	MaxText      = 254 // bytes of a name or value
)

const needed = "a topology in XML, as NCCL writes it for NCCL_TOPO_DUMP_FILE"

// SyntaxError says where and why a topology file could not be used.
type SyntaxError struct {
	File   string
	Line   int // from 1
	Column int // in bytes, from 1; 0 when only the line is known
	Msg    string
}

func (e *SyntaxError) Error() string {
	if e.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// ReadFile reads a topology from a regular file. Errors in it are *SyntaxError.
func ReadFile(path string) (*Document, error) {
	f, _, err := safefile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(path, f)
}

// Read reads the first <system> of a topology file; name is the file's name for messages.
//
// It refuses what NCCL's reader refuses (src/graph/xml.cc): tabs, line ends within a tag, a byte order mark,
// <?xml ...?> and more than 256 elements, because NCCL does not start with such a file. Like NCCL it passes over
// elements that are unknown or stand where they mean nothing, and over NCCL's own malformed ` =""`.
// Entities are not decoded.
func Read(name string, r io.Reader) (*Document, error) {
	src, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &xmlParser{file: name, src: src, line: 1}
	if len(src) > MaxFileBytes {
		return nil, p.errorf("file is larger than %d bytes", MaxFileBytes)
	}
	root, err := p.document()
	if err != nil {
		return nil, err
	}
	hosts := map[string]bool{}
	for _, cpu := range root.Children {
		hash, _ := cpu.Attr("host_hash")
		hosts[hash] = true
	}
	if p.beyond != nil && len(hosts) < 2 { // of several hosts NCCL has put it together itself
		return nil, p.beyond
	}
	return &Document{File: name, Root: root}, nil
}

// childrenOf lists the elements NCCL reads below each element. "" is the top of the file.
var childrenOf = map[string][]string{
	"":       {"system"},
	"system": {"cpu"},
	"cpu":    {"pci", "nic"},
	"pci":    {"pci", "gpu", "nic", "pcilink"},
	"gpu":    {"nvlink", "c2c"},
	"nic":    {"net"},
}

// A tag as NCCL reads it, without its end of line: one blank or more before an attribute, and values in quotes. A name
// alone has an empty value. The name may be missing, which is how NCCL writes a blank that it once read before />.
const (
	tagWord  = `[^ \t\r\n=<>/"']`
	tagName  = `[^ \t\r\n=<>/"'?]` + tagWord + `*`
	tagValue = `(?:=("[^"]*"|'[^']*'))?`
)

var (
	tagForm  = regexp.MustCompile(`^<(/?)(` + tagName + `)((?: ` + tagWord + `*` + tagValue + `)*)(/?)>`)
	attrForm = regexp.MustCompile(` (` + tagWord + `*)` + tagValue)
	// tagBegin is what can be read of a tag that has another form.
	tagBegin = regexp.MustCompile(`^(?:</?` + tagName + `(?: ` + tagWord + `*` + tagValue + `)*)?`)
)

type xmlParser struct {
	file      string
	src       []byte
	pos       int
	line      int // of pos
	lineStart int // offset of the first byte of line
	elements  int
	known     int   // of them, which NCCL keeps
	beyond    error // about the first that is too many; nil: there are not so many
}

func (p *xmlParser) errorf(format string, args ...any) error {
	return &SyntaxError{p.file, p.line, p.pos - p.lineStart + 1, fmt.Sprintf(format, args...)}
}

// noTag is the error for text that NCCL does not read, where that begins.
func (p *xmlParser) noTag() error {
	const most = 24
	p.advance(len(tagBegin.Find(p.src[p.pos:])))
	text := p.src[p.pos:]
	return p.errorf("NCCL does not read %q here (needed: %s: tags on one line each, blanks between attributes and no "+
		"tabs, values in quotes, no <?xml ...?>)", text[:min(most, len(text))], needed)
}

// openElement is one whose end has not come. What NCCL ignores is checked and not kept.
type openElement struct {
	*Element
	keep bool
}

// document reads all top-level elements, so that an error after the system is found too, and returns the first system.
func (p *xmlParser) document() (*Element, error) {
	top := &Element{}
	for open := []openElement{{top, true}}; ; {
		p.advance(len(p.src[p.pos:]) - len(bytes.TrimLeft(p.src[p.pos:], " \r\n")))
		parent, rest := open[len(open)-1], p.src[p.pos:]
		if len(rest) == 0 && len(open) == 1 {
			break
		} else if len(rest) == 0 {
			return nil, p.errorf("<%s> of line %d is not closed", parent.Name, parent.Line)
		}
		if comment, is := bytes.CutPrefix(rest, []byte("<!--")); is {
			n := bytes.Index(comment, []byte("-->"))
			if n < 0 {
				return nil, p.errorf("<!-- has no -->")
			}
			p.advance(len("<!--") + n + len("-->"))
			continue
		}
		m := tagForm.FindSubmatch(rest)
		if m == nil || len(m[1]) > 0 && len(m[3])+len(m[5]) > 0 {
			return nil, p.noTag()
		}
		switch name := string(m[2]); {
		case len(m[1]) == 0:
			e, keep, err := p.element(parent, name, m[3])
			if err != nil {
				return nil, err
			}
			if len(m[5]) == 0 {
				open = append(open, openElement{e, keep})
			}
			if len(open) > MaxDepth {
				return nil, p.errorf("elements are nested deeper than %d", MaxDepth)
			}
		case name != parent.Name:
			return nil, p.errorf("</%s> closes nothing (open: <%s> of line %d)", name, parent.Name, parent.Line)
		default:
			open = open[:len(open)-1]
		}
		p.advance(len(m[0]))
	}
	root := top.Child("system")
	if root == nil {
		return nil, p.errorf("no <system> element (needed: %s)", needed)
	}
	if v := root.Int("version", 0); v != 1 {
		return nil, &SyntaxError{p.file, root.Line, 0, fmt.Sprintf("system version is %d, want 1", v)}
	}
	return root, nil
}

// element makes an element of its tag, and appends it to parent if NCCL knows it there.
func (p *xmlParser) element(parent openElement, name string, attrs []byte) (e *Element, known bool, err error) {
	e = &Element{Name: name, Line: p.line}
	if p.elements++; p.elements > MaxElements {
		return nil, false, p.errorf("more than %d elements", MaxElements)
	}
	long := len(name) > MaxText
	for _, m := range attrForm.FindAllSubmatch(attrs, 2*MaxAttrs) {
		a := Attr{Name: string(m[1])}
		if len(m[2]) > 0 {
			a.Value = string(m[2][1 : len(m[2])-1])
		}
		long = long || max(len(a.Name), len(a.Value)) > MaxText
		if a.Name != "" && len(e.Attrs) < MaxAttrs {
			e.Attrs = append(e.Attrs, a)
		}
	}
	if long {
		return nil, false, p.errorf("a name or a value is longer than %d bytes", MaxText)
	}
	if known = parent.keep && slices.Contains(childrenOf[parent.Name], name); known {
		if len(parent.Children) == MaxChildren {
			return nil, false, p.errorf("<%s> of line %d has more than %d children", parent.Name, parent.Line,
				MaxChildren)
		}
		if p.known++; p.known == MaxKnown+1 {
			p.beyond = p.errorf("more than %d elements, which NCCL refuses", MaxKnown)
		}
		parent.Children = append(parent.Children, e)
	}
	return e, known, nil
}

// advance moves by n bytes that may hold line ends.
func (p *xmlParser) advance(n int) {
	passed := p.src[p.pos : p.pos+n]
	p.line += bytes.Count(passed, []byte{'\n'})
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		p.lineStart = p.pos + last + 1
	}
	p.pos += n
}

// Write writes the tree as NCCL writes a topology, two blanks per level. It refuses what a machine may have and NCCL's
// reader would not take: more than MaxChildren children, values longer than MaxText, and text it has no quotes for.
//
// NCCL reads at most 256 elements from NCCL_TOPO_FILE, although it may write more (several hosts); that is not checked.
func (d *Document) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := writeElement(out, d.Root, 0); err != nil {
		return err
	}
	return out.Flush()
}

func writeElement(w *bufio.Writer, e *Element, depth int) error {
	if err := checkWritable(e); err != nil {
		return err
	}
	indent := strings.Repeat("  ", depth)
	fmt.Fprintf(w, "%s<%s", indent, e.Name)
	for _, a := range e.Attrs {
		quote := `"`
		if strings.Contains(a.Value, quote) {
			quote = "'"
		}
		fmt.Fprintf(w, " %s=%s%s%s", a.Name, quote, a.Value, quote)
	}
	if len(e.Children) == 0 {
		fmt.Fprint(w, "/>\n")
		return nil
	}
	fmt.Fprint(w, ">\n")
	for _, c := range e.Children {
		if err := writeElement(w, c, depth+1); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s</%s>\n", indent, e.Name)
	return err
}

func checkWritable(e *Element) error {
	if len(e.Children) > MaxChildren {
		return fmt.Errorf("topology: <%s> has more than %d children", e.Name, MaxChildren)
	}
	for _, a := range e.Attrs {
		if len(a.Value) > MaxText {
			return fmt.Errorf("topology: value of %s of <%s> is longer than %d bytes", a.Name, e.Name, MaxText)
		}
		if strings.Contains(a.Value, `"`) && strings.Contains(a.Value, "'") {
			return fmt.Errorf("topology: value of %s of <%s> holds both kinds of quotes", a.Name, e.Name)
		}
	}
	return nil
}
