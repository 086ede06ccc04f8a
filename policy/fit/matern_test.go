package fit

import (
	"testing"
)

func BenchmarkMatern52(b *testing.B) {
	sum := 0.0
	for b.Loop() {
		for k := range 1000 {
			sum += matern52(float64(k) / 60)
		}
	}
	if sum == 0 {
		b.Fatal("no covariance")
	}
}
