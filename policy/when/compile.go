package when

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

const (
	maxBytes = 1000 // expr's parser is recursive: brackets without end would overflow the stack
	// maxNodes bounds the syntax tree. The parser puts x into the tree twice for 0 < x < 9, so that the program
	// doubles with each such comparison inside another one.
	maxNodes = 100
)

// constants are numbers of bytes. Like all names they are known in any case.
var constants = map[string]float64{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

// functions are those of expr that a condition may call.
var functions = []string{"abs", "ceil", "floor", "max", "min", "round"}

// vocabulary lists all names and functions.
var vocabulary = slices.Concat(slices.Sorted(maps.Keys(allNames)), slices.Sorted(maps.Keys(constants)), functions)

// language is what expr needs to know. In it a division by zero is an error, and % takes fractions.
var language = func() []expr.Option {
	options := []expr.Option{
		expr.Env(map[string]any(allNames)), expr.AsBool(), expr.WarnOnAny(), expr.MaxNodes(maxNodes),
		expr.DisableAllBuiltins(),
	}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	for operator, calculate := range map[string]func(a, b float64) float64{
		"/": func(a, b float64) float64 { return a / b }, "%": math.Mod,
	} {
		divide := func(x ...any) (any, error) {
			if x[1].(float64) == 0 {
				return nil, errors.New("division by zero")
			}
			return calculate(x[0].(float64), x[1].(float64)), nil
		}
		options = append(options, expr.Operator(operator, operator), expr.Function(operator, divide, calculate))
	}
	return options
}()

// Compile returns the condition of a text, or an error with a caret under the place.
func Compile(text string) (*Condition, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("when: the condition has %d bytes (allowed: %d)", len(text), maxBytes)
	}
	p := patch{c: &Condition{text: text, limits: limits{}}}
	program, err := expr.Compile(text, append(slices.Clone(language), expr.Patch(&p))...)
	if p.err != nil { // expr's own error follows from it
		err = p.err.Bind(file.NewSource(text))
	}
	if err != nil {
		var at *file.Error
		if errors.As(err, &at) && strings.HasPrefix(at.Message, "bad number syntax") {
			at.Message += " (allowed: 4096, 1.5, 64*KiB, 1*MiB, 2*GiB)"
		}
		return nil, fmt.Errorf("when: %w", err)
	}
	p.c.program = program
	root := program.Node()
	ast.Walk(&root, p.c.limits)
	return p.c, nil
}

// patch turns a parsed condition into what expr compiles: names and texts become as Env has them,
// and whole numbers float64. It notes what the condition depends on. It can visit parts of the tree twice.
type patch struct {
	c   *Condition
	err *file.Error // the first
}

func (p *patch) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IntegerNode:
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	case *ast.IdentifierNode:
		p.name(node, n.Value)
	case *ast.MemberNode:
		property, ok := n.Property.(*ast.StringNode)
		if ok && n.Node.String() == "topo" {
			p.name(node, topoPrefix+property.Value)
		}
	case *ast.BuiltinNode: // expr's DisableAllBuiltins leaves those with loops, as filter
		if !slices.Contains(functions, n.Name) {
			p.unknown(n, n.Name)
		}
	case *ast.BinaryNode:
		p.binary(node, n)
	}
}

func (p *patch) name(node *ast.Node, spelled string) {
	name := strings.ToLower(spelled)
	if value, ok := constants[name]; ok {
		ast.Patch(node, &ast.FloatNode{Value: value})
		return
	}
	ast.Patch(node, &ast.IdentifierNode{Value: name})
	if _, ok := allNames[name]; !ok {
		if name != "topo" { // more follows, or expr finds it unknown
			p.unknown(*node, spelled)
		}
		return
	}
	c := p.c
	if !slices.Contains(c.Names, name) {
		c.Names = append(c.Names, name)
	}
	_, constant := ofComm[name]
	c.PerCall = c.PerCall || !constant
}

// binary corrects the texts that a name is compared with, and turns "x in 8..16" into two comparisons, since expr
// would build a list of whole numbers.
func (p *patch) binary(node *ast.Node, n *ast.BinaryNode) {
	if isNCCL(n.Left) || isNCCL(n.Right) {
		if release, ok := n.Right.(*ast.StringNode); ok {
			p.release(node, n, release)
		} else {
			p.fail(n, "nccl is compared with one release, in quotes and on the right (as nccl >= '2.31')")
		}
		return
	}
	switch n.Operator {
	case "==", "!=":
		p.text(n.Right, n.Left)
		p.text(n.Left, n.Right)
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			p.text(n.Left, list.Nodes...)
		}
		if span, ok := n.Right.(*ast.BinaryNode); ok && span.Operator == ".." {
			between(node, n, span.Left, span.Right)
		}
	}
}

func isNCCL(n ast.Node) bool {
	name, ok := n.(*ast.IdentifierNode)
	return ok && name.Value == string(NCCL)
}

// between turns a comparison into x >= from and x <= to.
func between(node *ast.Node, n *ast.BinaryNode, from, to ast.Node) {
	low := &ast.BinaryNode{Operator: ">=", Left: n.Left, Right: from}
	high := &ast.BinaryNode{Operator: "<=", Left: n.Left, Right: to}
	low.SetLocation(n.Location())
	high.SetLocation(n.Location())
	ast.Patch(node, &ast.BinaryNode{Operator: "and", Left: low, Right: high})
}

// release turns nccl >= "2.31" and the like into comparisons with texts as Env has them.
func (p *patch) release(node *ast.Node, n *ast.BinaryNode, text *ast.StringNode) {
	operator := n.Operator
	if operator == "in" || operator == "!=" {
		operator = ""
	}
	r, err := nccl.ParseReleases(strings.TrimSpace(operator + " " + text.Value))
	if err != nil {
		p.fail(text, "%s", err)
		return
	}
	between(node, n, &ast.StringNode{Value: releaseText(r.Min)}, &ast.StringNode{Value: releaseText(r.Max)})
	if n.Operator == "!=" {
		ast.Patch(node, &ast.UnaryNode{Operator: "not", Node: *node})
	}
}

// text gives the texts that a name is compared with the spelling that Env has.
func (p *patch) text(name ast.Node, with ...ast.Node) {
	of, ok := name.(*ast.IdentifierNode)
	if !ok || texts[of.Value] == nil {
		return
	}
	spellings := texts[of.Value]
	for _, n := range with {
		got, ok := n.(*ast.StringNode)
		if !ok {
			continue
		}
		text, ok := spellings[strings.ToLower(got.Value)]
		if !ok {
			p.fail(got, "%s is never %s (%sallowed: %s)", of.Value, suggest.Quote(got.Value),
				suggest.DidYouMean(got.Value, slices.Sorted(maps.Keys(spellings))),
				strings.Join(slices.Compact(slices.Sorted(maps.Values(spellings))), ", "))
		}
		got.Value = text
	}
}

func (p *patch) unknown(node ast.Node, name string) {
	p.fail(node, "unknown name %s (%sallowed: %s)", suggest.Quote(name), suggest.DidYouMean(name, vocabulary),
		strings.Join(vocabulary, ", "))
}

func (p *patch) fail(node ast.Node, format string, args ...any) {
	if p.err == nil {
		p.err = &file.Error{Location: node.Location(), Message: fmt.Sprintf(format, args...)}
	}
}
