package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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

func TestExp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		x := 80*rng.Float64() - 40
		if got, want := exp(x), math.Exp(x); !(math.Abs(got/want-1) <= 1e-15) {
			t.Fatalf("e^%v is %.17g, want %.17g", x, got, want)
		}
	}
	inf := math.Inf(1)
	for _, x := range []float64{0, 1e-300, 709, 710, -700, -750, 1e300, -1e300, inf, -inf, math.NaN()} {
		got, want := exp(x), math.Exp(x)
		if same := got == want || got != got && want != want; !same && !(math.Abs(got/want-1) <= 1e-14) {
			t.Errorf("e^%v is %v, want %v", x, got, want)
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

func TestPowOfRoundNumbers(t *testing.T) {
	for _, c := range []struct{ x, y, want float64 }{{16, 0.25, 2}, {4, 10.5, 1 << 21}, {4096, 0.75, 512}, {9, 0.5, 3}, {3, 33, 5559060566555523}} {
		if got := pow(c.x, c.y); got != c.want {
			t.Errorf("%v ** %v is %.17g, want %.17g", c.x, c.y, got, c.want)
		}
	}
}

// To the last bit, as computed on x86-64: other machines must find the same.
func TestAlikeOnAllMachines(t *testing.T) {
	digest := sha256.New()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		x, y := float64(1+rng.Uint64N(1<<20)), float64(rng.Uint64N(1<<20))/(1<<17)
		for _, f := range []float64{ln(x), ln(1 / x), exp(y), exp(-y), pow(x, y), pow(x, -y), between(x, 1/x, y/8)} {
			binary.Write(digest, binary.LittleEndian, f)
		}
	}
	const want = "cf2c09e70fd4afd8527b59878088c84462de3b064cce2a608ef726b7ae9c904a"
	if got := fmt.Sprintf("%x", digest.Sum(nil)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}
