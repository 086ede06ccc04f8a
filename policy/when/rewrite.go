package when

import (
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// rewriter turns a parsed expression into what is evaluated: names of constants become numbers,
// arithmetic becomes checked, lists become comparisons. What it does not know is not allowed, which
// is most of the language. It also notes what the condition depends on.
type rewriter struct {
	nodes   int // how many more there may be
	choices []tree
	c       *Condition
}

func (r *rewriter) spend(t tree, nodes int) error {
	if r.nodes -= nodes; r.nodes < 0 {
		return errorAt(t, "%s", tooLong)
	}
	return nil
}

// rewrite returns a new tree. (The parser has a node stand twice in the tree for a < b < c.)
func (r *rewriter) rewrite(t tree) (tree, error) {
	if err := r.spend(t, 1); err != nil {
		return tree{}, err
	}
	switch p := t.part(); p.kind {
	case partTruth:
		return t.newTruth(p.truth), nil
	case partWhole:
		return t.newWhole(p.whole), nil
	case partFraction:
		return t.newFraction(p.fraction), nil
	case partText:
		return tree{}, errorAt(t, "text is allowed only to compare %s with, by ==, != or in", strings.Join(textNames(), ", "))
	case partName:
		return r.name(t, p.name)
	case partUnary:
		return r.unary(t, p.name, p.of[0])
	case partBinary:
		return r.binary(t, p.name, p.of[0], p.of[1])
	case partCall:
		return r.call(t, p.name, p.list)
	case partChoice:
		of, err := r.all(p.of[:]...)
		if err != nil {
			return tree{}, err
		}
		choice := t.newChoice(of[0], of[1], of[2])
		r.choices = append(r.choices, choice)
		return choice, nil
	}
	return tree{}, errorAt(t, "this is not for conditions (allowed: names, numbers, arithmetic, comparisons, in, and, or, not, ?:)")
}

func (r *rewriter) all(old ...tree) (rewritten []tree, err error) {
	rewritten = make([]tree, len(old))
	for i, t := range old {
		if rewritten[i], err = r.rewrite(t); err != nil {
			return nil, err
		}
	}
	return rewritten, nil
}

func (r *rewriter) name(t tree, name string) (tree, error) {
	if value, ok := constants[name]; ok {
		return t.newWhole(value), nil
	}
	known, err := r.use(t, name)
	if err == nil && known.texts != nil {
		err = errorAt(t, "%s is text (allowed: to compare it with a text, by ==, != or in)", name)
	}
	return t.newName(name), err
}

// use notes that the condition depends on a name.
func (r *rewriter) use(t tree, name string) (variable, error) {
	known, ok := variables[name]
	if !ok {
		if name == "" {
			return known, errorAt(t, "this is not for conditions (allowed: the names %s)", strings.Join(inOrder, ", "))
		}
		return known, errorAt(t, "%w", unknownName(name))
	}
	if !slices.Contains(r.c.Names, name) {
		r.c.Names = append(r.c.Names, name)
	}
	r.c.PerCall = r.c.PerCall || known.perCall
	r.c.NeedsTopology = r.c.NeedsTopology || strings.HasPrefix(name, topoPrefix)
	r.c.NeedsRanksPerNode = r.c.NeedsRanksPerNode || name == nameRanksPerNode
	return known, nil
}

func (r *rewriter) unary(t tree, operator string, of tree) (tree, error) {
	operand, err := r.rewrite(of)
	switch {
	case err != nil:
		return tree{}, err
	case operator == "!" || operator == "not":
		return t.newNot(operand), nil
	}
	return r.operation(t, operator, t.newWhole(0), operand)
}

func (r *rewriter) binary(t tree, operator string, left, right tree) (tree, error) {
	switch operator {
	case "and":
		operator = "&&"
	case "or":
		operator = "||"
	case "^":
		operator = "**"
	case "==", "!=", "<", "<=", ">", ">=":
		return r.comparison(t, operator, left, right)
	case "in":
		return r.membership(t, left, right)
	}
	of, err := r.all(left, right)
	if err != nil {
		return tree{}, err
	}
	if _, ok := arithmetic[operator]; ok {
		return r.operation(t, operator, of...)
	}
	if operator != "&&" && operator != "||" {
		return tree{}, errorAt(t, "operator %s is not for conditions (allowed: + - * / %% ** == != < <= > >= in and or not ?:)", operator)
	}
	return t.newBinary(operator, of[0], of[1]), nil
}

func (r *rewriter) call(t tree, name string, arguments []tree) (tree, error) {
	if !slices.Contains(functions, name) {
		return tree{}, errorAt(t, "unknown function %s (%sallowed: %s)", suggest.Quote(name), suggest.DidYouMean(name, functions), strings.Join(functions, ", "))
	}
	want := arithmetic[name].arguments
	if len(arguments) < want || len(arguments) > want && want == 1 {
		return tree{}, errorAt(t, "%s takes %s, not %d", name, [...]string{1: "1 argument", 2: "2 arguments or more"}[want], len(arguments))
	}
	of, err := r.all(arguments...)
	if err != nil {
		return tree{}, err
	}
	result := of[0]
	if want == 1 {
		return r.operation(t, name, result)
	}
	for _, next := range of[1:] {
		if result, err = r.operation(t, name, result, next); err != nil {
			return tree{}, err
		}
	}
	return result, nil
}

// operation computes what it can at once, which is where a division by zero is found that happens
// always.
func (r *rewriter) operation(t tree, name string, arguments ...tree) (tree, error) {
	var values []any
	for i, argument := range arguments {
		switch p := argument.part(); p.kind {
		case partWhole:
			if p.whole == 0 && i == len(arguments)-1 && (name == "/" || name == "%") {
				return tree{}, errorAt(t, "%w", errZero)
			}
			values = append(values, p.whole)
		case partFraction:
			values = append(values, p.fraction)
		}
	}
	if len(values) < len(arguments) {
		return t.newCall(name, arguments), nil
	}
	o := arithmetic[name]
	if o.floats == nil && slices.ContainsFunc(values, func(v any) bool { _, whole := v.(int); return !whole }) {
		return tree{}, errorAt(t, "%s takes whole numbers", name)
	}
	value, err := o.call(values...)
	if err != nil {
		return tree{}, errorAt(t, "%w", err)
	}
	if whole, ok := value.(int); ok {
		return t.newWhole(whole), nil
	}
	return t.newFraction(value.(float64)), nil
}
