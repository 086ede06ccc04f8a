package fit

import (
	"math"
	"testing"
)

func TestDecay(t *testing.T) {
	for s := 0.0; s < decayEnd; s += 0.00037 {
		if got, want := decay(s), math.Exp(-s); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("decay(%v) = %v, want %v", s, got, want)
		}
	}
	for _, s := range []float64{decayEnd, 1e9, math.Inf(1)} {
		if got := decay(s); got != 0 {
			t.Errorf("decay(%v) = %v", s, got)
		}
	}
}

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
