package when

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// How comparisons and lists are rewritten. The numbers that names are compared with are noted:
// there, what the condition says may change.

// comparison compares two numbers, two truths, or a text with what it can be.
func (r *rewriter) comparison(t tree, operator string, left, right tree) (tree, error) {
	name, other := left, right
	if !isText(name) {
		name, other = right, left
	}
	if isText(name) {
		return r.textComparison(t, operator, name.part().name, other)
	}
	of, err := r.all(left, right)
	if err != nil {
		return tree{}, err
	}
	r.limit(of[0], of[1])
	r.limit(of[1], of[0])
	return t.newBinary(operator, of[0], of[1]), nil
}

// isText reports whether the tree is a name of texts.
func isText(t tree) bool {
	p := t.part()
	return p.kind == partName && variables[p.name].texts != nil
}

func (r *rewriter) textComparison(t tree, operator, name string, other tree) (tree, error) {
	if err := r.spend(t, 3); err != nil {
		return tree{}, err
	}
	known, err := r.use(t, name)
	if err != nil {
		return tree{}, err
	}
	text := other.part()
	if text.kind != partText {
		return tree{}, errorAt(other, "%s is text (allowed: to compare it with one of %s)", name, strings.Join(quoted(known.texts.known), ", "))
	}
	if operator != "==" && operator != "!=" {
		return tree{}, errorAt(t, "%s is text (allowed: ==, != and in)", name)
	}
	value, err := known.text(name, text.text)
	if err != nil {
		return tree{}, errorAt(other, "%w", err)
	}
	return t.newBinary(operator, t.newName(name), other.newText(value)), nil
}

// membership turns x in [1, 2] and x in 1..2 into comparisons.
func (r *rewriter) membership(t, left, right tree) (tree, error) {
	in := right.part()
	if in.kind == partBinary && in.name == ".." {
		return r.membershipOfRange(t, left, right, in.of[0], in.of[1])
	}
	if in.kind != partList || len(in.list) == 0 {
		return tree{}, errorAt(t, "in takes a list or a range of numbers (allowed: in [8, 16], in 8..16, in [%q, %q])", nccl.CollAllReduce, nccl.CollAllGather)
	}
	var any tree
	for i, element := range in.list {
		equal, err := r.comparison(element, "==", left, element)
		if err != nil {
			return tree{}, err
		}
		if !isConstant(equal.part().of[1]) {
			return tree{}, errorAt(element, "the elements of a list are numbers or texts")
		}
		if i > 0 {
			equal = t.newBinary("||", any, equal)
		}
		any = equal
	}
	return any, nil
}

func (r *rewriter) membershipOfRange(t, left, span, first, last tree) (tree, error) {
	above, err := r.comparison(t, ">=", left, first)
	if err != nil {
		return tree{}, err
	}
	below, err := r.comparison(t, "<=", left, last)
	if err != nil {
		return tree{}, err
	}
	from, to := above.part().of[1].part(), below.part().of[1].part()
	if from.kind != partWhole || to.kind != partWhole || from.whole > to.whole {
		return tree{}, errorAt(span, "a range is of two whole numbers, the lower one first (allowed: 8..16)")
	}
	return t.newBinary("&&", above, below), nil
}

func isConstant(t tree) bool {
	switch t.part().kind {
	case partWhole, partFraction, partText:
		return true
	}
	return false
}

// limit notes a number that a name is compared with.
func (r *rewriter) limit(name, number tree) {
	of := name.part()
	if of.kind != partName {
		return
	}
	switch p := number.part(); p.kind {
	case partWhole:
		r.c.limits[of.name] = append(r.c.limits[of.name], uint64(max(0, p.whole)))
	case partFraction:
		r.c.limits[of.name] = append(r.c.limits[of.name], uint64(max(0, min(p.fraction, 1<<62))))
	}
}
