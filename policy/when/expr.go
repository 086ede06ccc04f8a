package when

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// This file is all that knows of the library expr: how a text becomes a tree, what a tree consists
// of, and how one is compiled and run.

// tree is a part of a condition's syntax tree. part says what it is.
type tree struct{ node ast.Node }

// part is what a tree is, one level deep.
type part struct {
	kind     partKind
	name     string // of a name in lower case, topo.sm, of an operator or a function
	text     string
	whole    int
	fraction float64
	truth    bool
	of       [3]tree // operands: left and right; condition, if it holds, if not
	list     []tree  // arguments or elements
}

type partKind int8

const (
	partOther partKind = iota // what is not for conditions
	partTruth
	partWhole
	partFraction
	partText
	partName // "" if it is more than names and dots
	partUnary
	partBinary
	partCall
	partChoice
	partList
)

// at is the place in the text, in characters.
func (t tree) at() int { return t.node.Location().From }

func (t tree) part() part {
	switch n := t.node.(type) {
	case *ast.BoolNode:
		return part{kind: partTruth, truth: n.Value}
	case *ast.IntegerNode:
		return part{kind: partWhole, whole: n.Value}
	case *ast.FloatNode:
		return part{kind: partFraction, fraction: n.Value}
	case *ast.StringNode:
		return part{kind: partText, text: n.Value}
	case *ast.IdentifierNode, *ast.MemberNode:
		return part{kind: partName, name: dotted(n)}
	case *ast.UnaryNode:
		return part{kind: partUnary, name: n.Operator, of: [3]tree{{n.Node}}}
	case *ast.BinaryNode:
		return part{kind: partBinary, name: n.Operator, of: [3]tree{{n.Left}, {n.Right}}}
	case *ast.CallNode:
		return part{kind: partCall, name: strings.ToLower(n.Callee.String()), list: trees(n.Arguments)}
	case *ast.BuiltinNode:
		return part{kind: partCall, name: n.Name, list: trees(n.Arguments)}
	case *ast.ConditionalNode:
		return part{kind: partChoice, of: [3]tree{{n.Cond}, {n.Exp1}, {n.Exp2}}}
	case *ast.ArrayNode:
		return part{kind: partList, list: trees(n.Nodes)}
	}
	return part{}
}

func trees(nodes []ast.Node) []tree {
	list := make([]tree, len(nodes))
	for i, n := range nodes {
		list[i] = tree{n}
	}
	return list
}

// dotted returns the name that a node is, in lower case: coll, topo.sm.
func dotted(n ast.Node) string {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return strings.ToLower(n.Value)
	case *ast.MemberNode:
		if property, ok := n.Property.(*ast.StringNode); ok && !n.Optional {
			return dotted(n.Node) + "." + strings.ToLower(property.Value)
		}
	}
	return ""
}

// New trees take the place in the text of the one that they replace.
func (t tree) becomes(n ast.Node) tree {
	n.SetLocation(t.node.Location())
	return tree{n}
}

func (t tree) newTruth(v bool) tree       { return t.becomes(&ast.BoolNode{Value: v}) }
func (t tree) newWhole(v int) tree        { return t.becomes(&ast.IntegerNode{Value: v}) }
func (t tree) newFraction(v float64) tree { return t.becomes(&ast.FloatNode{Value: v}) }
func (t tree) newText(v string) tree      { return t.becomes(&ast.StringNode{Value: v}) }
func (t tree) newName(v string) tree      { return t.becomes(&ast.IdentifierNode{Value: v}) }
func (t tree) newNot(of tree) tree        { return t.becomes(&ast.UnaryNode{Operator: "!", Node: of.node}) }
func (t tree) newChoice(of, a, b tree) tree {
	return t.becomes(&ast.ConditionalNode{Ternary: true, Cond: of.node, Exp1: a.node, Exp2: b.node})
}

func (t tree) newBinary(operator string, left, right tree) tree {
	return t.becomes(&ast.BinaryNode{Operator: operator, Left: left.node, Right: right.node})
}

func (t tree) newCall(name string, arguments []tree) tree {
	nodes := make([]ast.Node, len(arguments))
	for i, a := range arguments {
		nodes[i] = a.node
	}
	return t.becomes(&ast.CallNode{Callee: t.newName(name).node, Arguments: nodes})
}

// language parses and compiles. It has none of expr's own functions: time, random numbers, and what
// walks or builds lists and texts.
type language struct{ config *conf.Config }

func newLanguage() *language {
	c := conf.New(map[string]any(anyEnv()))
	c.Expect = reflect.Bool
	c.MaxNodes = maxNodes
	for name := range c.Builtins {
		c.Disabled[name] = true
	}
	clear(c.Builtins)
	for name, o := range arithmetic {
		c.Functions[name] = &builtin.Function{Name: name, Func: o.call, Validate: func(t []reflect.Type) (reflect.Type, error) { return o.check(name, t) }}
	}
	return &language{c}
}

func (w *language) parse(text string) (tree, error) {
	parsed, err := parser.ParseWithConfig(text, w.config)
	if err != nil {
		return tree{}, explainSyntax(err)
	}
	return tree{parsed.Node}, nil
}

// explainSyntax adds to the parser's errors what people get wrong who know the other columns.
func explainSyntax(err error) error {
	var e *file.Error
	switch {
	case !errors.As(err, &e):
	case strings.HasPrefix(e.Message, "bad number syntax"):
		e.Message += " (allowed: 4096, 1.5, 64*KiB, 1*MiB, 2*GiB)"
	case strings.HasSuffix(e.Message, "exceeds maximum allowed nodes"):
		e.Message = tooLong
	case e.Message == "unexpected token EOF":
		e.Message = "the condition ends too early"
	}
	return atPlace(err)
}

// atPlace takes the place in the text from one of expr's errors.
func atPlace(err error) error {
	var e *file.Error
	if errors.As(err, &e) {
		return &placedError{e.From, e.Message}
	}
	return err
}

// program is a compiled condition.
type program struct{ code *vm.Program }

// compile checks the types and compiles; normal is the tree's own text. The results of each of
// choices, which are parts of root, must be alike: expr would find that out only when it evaluates
// one.
func (w *language) compile(root tree, choices []tree) (p program, normal string, err error) {
	t := &parser.Tree{Node: root.node}
	_, err = checker.Check(t, w.config)
	for _, c := range choices {
		n := c.node.(*ast.ConditionalNode)
		if a, b := n.Exp1.Type(), n.Exp2.Type(); a != b {
			return p, "", errorAt(c, "the results of ?: are %s and %s (allowed: both alike)", kindName(a), kindName(b))
		}
	}
	if err != nil {
		if !errors.As(err, new(*file.Error)) {
			err = fmt.Errorf(`the condition is %s (allowed: what is true or false, as bytes > 4*MiB)`, kindName(t.Node.Type()))
		}
		return p, "", atPlace(err)
	}
	p.code, err = compiler.Compile(t, w.config)
	return p, t.Node.String(), atPlace(err)
}

// interpreter runs programs, one at a time.
type interpreter struct{ vm vm.VM }

func (m *interpreter) run(p program, env Env) (bool, error) {
	v, err := m.vm.Run(p.code, map[string]any(env))
	if err != nil {
		return false, atPlace(err)
	}
	return v.(bool), nil
}
