package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestLn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for range 100_000 {
		x := math.Exp(80*rng.Float64() - 40)
		worst = max(worst, math.Abs(ln(x)-math.Log(x))/max(1, math.Abs(math.Log(x))))
	}
	if worst > 4e-16 {
		t.Errorf("ln is off by %g, relative", worst)
	}
	for k := range 64 {
		if got := log2(1 << k); math.Abs(got-float64(k)) > 1e-14*float64(k) {
			t.Errorf("log2(2^%d) is %.17g", k, got)
		}
	}
}

func TestPow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		x, y := math.Exp(60*rng.Float64()-30), 20*rng.Float64()-10
		if rng.IntN(2) == 0 {
			x, y = math.Ceil(x), math.Round(8*y)/8
		}
		if got, want := pow(x, y), math.Pow(x, y); !(math.Abs(got/want-1) <= 1e-14) {
			t.Fatalf("%v ** %v is %v, want %v", x, y, got, want)
		}
	}
	inf, nan := math.Inf(1), math.NaN()
	for _, x := range []float64{0, 1, -1, 2, -2, 9, 0.5, 1 << 20, 5e-324, math.MaxFloat64, inf, -inf, nan} {
		for _, y := range []float64{0, 1, -1, 2, 3, -3, 0.5, -0.5, 1.5, 64, 1074, 1 << 53, 1 << 62, 1 << 63, 1e300, -1e300, inf, -inf, nan} {
			got, want := pow(x, y), math.Pow(x, y)
			if same := got == want || got != got && want != want; !same && !(math.Abs(got/want-1) <= 1e-14) {
				t.Errorf("%v ** %v is %v, want %v", x, y, got, want)
			}
		}
	}
}

// To the bit, as computed on x86-64: other machines must find the same.
func TestAlikeOnAllMachines(t *testing.T) {
	for _, c := range []struct{ x, y, want float64 }{
		{16, 0.25, 2}, {4, 10.5, 1 << 21}, {4096, 0.75, 512}, {9, 0.5, 3}, {2, -0.25, 0.84089641525371461}, {2, 0.75, 1.6817928305074292}, {3, 1 / 3.0, 1.4422495703074083}, {72, 1.7, 1437.0280451224289},
		{3, 41, 3.6472996377170788e+19}, {1000003, 7, 1.000021000189001e+42}, {0.1, -12.34, 2187761623949.5488},
	} {
		if got := pow(c.x, c.y); got != c.want {
			t.Errorf("%v ** %v is %.17g, want %.17g", c.x, c.y, got, c.want)
		}
	}
	for x, want := range map[float64]float64{3: 1.0986122886681096, 1e-7: -16.11809565095832, 12345.678: 9.4210613212918322} {
		if got := ln(x); got != want {
			t.Errorf("ln %v is %.17g, want %.17g", x, got, want)
		}
	}
}
