package policy

import "math"

// Decisions must not differ between machines. The standard library's logarithm is
// written in assembly on some of them, and compilers may fuse a product and a sum
// into one rounding on others: hence this one, and float64() around every product
// that is added to something.

// ln returns the natural logarithm of x > 0, to about 1e-15.
func ln(x float64) float64 {
	m, e := math.Frexp(x) // exact
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	// ln m = 2 atanh((m-1)/(m+1)), |t| <= 0.172
	t := (m - 1) / (m + 1)
	t2 := float64(t * t)
	sum := 0.0
	for k := 23; k >= 1; k -= 2 {
		sum = float64(sum*t2) + 1/float64(k)
	}
	return float64(float64(2*t)*sum) + float64(float64(e)*math.Ln2)
}

// log2 of n >= 1.
func log2(n uint64) float64 { return ln(float64(n)) / math.Ln2 }

// between is a where t is 0 and b where it is 1.
func between(a, b, t float64) float64 { return a + float64((b-a)*t) }
