package policy

import (
	"slices"
	"sort"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// stack holds ranges of sizes that lie one over the other, and lists those that
// cover a size in the file's order. Whether one of them decides is known only
// when its rule's condition has been evaluated, so the next one must be at hand.
//
// It is a segment tree: the sizes are cut into pieces wherever a range begins or
// ends, the pieces are the leaves, and a range is noted at the few nodes that
// make it up. The nodes above a leaf, one per level, have all that covers it.
type stack struct {
	starts []uint64 // of the pieces, ascending; the last one has no end
	first  []int32  // of each node's rules; node i's children are 2i and 2i+1, its rules end where those of i+1 begin
	rules  []int32
}

// newStack takes the spans in the order of their rules.
func newStack(spans []span) *stack {
	s := &stack{starts: borders(spans)}
	s.first = make([]int32, 2*len(s.starts)+1)
	for _, sp := range spans {
		s.nodes(sp.Range, func(node int) { s.first[node+1]++ })
	}
	for i := 1; i < len(s.first); i++ {
		s.first[i] += s.first[i-1]
	}
	s.rules = make([]int32, s.first[len(s.first)-1])
	next := slices.Clone(s.first)
	for _, sp := range spans {
		s.nodes(sp.Range, func(node int) {
			s.rules[next[node]] = sp.rule
			next[node]++
		})
	}
	return s
}

// nodes calls visit for each node that is part of the range and whose parent is not.
func (s *stack) nodes(r Range, visit func(node int)) {
	n := len(s.starts)
	low, _ := slices.BinarySearch(s.starts, r.Min)
	high := n
	if r.Max != nccl.Inf {
		high, _ = slices.BinarySearch(s.starts, r.Max+1)
	}
	for low, high = low+n, high+n; low < high; low, high = low/2, high/2 {
		if low%2 == 1 {
			visit(low)
			low++
		}
		if high%2 == 1 {
			high--
			visit(high)
		}
	}
}

// covering appends lists of the rules that cover a size. Each list ascends.
func (s *stack) covering(size uint64, lists [][]int32) [][]int32 {
	piece := sort.Search(len(s.starts), func(i int) bool { return s.starts[i] > size }) - 1
	if piece < 0 {
		return lists
	}
	for node := len(s.starts) + piece; node > 0; node /= 2 {
		if rules := s.rules[s.first[node]:s.first[node+1]]; len(rules) > 0 {
			lists = append(lists, rules)
		}
	}
	return lists
}

// popFirst takes the least rule of the lists away and returns it, or -1.
func popFirst(lists [][]int32) int {
	at := -1
	for i, l := range lists {
		if len(l) > 0 && (at < 0 || l[0] < lists[at][0]) {
			at = i
		}
	}
	if at < 0 {
		return -1
	}
	rule := lists[at][0]
	lists[at] = lists[at][1:]
	return int(rule)
}
