package fit

import "math"

func log2(bytes uint64) float64 { return math.Log2(float64(bytes)) }
