package simulate

import (
	"math"
	"math/rand/v2"
)

// draw is a stream of random numbers that belongs to one thing: the same seed
// and the same thing give the same numbers, whatever else was drawn before.
type draw struct{ pcg *rand.PCG }

// What a stream is about.
const (
	aboutCell = iota + 1 // a cell of one communicator: how the machine differs
	aboutRun             // one run of nccl-tests
	aboutTime            // one time it prints
)

func newDraw(seed uint64, about int, key ...int64) draw {
	h := mix(uint64(about))
	for _, k := range key {
		h = mix(h ^ uint64(k))
	}
	return draw{rand.NewPCG(seed, h)}
}

// mix is the output function of SplitMix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// uniform is in [0, 1). It is not rand.Float64 because PCG's numbers are
// specified and that function's use of them is not.
func (d draw) uniform() float64 { return float64(d.pcg.Uint64()>>11) / (1 << 53) }

// between is uniform in [low, high).
func (d draw) between(low, high float64) float64 {
	return low + (high-low)*d.uniform()
}

// normal has mean 0 and variance 1: the sum of twelve uniform numbers, which
// needs no logarithm; math.Log differs between machines.
func (d draw) normal() float64 {
	sum := -6.0
	for range 12 {
		sum += d.uniform()
	}
	return sum
}

// heavy is Student's t with four degrees of freedom, scaled to a robust standard
// deviation of 1 (its median absolute deviation is 0.7407) and cut at 8.
func (d draw) heavy() float64 {
	const scale = 1.4826 * 0.7407
	n, squares := d.normal(), 0.0
	for range 4 {
		x := d.normal()
		squares += x * x
	}
	return max(-8, min(8, n/math.Sqrt(squares/4)/scale))
}
