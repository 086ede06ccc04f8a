package compare

import (
	"math"
	"slices"
)

// manyReps of both sides are enough for a test by ranks, to which an outlier is one value and two modes are no normal
// distribution. Fewer cannot be significant among many sizes: of 5 and 5 the most extreme order has p=0.008.
const manyReps = 8

// mostExact repetitions are counted exactly; of more the normal distribution tells as much.
const mostExact = 50

// rankTest is the test of Mann and Whitney, or for pairs Wilcoxon's of signed ranks, with the interval that
// leaves out the differences that the test refuses (Hodges and Lehmann, 1963).
type rankTest struct {
	differences []float64 // ascending: of each value of one side to each of the other; of pairs, the means of any two
	// below[k] is the probability that at most k of the differences are below 0 where nothing changed.
	below []float64
}

func newRankTest(v repetitions, paired bool) *rankTest {
	t := &rankTest{}
	if paired {
		d := pairs(v)
		for i, x := range d {
			for _, y := range d[:i+1] {
				t.differences = append(t.differences, (x+y)/2)
			}
		}
		t.below = cumulative(signedRanks(len(d)))
	} else {
		for _, x := range v[0] {
			for _, y := range v[1] {
				t.differences = append(t.differences, y-x)
			}
		}
		t.below = cumulative(rankSums(len(v[0]), len(v[1])))
	}
	slices.Sort(t.differences)
	return t
}

// p counts a difference of 0 against a change in either direction.
func (t *rankTest) p() float64 {
	below, above := 0, 0
	for _, d := range t.differences {
		if d <= 0 {
			below++
		}
		if d >= 0 {
			above++
		}
	}
	return min(1, 2*t.below[min(below, above)])
}

func (t *rankTest) interval(level float64) (low, high float64) {
	k := 0
	for k < len(t.differences)/2 && t.below[k] <= level/2 {
		k++
	}
	if k == 0 { // so few repetitions refuse nothing at this level
		return math.Inf(-1), math.Inf(1)
	}
	return t.differences[k-1], t.differences[len(t.differences)-k]
}

// rankSums counts the orders of n and m values by the number of pairs in which the second is smaller: the
// coefficients of the product of (1 - q^(m+i)) / (1 - q^i) for i from 1 to n.
func rankSums(n, m int) []float64 {
	if n+m > mostExact {
		return bell(n*m, math.Sqrt(float64(n*m*(n+m+1))/12))
	}
	c := make([]float64, n*m+1)
	c[0] = 1
	for i := 1; i <= n; i++ {
		for u := len(c) - 1; u >= m+i; u-- {
			c[u] -= c[u-m-i]
		}
		for u := i; u < len(c); u++ {
			c[u] += c[u-i]
		}
	}
	return c
}

// signedRanks counts the signs of n ranks by the sum of the negative ones: the coefficients of the product of (1 + q^i).
func signedRanks(n int) []float64 {
	most := n * (n + 1) / 2
	if n > mostExact {
		return bell(most, math.Sqrt(float64(most*(2*n+1))/12))
	}
	c := make([]float64, most+1)
	c[0] = 1
	for i := 1; i <= n; i++ {
		for u := most; u >= i; u-- {
			c[u] += c[u-i]
		}
	}
	return c
}

// bell is a normal distribution over 0 to most.
func bell(most int, sigma float64) []float64 {
	c := make([]float64, most+1)
	for u := range c {
		z := (float64(u) - float64(most)/2) / sigma
		c[u] = math.Exp(-z * z / 2)
	}
	return c
}

func cumulative(counts []float64) []float64 {
	sum := 0.0
	for i, c := range counts {
		sum += c
		counts[i] = sum
	}
	for i := range counts {
		counts[i] /= sum
	}
	return counts
}
