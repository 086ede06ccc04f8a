package fit

import "math"

// matern52 is the Matérn covariance of smoothness 5/2 at distance r >= 0, 1 at 0.
func matern52(r float64) float64 {
	s := math.Sqrt(5) * r
	return (1 + s + s*s/3) * math.Exp(-s)
}
