package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Condition is what a row's "when" says: an expression in expr-lang's syntax, of
// which only that part is allowed whose cost is bounded by the length of the
// text. It is immutable.
type Condition struct {
	id      int    // from 0, in one file
	column  int    // of "when" in the file
	text    string // as in the file
	normal  string // of the meaning: white space, spelling and constants do not change it
	program *vm.Program

	perCall      bool // else it is the same for all calls of a communicator
	topology     bool // it mentions topo
	ranksPerNode bool // it mentions ranks_per_node
	limits       map[string][]uint64
	names        []string // that it mentions, each once
}

const (
	maxWhenBytes = 1000
	maxWhenNodes = 200 // of the syntax tree
)

var tooLong = fmt.Sprintf("the condition is too long (allowed: %d names, numbers and operators)", maxWhenNodes)

// Limits returns the numbers that the condition compares a name with: where they
// are, what it says may change. Those that are computed, as in bytes > 1024*ranks, are
// not among them. A nil condition has none.
func (c *Condition) Limits(name string) []uint64 {
	if c == nil {
		return nil
	}
	return c.limits[name]
}

// whenReader compiles the conditions of one file. Equal ones become one.
type whenReader struct {
	config   *conf.Config
	byText   map[string]*Condition
	byNormal map[string]*Condition
}

func (w *whenReader) read(text string, column int) (*Condition, error) {
	if c, ok := w.byText[text]; ok {
		return c, nil
	}
	if w.config == nil {
		w.config = whenConfig()
		w.byText, w.byNormal = map[string]*Condition{}, map[string]*Condition{}
	}
	c, err := w.compile(text)
	if err != nil {
		return nil, located(text, err)
	}
	if twin := w.byNormal[c.normal]; twin != nil {
		c = twin
	} else {
		c.id, c.column = len(w.byNormal), column
		w.byNormal[c.normal] = c
	}
	w.byText[text] = c
	return c, nil
}

// whenConfig has none of expr's own functions: time, random numbers, and what
// walks or builds lists and texts.
func whenConfig() *conf.Config {
	c := conf.New(map[string]any(anyEnv()))
	c.Expect = reflect.Bool
	c.MaxNodes = maxWhenNodes
	for name := range c.Builtins {
		c.Disabled[name] = true
	}
	clear(c.Builtins)
	for name, o := range arithmetic {
		c.Functions[name] = &builtin.Function{Name: name, Func: o.call, Validate: func(t []reflect.Type) (reflect.Type, error) { return o.check(name, t) }}
	}
	return c
}

func (w *whenReader) compile(text string) (*Condition, error) {
	if len(text) > maxWhenBytes {
		return nil, fmt.Errorf("the condition has %d bytes (allowed: %d)", len(text), maxWhenBytes)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the condition is not UTF-8")
	}
	tree, err := parser.ParseWithConfig(text, w.config)
	if err != nil {
		return nil, explainSyntax(err)
	}
	r := rewriter{nodes: maxWhenNodes, c: &Condition{text: text, limits: map[string][]uint64{}}}
	if tree.Node, err = r.rewrite(tree.Node); err != nil {
		return nil, err
	}
	_, err = checker.Check(tree, w.config)
	if unlike := r.checkChoices(); unlike != nil {
		return nil, unlike
	}
	if err != nil {
		if t := tree.Node.Type(); !errors.As(err, new(*file.Error)) {
			err = fmt.Errorf(`the condition is %s (allowed: what is true or false, as bytes > 4*MiB)`, kindName(t))
		}
		return nil, err
	}
	if r.c.program, err = compiler.Compile(tree, w.config); err != nil {
		return nil, err
	}
	r.c.normal = tree.Node.String()
	return r.c, nil
}

// explainSyntax adds to the parser's errors what people get wrong who know the
// other columns.
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
	return err
}

// located adds to an error the expression, with a caret under the place.
func located(text string, err error) error {
	var at *file.Error
	if errors.As(err, &at) {
		return withCaret(at.Message, text, at.From)
	}
	return withCaret(err.Error(), text, 0)
}

// machine evaluates conditions, one at a time.
type machine struct{ vm vm.VM }

