package cycle

import (
	"math"
	"math/bits"
	"slices"
)

// heldKarp returns the order of all nodes, starting with 0, whose steps weigh most: for each set of nodes that holds 0
// and each last node, the heaviest path through the set (Held and Karp 1962).
func heldKarp(w Weights) []int {
	n := len(w)
	if n <= 2 {
		return sequence(n)
	}
	// Sets leave node 0 out: bit i is node i+1.
	k := n - 1
	heaviest := make([][]float64, 1<<k)
	before := make([][]int8, 1<<k)
	for set := 1; set < 1<<k; set++ {
		heaviest[set], before[set] = make([]float64, k), make([]int8, k)
		for last := range k {
			if set&(1<<last) == 0 {
				continue
			}
			rest := set &^ (1 << last)
			if rest == 0 {
				heaviest[set][last], before[set][last] = w[0][last+1], -1
				continue
			}
			best := math.Inf(-1)
			for s := rest; s != 0; s &= s - 1 {
				prev := bits.TrailingZeros(uint(s))
				if v := heaviest[rest][prev] + w[prev+1][last+1]; v > best {
					best, before[set][last] = v, int8(prev)
				}
			}
			heaviest[set][last] = best
		}
	}
	all := 1<<k - 1
	last := 0
	for i := range k {
		if heaviest[all][i]+w[i+1][0] > heaviest[all][last]+w[last+1][0] {
			last = i
		}
	}
	order := make([]int, n)
	for at, set := n-1, all; at > 0; at-- {
		order[at] = last + 1
		set, last = set&^(1<<last), int(before[set][last])
	}
	return order
}

// improved looks for the same without a promise: the best of a few greedy orders after improvement.
func improved(w Weights) []int {
	const starts = 16
	n := len(w)
	var best []int
	bestWeight := math.Inf(-1)
	for i := range min(n, starts) {
		order := improve(w, greedyCycle(w, i*n/min(n, starts)))
		if v := weight(w, order); v > bestWeight {
			best, bestWeight = order, v
		}
	}
	zero := slices.Index(best, 0)
	return slices.Concat(best[zero:], best[:zero])
}

// greedyCycle goes to the heaviest step next; of equal ones, to the node with the fewest ways on, so that none is left
// stranded.
func greedyCycle(w Weights, start int) []int {
	n := len(w)
	used := make([]bool, n)
	waysOn := func(a int) int {
		ways := 0
		for b := range n {
			if !used[b] && b != a && w[a][b] > 0 {
				ways++
			}
		}
		return ways
	}
	order := []int{start}
	used[start] = true
	for at := start; len(order) < n; {
		next := -1
		for b := range n {
			if used[b] {
				continue
			}
			if next < 0 || w[at][b] > w[at][next] || w[at][b] == w[at][next] && waysOn(b) < waysOn(next) {
				next = b
			}
		}
		used[next] = true
		order = append(order, next)
		at = next
	}
	return order
}

// improve reverses stretches (2-opt) and moves stretches of up to three nodes elsewhere (Or-opt) as long as that helps.
func improve(w Weights, order []int) []int {
	// Rounding must not make two orders better than each other in turn.
	const least = 1e-9
	n := len(order)
	for helped := true; helped; {
		helped = false
		for i := 0; i < n-1; i++ {
			for j := i + 2; j < n; j++ {
				a, b, c, d := order[i], order[i+1], order[j], order[(j+1)%n]
				if d != a && w[a][c]+w[b][d]-w[a][b]-w[c][d] > least {
					slices.Reverse(order[i+1 : j+1])
					helped = true
				}
			}
		}
	}
	return order
}

func weight(w Weights, order []int) float64 {
	var sum float64
	for i, a := range order {
		sum += w[a][order[(i+1)%len(order)]]
	}
	return sum
}

// Width is the narrowest step.
func Width(w Weights, order []int) float64 {
	width := math.Inf(1)
	for i, a := range order {
		width = min(width, w[a][order[(i+1)%len(order)]])
	}
	return width
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}
