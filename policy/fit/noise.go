package fit

import (
	"cmp"
	"math"
	"slices"
)

// sizeNoise is the noise of repetitions around a size. It grows with the size on some
// machines: from 0.3 % at 128 KiB to 4.5 % at 32 MiB on one that was measured.
type sizeNoise struct{ octave, sigma float64 }

// difference of two repetitions of a configuration: |ln ratio|.
type difference struct{ octave, ln float64 }

const (
	// noiseOctaves is how far repetitions count on either side of a size.
	noiseOctaves = 1
	// manyPairs of repetitions, the nearest ones, count even if they are farther away.
	manyPairs = 20
)

// noisesOf returns the noise at the first size and at each whole octave above it. It orders
// its argument, which is not empty.
func noisesOf(differences []difference) (all []sizeNoise) {
	slices.SortFunc(differences, func(a, b difference) int { return cmp.Or(cmp.Compare(a.octave, b.octave), cmp.Compare(a.ln, b.ln)) })
	find := func(octave float64) int {
		i, _ := slices.BinarySearchFunc(differences, octave, func(d difference, o float64) int { return cmp.Compare(d.octave, o) })
		return i
	}
	n := len(differences)
	for octave := differences[0].octave; octave < differences[n-1].octave+1; octave++ {
		low, high := find(octave-noiseOctaves), find(math.Nextafter(octave+noiseOctaves, math.Inf(1)))
		for high-low < min(manyPairs, n) {
			if high == n || low > 0 && octave-differences[low-1].octave < differences[high].octave-octave {
				low--
			} else {
				high++
			}
		}
		near := make([]float64, 0, high-low)
		for _, d := range differences[low:high] {
			near = append(near, d.ln)
		}
		all = append(all, sizeNoise{octave, noiseOf(near)})
	}
	return all
}

// probableNoiseMax bounds the noise that repetitions are believed to have, in ln(us).
const probableNoiseMax = 0.5

// noiseOf is the standard deviation of ln(us) behind differences of two. These have
// sqrt(2) of one value's deviation, and the median of their absolute value is 0.6745
// of that.
func noiseOf(differences []float64) float64 {
	return min(max(median(differences)/0.6745/math.Sqrt2, leastNoise), probableNoiseMax)
}

// noiseAt is the noise of repetitions around a size.
func (g *Group) noiseAt(bytes uint64) float64 {
	if len(g.noises) == 0 {
		return g.Noise
	}
	octave := log2(bytes)
	i, _ := slices.BinarySearchFunc(g.noises, octave, func(n sizeNoise, o float64) int { return cmp.Compare(n.octave, o) })
	if i == len(g.noises) || i > 0 && octave-g.noises[i-1].octave < g.noises[i].octave-octave {
		i--
	}
	return g.noises[i].sigma
}
