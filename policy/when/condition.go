// Package when compiles and evaluates the conditions of a policy's rows.
//
// A condition is an expression of the library expr. It sees only what all ranks of a communicator
// find alike (Env). All its numbers are float64, and it has no loops, so that the length of its text
// bounds its cost. docs/POLICY.md describes conditions for those who write them.
package when

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// Condition is what a row's "when" says. It is immutable.
type Condition struct {
	Names   []string // that it mentions, each once
	PerCall bool     // it may hold for one call of a communicator and not for another

	text    string
	program *vm.Program
	limits  limits
}

// Kind is a kind of names whose values may not be known: what they begin with.
type Kind string

const (
	Topology Kind = "topo."
	// Fingerprint is the one name of the machine that is no number of it, but all that its kind is.
	Fingerprint Kind = "topo.fingerprint"
	NCCL        Kind = "nccl"
	Name        Kind = "comm_name"
	// RanksPerNode has no value where nodes differ in them, NVLDomains before NCCL 2.28.
	RanksPerNode Kind = "ranks_per_node"
	NVLDomains   Kind = "nvl_domains"
)

// Asks reports whether the condition mentions a name of a kind. A nil condition mentions none.
func (c *Condition) Asks(kind Kind) bool { return c.Misses(nil, kind) }

// Misses reports whether the condition mentions a name of a kind that env does not have.
func (c *Condition) Misses(env Env, kind Kind) bool {
	return c != nil && slices.ContainsFunc(c.Names, func(name string) bool {
		return strings.HasPrefix(name, string(kind)) && env[name] == nil
	})
}

// String is the condition as it stands in the file.
func (c *Condition) String() string { return c.text }

// Holds evaluates a condition whose names are all known. It returns an error where the condition
// cannot be computed, as after a division by zero.
func (c *Condition) Holds(env Env) (bool, error) {
	v, err := expr.Run(c.program, map[string]any(env))
	if err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	return v.(bool), nil
}

// Limits returns the numbers that the condition compares a name with: where they are, what it says
// may change. Those that are computed, as in bytes > 1024*ranks, are not among them, nor those that are
// negative or too large for any call. A nil condition has none.
func (c *Condition) Limits(name string) []int {
	if c == nil {
		return nil
	}
	return c.limits[name]
}

// limits are what Condition.Limits returns. As a visitor of the compiled tree it collects them.
type limits map[string][]int

func (l limits) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if ok && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">=", "in"}, n.Operator) {
		l.add(n.Left.String(), n.Right)
		l.add(n.Right.String(), n.Left)
	}
}

func (l limits) add(name string, number any) {
	switch n := number.(type) {
	case float64:
		if 0 <= n && n < math.MaxInt {
			l[name] = append(l[name], int(n))
		}
	case *ast.FloatNode:
		l.add(name, n.Value)
	case *ast.ConstantNode:
		l.add(name, n.Value)
	case []any: // a list
		for _, element := range n {
			l.add(name, element)
		}
	}
}
