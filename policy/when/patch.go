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

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// constants are numbers of bytes. Like all names they are known in any case.
var constants = map[string]float64{"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}

// functions are those of expr that a condition may call.
var functions = []string{"abs", "ceil", "floor", "max", "min", "round"}

// vocabulary lists all names and functions.
var vocabulary = slices.Concat(slices.Sorted(maps.Keys(allNames)), slices.Sorted(maps.Keys(constants)), functions)

// language returns what expr needs to know. patch turns operators into calls of the functions with
// their names: a division by zero is an error, % takes fractions, and "in 8..16" builds no list.
func language() []expr.Option {
	options := []expr.Option{
		expr.Env(map[string]any(allNames)), expr.AsBool(), expr.WarnOnAny(), expr.MaxNodes(maxNodes),
		expr.DisableAllBuiltins(),
		expr.Function("/", func(x ...any) (any, error) {
			return x[0].(float64) / x[1].(float64), nonZero(x[1])
		}, new(func(a, b float64) float64)),
		expr.Function("%", func(x ...any) (any, error) {
			return math.Mod(x[0].(float64), x[1].(float64)), nonZero(x[1])
		}, new(func(a, b float64) float64)),
		expr.Function("..", func(x ...any) (any, error) {
			return x[1].(float64) <= x[0].(float64) && x[0].(float64) <= x[2].(float64), nil
		}, new(func(x, from, to float64) bool)),
	}
	for _, name := range functions {
		options = append(options, expr.EnableBuiltin(name))
	}
	return options
}

var errZero = errors.New("division by zero")

func nonZero(divisor any) error {
	if divisor.(float64) == 0 {
		return errZero
	}
	return nil
}

// patch turns a parsed condition into what expr compiles: names and texts become as Env has them,
// whole numbers float64, and some operators calls. It notes what the condition depends on. Parts of
// the tree can be visited twice.
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
		switch name {
		case "topo": // more follows, or expr finds it unknown
		case "/", "%", "..": // of binary, on a second visit
		default:
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
	c.NeedsTopology = c.NeedsTopology || strings.HasPrefix(name, topoPrefix)
	c.NeedsRanksPerNode = c.NeedsRanksPerNode || name == "ranks_per_node"
}

func (p *patch) binary(node *ast.Node, n *ast.BinaryNode) {
	arguments := []ast.Node{n.Left, n.Right}
	operator := n.Operator
	switch operator {
	case "==", "!=":
		p.text(n.Right, n.Left)
		p.text(n.Left, n.Right)
		return
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			p.text(n.Left, list.Nodes...)
		}
		span, ok := n.Right.(*ast.BinaryNode)
		if !ok || span.Operator != ".." {
			return
		}
		operator, arguments = span.Operator, []ast.Node{n.Left, span.Left, span.Right}
	case "/", "%":
	default:
		return
	}
	callee := &ast.IdentifierNode{Value: operator}
	callee.SetLocation(n.Location())
	ast.Patch(node, &ast.CallNode{Callee: callee, Arguments: arguments})
}

// text takes care that texts which a name is compared with are spelled as those it can have.
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
