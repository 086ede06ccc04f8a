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
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

const (
	maxBytes = 1000 // expr's parser is recursive: brackets without end would overflow the stack
	// maxNodes bounds the syntax tree. The parser puts x into the tree twice for 0 < x < 9, so that the program
	// doubles with each such comparison inside another one.
	maxNodes = 100
)

// functions are those of expr that a condition may call.
var functions = []string{"abs", "ceil", "floor", "max", "min", "round"}

// vocabulary lists all names and functions.
var vocabulary = slices.Concat(slices.Sorted(maps.Keys(names)), []string{"KiB", "MiB", "GiB"}, functions)

// language is what expr needs to know. In it a division by zero is an error, and % takes fractions.
var language = func() []expr.Option {
	options := []expr.Option{
		expr.Env(map[string]any(names)), expr.AsBool(), expr.WarnOnAny(), expr.MaxNodes(maxNodes),
		expr.DisableAllBuiltins(),
	}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	for operator, calculate := range map[string]func(a, b float64) float64{
		"/": func(a, b float64) float64 { return a / b }, "%": math.Mod,
	} {
		divide := func(x ...any) (any, error) {
			if x[1] == 0.0 {
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
	p.c.program, p.c.PerCall = program, p.c.Misses(ofComm, "")
	root := program.Node()
	ast.Walk(&root, p.c.limits)
	return p.c, nil
}

// patch refuses names and texts that do not exist, notes which names there are, and replaces what expr does not know:
// KiB, topo.x (one name in Env), releases, and ranges of numbers that are not whole. All numbers become float64, since
// expr takes max(1, x) for whole where x is not. It can visit parts of the tree twice.
type patch struct {
	c   *Condition
	err *file.Error // the first
}

func (p *patch) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IntegerNode:
		ast.Patch(node, &ast.FloatNode{Value: float64(n.Value)})
	case *ast.IdentifierNode:
		if shift := slices.Index([]string{"KiB", "MiB", "GiB"}, n.Value); shift >= 0 {
			ast.Patch(node, &ast.FloatNode{Value: float64(int(1) << (10 * (shift + 1)))})
		} else if n.Value != "topo" { // a member follows, or expr finds it unknown
			p.name(n, n.Value)
		}
	case *ast.MemberNode:
		if n.Node.String() == "topo" {
			name := strings.ReplaceAll(n.String(), "?.", ".")
			ast.Patch(node, &ast.IdentifierNode{Value: name})
			p.name(*node, name)
		}
	case *ast.BuiltinNode: // expr's DisableAllBuiltins leaves those with loops, as filter
		if !slices.Contains(functions, n.Name) {
			p.unknown(n, n.Name)
		}
	case *ast.BinaryNode:
		span, ok := n.Right.(*ast.BinaryNode)
		switch {
		case n.Left.String() == string(NCCL) || n.Right.String() == string(NCCL):
			p.release(node, n)
		case n.Operator == "in" && ok && span.Operator == "..":
			between(node, n, span.Left, span.Right)
		case slices.Contains([]string{"==", "!=", "in"}, n.Operator):
			p.text(n.Left, n.Right)
			p.text(n.Right, n.Left)
		}
	}
}

func (p *patch) name(node ast.Node, name string) {
	if _, ok := names[name]; !ok {
		p.unknown(node, name)
	} else if !slices.Contains(p.c.Names, name) {
		p.c.Names = append(p.c.Names, name)
	}
}

// release turns nccl >= "2.31" and the like into comparisons of numbers.
func (p *patch) release(node *ast.Node, n *ast.BinaryNode) {
	text, ok := n.Right.(*ast.StringNode)
	if !ok {
		p.fail(n, "nccl is compared with one release, in quotes and on the right (as nccl >= '2.31')")
		return
	}
	operator := n.Operator
	if operator == "in" || operator == "!=" {
		operator = ""
	}
	r, err := nccl.ParseReleases(strings.TrimSpace(operator + " " + text.Value))
	if err != nil {
		p.fail(text, "%s", err)
		return
	}
	between(node, n, &ast.FloatNode{Value: float64(r.Min)}, &ast.FloatNode{Value: float64(r.Max)})
	if n.Operator == "!=" {
		ast.Patch(node, &ast.UnaryNode{Operator: "not", Node: *node})
	}
}

// between turns a comparison into x >= from and x <= to.
func between(node *ast.Node, n *ast.BinaryNode, from, to ast.Node) {
	low := &ast.BinaryNode{Operator: ">=", Left: n.Left, Right: from}
	high := &ast.BinaryNode{Operator: "<=", Left: n.Left, Right: to}
	low.SetLocation(n.Location())
	high.SetLocation(n.Location())
	ast.Patch(node, &ast.BinaryNode{Operator: "and", Left: low, Right: high})
}

// text checks the texts that a name is compared with, and gives them the spelling that Env has.
func (p *patch) text(name, with ast.Node) {
	known, all := texts[name.String()], []ast.Node{with}
	if list, ok := with.(*ast.ArrayNode); ok {
		all = list.Nodes
	}
	for _, n := range all {
		got, ok := n.(*ast.StringNode)
		if ok && name.String() == string(Fingerprint) {
			if _, err := topo.ParseFingerprint(got.Value); err != nil {
				p.fail(got, "%s", err)
			}
		}
		if !ok || known == nil {
			continue
		}
		i := slices.IndexFunc(known, func(text string) bool { return plain(text) == plain(got.Value) })
		if i < 0 {
			p.fail(got, "%s is never %s (%sallowed: %s)", name, wording.Quote(got.Value),
				wording.DidYouMean(got.Value, known), strings.Join(known, ", "))
			continue
		}
		got.Value = known[i]
	}
}

// plain makes AllReduce, all_reduce and ALLREDUCE one text.
func plain(text string) string { return strings.ToLower(strings.ReplaceAll(text, "_", "")) }

func (p *patch) unknown(node ast.Node, name string) {
	p.fail(node, "unknown name %s (%sallowed: %s)", wording.Quote(name), wording.DidYouMean(name, vocabulary),
		strings.Join(vocabulary, ", "))
}

func (p *patch) fail(node ast.Node, format string, args ...any) {
	if p.err == nil {
		p.err = &file.Error{Location: node.Location(), Message: fmt.Sprintf(format, args...)}
	}
}
