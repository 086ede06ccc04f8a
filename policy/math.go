package policy

import "math"

// Decisions must not differ between machines, and what is said of them should not. The
// standard library's logarithm, exponential and power are written in assembly on some
// of them and differ in the last bits, and compilers may fuse a product and a sum into
// one rounding: hence these, and float64() around every product that is added to
// something.

// ln returns the natural logarithm of x > 0, to about 1e-15.
func ln(x float64) float64 {
	m, e := aroundOne(x)
	// ln m = 2 atanh((m-1)/(m+1)), |t| <= 0.172
	t := (m - 1) / (m + 1)
	t2 := float64(t * t)
	sum := 0.0
	for k := 23; k >= 1; k -= 2 {
		sum = float64(sum*t2) + 1/float64(k)
	}
	return float64(float64(2*t)*sum) + float64(float64(e)*math.Ln2)
}

// aroundOne returns m between the roots of 1/2 and of 2, and e, with x = m * 2^e exactly.
func aroundOne(x float64) (m float64, e int) {
	m, e = math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	return m, e
}

// log2 of n >= 1.
func log2(n uint64) float64 { return ln(float64(n)) / math.Ln2 }

// between is a where t is 0 and b where it is 1.
func between(a, b, t float64) float64 { return a + float64((b-a)*t) }

// pow is math.Pow. Square roots are rounded correctly, and so are powers of 2 to a power
// that is one of 2: a condition may ask whether something equals 16 ** 0.25.
func pow(x, y float64) float64 {
	whole, part := math.Modf(y)
	if x == 0 || x < 0 && part != 0 || !(math.Abs(x) <= math.MaxFloat64) || !(math.Abs(y) < 1<<63) {
		return math.Pow(x, y) // these it looks up
	}
	return powWhole(x, whole) * powPart(x, part)
}

// powWhole is x^y for a whole y.
func powWhole(x, y float64) float64 {
	product := 1.0
	for n := uint64(math.Abs(y)); n > 0; n >>= 1 {
		if n&1 == 1 {
			product *= x
		}
		x *= x
	}
	if y < 0 {
		return 1 / product
	}
	return product
}

// powPart is x^y for x > 0 and |y| < 1.
func powPart(x, y float64) float64 {
	switch y {
	case 0:
		return 1
	case 0.5:
		return math.Sqrt(x)
	case -0.5:
		return 1 / math.Sqrt(x)
	}
	// x^y = 2^octaves * e^rest, |rest| < 0.7
	m, e := aroundOne(x)
	octaves := float64(y * float64(e))
	whole := math.Round(octaves)
	rest := float64((octaves-whole)*math.Ln2) + float64(y*ln(m))
	return expNear0(rest, int(whole))
}

// exp returns e^x, to about 1e-15 for |x| <= 40.
func exp(x float64) float64 {
	octaves := math.Round(x / math.Ln2)
	if !(math.Abs(octaves) < 2000) {
		return math.Exp(x) // 0, infinite or not a number
	}
	// The first part of ln 2 is short, so that its product is exact (FreeBSD's e_exp.c).
	const ln2High, ln2Low = 6.93147180369123816490e-01, 1.90821492927058770002e-10
	return expNear0(x-float64(octaves*ln2High)-float64(octaves*ln2Low), int(octaves))
}

// expNear0 is e^x * 2^octaves, for |x| < 0.7.
func expNear0(x float64, octaves int) float64 {
	sum := 1.0
	for k := 18; k >= 1; k-- {
		sum = 1 + float64(sum*x)/float64(k)
	}
	return math.Ldexp(sum, octaves)
}