// holds evaluates the condition. Nothing that goes wrong gets out but as an error.
func (m *machine) holds(c *Condition, env whenEnv) (bool, error) {
	v, err := m.vm.Run(c.program, map[string]any(env))
	if err != nil {
		return false, located(c.text, err)
	}
	return v.(bool), nil
}

// rewriter turns a parsed expression into what is evaluated: names of constants
// become numbers, arithmetic becomes checked, lists become comparisons. What it
// does not know is not allowed, which is most of the language.
type rewriter struct {
	nodes   int // how many more there may be
	choices []*ast.ConditionalNode
	c       *Condition
}

// checkChoices refuses what expr would find out only when it evaluates it: that
// the two results of a ?: are not of one type.
func (r *rewriter) checkChoices() error {
	for _, n := range r.choices {
		if a, b := n.Exp1.Type(), n.Exp2.Type(); a != b {
			return errorAt(n, "the results of ?: are %s and %s (allowed: both alike)", kindName(a), kindName(b))
		}
	}
	return nil
}

func errorAt(n ast.Node, format string, args ...any) error {
	return &file.Error{Location: n.Location(), Message: fmt.Errorf(format, args...).Error()}
}

// in gives a new node the place of an old one.
func in[N ast.Node](n N, old ast.Node) N {
	n.SetLocation(old.Location())
	return n
}

func (r *rewriter) spend(n ast.Node, nodes int) error {
	if r.nodes -= nodes; r.nodes < 0 {
		return errorAt(n, "%s", tooLong)
	}
	return nil
}

// rewrite returns a new tree. (The parser has a node stand twice in the tree for
// a < b < c.)
func (r *rewriter) rewrite(n ast.Node) (ast.Node, error) {
	if err := r.spend(n, 1); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.BoolNode:
		return in(&ast.BoolNode{Value: n.Value}, n), nil
	case *ast.IntegerNode:
		return in(&ast.IntegerNode{Value: n.Value}, n), nil
	case *ast.FloatNode:
		return in(&ast.FloatNode{Value: n.Value}, n), nil
	case *ast.StringNode:
		return nil, errorAt(n, "text is allowed only to compare %s with, by ==, != or in", strings.Join(textNames(), ", "))
	case *ast.IdentifierNode, *ast.MemberNode:
		return r.name(n)
	case *ast.UnaryNode:
		return r.unary(n)
	case *ast.BinaryNode:
		return r.binary(n)
	case *ast.CallNode:
		return r.call(n, strings.ToLower(n.Callee.String()), n.Arguments)
	case *ast.BuiltinNode:
		return r.call(n, n.Name, n.Arguments)
	case *ast.ConditionalNode:
		nodes, err := r.all(n.Cond, n.Exp1, n.Exp2)
		if err != nil {
			return nil, err
		}
		choice := in(&ast.ConditionalNode{Ternary: true, Cond: nodes[0], Exp1: nodes[1], Exp2: nodes[2]}, n)
		r.choices = append(r.choices, choice)
		return choice, nil
	}
	return nil, errorAt(n, "this is not for conditions (allowed: names, numbers, arithmetic, comparisons, in, and, or, not, ?:)")
}

