package fit

import "math"

// matern52 is the Matérn covariance of smoothness 5/2 at distance r >= 0, 1 at 0.
func matern52(r float64) float64 {
	s := math.Sqrt(5) * r
	return (1 + s + s*s/3) * decay(s)
}

// A large fit spends its time on decay, so that it is worth a table: of e^-s at
// multiples of 1/decaySteps, which take no rounding, up to where nothing is left.
const (
	decaySteps = 32
	decayEnd   = 64
)

var decayTable = func() (t [decayEnd*decaySteps + 1]float64) {
	for k := range t {
		t[k] = math.Exp(-float64(k) / decaySteps)
	}
	return t
}()

// decay is e^-s for s >= 0, within a few units of the last place of math.Exp and in
// less than half its time; 0 from decayEnd on.
func decay(s float64) float64 {
	if !(s < decayEnd) {
		return 0
	}
	k := int(s*decaySteps + 0.5)
	h := float64(k)*(1.0/decaySteps) - s // |h| <= 1/64: six terms of its series suffice
	return decayTable[k] * (1 + h*(1+h*(1.0/2+h*(1.0/6+h*(1.0/24+h*(1.0/120+h*(1.0/720)))))))
}