func (r *rewriter) all(old ...ast.Node) (nodes []ast.Node, err error) {
	nodes = make([]ast.Node, len(old))
	for i, n := range old {
		if nodes[i], err = r.rewrite(n); err != nil {
			return nil, err
		}
	}
	return nodes, nil
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

func (r *rewriter) name(n ast.Node) (ast.Node, error) {
	name := dotted(n)
	if value, ok := whenConstants[name]; ok {
		return in(&ast.IntegerNode{Value: value}, n), nil
	}
	known, err := r.use(n, name)
	if err == nil && known.texts != nil {
		err = errorAt(n, "%s is text (allowed: to compare it with a text, by ==, != or in)", name)
	}
	return in(&ast.IdentifierNode{Value: name}, n), err
}

// use notes that the condition depends on a name.
func (r *rewriter) use(n ast.Node, name string) (whenName, error) {
	known, ok := whenNames[name]
	if !ok {
		if name == "" {
			return known, errorAt(n, "this is not for conditions (allowed: the names %s)", strings.Join(whenOrder, ", "))
		}
		return known, errorAt(n, "%w", unknownWhenName(name))
	}
	if !slices.Contains(r.c.names, name) {
		r.c.names = append(r.c.names, name)
	}
	r.c.perCall = r.c.perCall || known.perCall
	r.c.topology = r.c.topology || strings.HasPrefix(name, topoPrefix)
	r.c.ranksPerNode = r.c.ranksPerNode || name == nameRanksPerNode
	return known, nil
}

func (r *rewriter) unary(n *ast.UnaryNode) (ast.Node, error) {
	operand, err := r.rewrite(n.Node)
	switch {
	case err != nil:
		return nil, err
	case n.Operator == "!" || n.Operator == "not":
		return in(&ast.UnaryNode{Operator: "!", Node: operand}, n), nil
	}
	return r.operation(n, n.Operator, in(&ast.IntegerNode{}, n), operand)
}

func (r *rewriter) binary(n *ast.BinaryNode) (ast.Node, error) {
	operator := n.Operator
	switch operator {
	case "and", "&&":
		operator = "&&"
	case "or", "||":
		operator = "||"
	case "^":
		operator = "**"
	case "==", "!=", "<", "<=", ">", ">=":
		return r.comparison(n, operator, n.Left, n.Right)
	case "in":
		return r.membership(n)
	}
	nodes, err := r.all(n.Left, n.Right)
	if err != nil {
		return nil, err
	}
	if _, ok := arithmetic[operator]; ok {
		return r.operation(n, operator, nodes...)
	}
	if operator != "&&" && operator != "||" {
		return nil, errorAt(n, "operator %s is not for conditions (allowed: + - * / %% ** == != < <= > >= in and or not ?:)", operator)
	}
	return in(&ast.BinaryNode{Operator: operator, Left: nodes[0], Right: nodes[1]}, n), nil
}

// comparison compares two numbers, two truths, or a text with what it can be.
func (r *rewriter) comparison(at ast.Node, operator string, left, right ast.Node) (ast.Node, error) {
	name, other := dotted(left), right
	if whenNames[name].texts == nil {
		name, other = dotted(right), left
	}
	if whenNames[name].texts != nil {
		return r.textComparison(at, operator, name, other)
	}
	nodes, err := r.all(left, right)
	if err != nil {
		return nil, err
	}
	r.limit(nodes[0], nodes[1])
	r.limit(nodes[1], nodes[0])
	return in(&ast.BinaryNode{Operator: operator, Left: nodes[0], Right: nodes[1]}, at), nil
}

func (r *rewriter) textComparison(at ast.Node, operator, name string, other ast.Node) (ast.Node, error) {
	if err := r.spend(at, 3); err != nil {
		return nil, err
	}
	known, err := r.use(at, name)
	if err != nil {
		return nil, err
	}
	text, ok := other.(*ast.StringNode)
	if !ok {
		return nil, errorAt(other, "%s is text (allowed: to compare it with one of %s)", name, strings.Join(quoted(known.texts.canonical), ", "))
	}
	if operator != "==" && operator != "!=" {
		return nil, errorAt(at, "%s is text (allowed: ==, != and in)", name)
	}
	value, err := known.text(name, text.Value)
	if err != nil {
		return nil, errorAt(text, "%w", err)
	}
	return in(&ast.BinaryNode{Operator: operator, Left: in(&ast.IdentifierNode{Value: name}, at), Right: in(&ast.StringNode{Value: value}, text)}, at), nil
}

// membership turns x in [1, 2] and x in 1..2 into comparisons.
func (r *rewriter) membership(n *ast.BinaryNode) (ast.Node, error) {
	if span, ok := n.Right.(*ast.BinaryNode); ok && span.Operator == ".." {
		return r.membershipOfRange(n, span)
	}
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok || len(list.Nodes) == 0 {
		return nil, errorAt(n, "in takes a list or a range of numbers (allowed: in [8, 16], in 8..16, in [%q, %q])", CollAllReduce, CollAllGather)
	}
	var any ast.Node
	for _, element := range list.Nodes {
		equal, err := r.comparison(element, "==", n.Left, element)
		if err != nil {
			return nil, err
		}
		if right := equal.(*ast.BinaryNode).Right; !isConstant(right) {
			return nil, errorAt(element, "the elements of a list are numbers or texts")
		}
		if any != nil {
			equal = in(&ast.BinaryNode{Operator: "||", Left: any, Right: equal}, n)
		}
		any = equal
	}
	return any, nil
}

func (r *rewriter) membershipOfRange(n, span *ast.BinaryNode) (ast.Node, error) {
	above, err := r.comparison(n, ">=", n.Left, span.Left)
	if err != nil {
		return nil, err
	}
	below, err := r.comparison(n, "<=", n.Left, span.Right)
	if err != nil {
		return nil, err
	}
	from, ok1 := above.(*ast.BinaryNode).Right.(*ast.IntegerNode)
	to, ok2 := below.(*ast.BinaryNode).Right.(*ast.IntegerNode)
	if !ok1 || !ok2 || from.Value > to.Value {
		return nil, errorAt(span, "a range is of two whole numbers, the lower one first (allowed: 8..16)")
	}
	return in(&ast.BinaryNode{Operator: "&&", Left: above, Right: below}, n), nil
}

func isConstant(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		return true
	}
	return false
}

// limit notes a number that a name is compared with.
func (r *rewriter) limit(name, number ast.Node) {
	of, ok := name.(*ast.IdentifierNode)
	if !ok {
		return
	}
	switch number := number.(type) {
	case *ast.IntegerNode:
		r.c.limits[of.Value] = append(r.c.limits[of.Value], uint64(max(0, number.Value)))
	case *ast.FloatNode:
		r.c.limits[of.Value] = append(r.c.limits[of.Value], uint64(max(0, min(number.Value, 1<<62))))
	}
}

func (r *rewriter) call(at ast.Node, name string, arguments []ast.Node) (ast.Node, error) {
	if !slices.Contains(whenFunctions, name) {
		return nil, errorAt(at, "unknown function %s (%sallowed: %s)", quote(name), didYouMean(name, whenFunctions), strings.Join(whenFunctions, ", "))
	}
	want := arithmetic[name].arguments
	if len(arguments) < want || len(arguments) > want && want == 1 {
		return nil, errorAt(at, "%s takes %s, not %d", name, [...]string{1: "1 argument", 2: "2 arguments or more"}[want], len(arguments))
	}
	nodes, err := r.all(arguments...)
	if err != nil {
		return nil, err
	}
	result := nodes[0]
	if want == 1 {
		return r.operation(at, name, result)
	}
	for _, n := range nodes[1:] {
		if result, err = r.operation(at, name, result, n); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// operation computes what it can at once, which is where a division by zero is
// found that happens always.
func (r *rewriter) operation(at ast.Node, name string, arguments ...ast.Node) (ast.Node, error) {
	if divisor, ok := arguments[len(arguments)-1].(*ast.IntegerNode); ok && divisor.Value == 0 && (name == "/" || name == "%") {
		return nil, errorAt(at, "%w", errZero)
	}
	var values []any
	for _, n := range arguments {
		switch n := n.(type) {
		case *ast.IntegerNode:
			values = append(values, n.Value)
		case *ast.FloatNode:
			values = append(values, n.Value)
		}
	}
	if len(values) < len(arguments) {
		return in(&ast.CallNode{Callee: in(&ast.IdentifierNode{Value: name}, at), Arguments: arguments}, at), nil
	}
	o := arithmetic[name]
	if o.floats == nil && slices.ContainsFunc(values, func(v any) bool { _, whole := v.(int); return !whole }) {
		return nil, errorAt(at, "%s takes whole numbers", name)
	}
	value, err := o.call(values...)
	if err != nil {
		return nil, errorAt(at, "%w", err)
	}
	if whole, ok := value.(int); ok {
		return in(&ast.IntegerNode{Value: whole}, at), nil
	}
	return in(&ast.FloatNode{Value: value.(float64)}, at), nil
}
