package model

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/interp"
)

// curve is the time of one configuration over sizes: a monotone cubic through what was measured, ln(us) over log2
// bytes. It says nothing of sizes below the first and above the last.
type curve struct {
	octaves, ln []float64 // as measured
	between     interp.PiecewiseCubic
	noise       float64 // standard deviation of a point
	perOctave   float64 // what is added for each octave to the nearest point
}

// How far a curve may be off an octave away from its points: see learnError.
const (
	leastPerOctave = 0.03
	mostPerOctave  = 0.5
	guessPerOctave = 0.15
	fewErrors      = 3
)

// add a point above all others.
func (c *curve) add(bytes uint64, micros float64) {
	c.octaves, c.ln = append(c.octaves, log2(bytes)), append(c.ln, math.Log(micros))
}

func log2(bytes uint64) float64 { return math.Log2(float64(bytes)) }

// join the points. Slopes at inner points are those of Fritsch and Butland (SIAM J. Sci. Stat. Comput. 5, 1984), with
// which the curve neither rises above nor falls below its points; at the ends they are those of the straight line.
// Theirs for the ends bends more, and was worse on all measured sets.
func (c *curve) join(noise float64) {
	c.noise = noise
	last := len(c.octaves) - 1
	if last < 1 {
		return
	}
	width, slope := make([]float64, last), make([]float64, last)
	for i := range last {
		width[i] = c.octaves[i+1] - c.octaves[i]
		slope[i] = (c.ln[i+1] - c.ln[i]) / width[i]
	}
	at := make([]float64, last+1)
	at[0], at[last] = slope[0], slope[last-1]
	for i := 1; i < last; i++ {
		if below, above := slope[i-1], slope[i]; below*above > 0 {
			w, v := 2*width[i]+width[i-1], width[i]+2*width[i-1]
			at[i] = (w + v) / (w/below + v/above)
		}
	}
	c.between.FitWithDerivatives(c.octaves, c.ln, at)
	c.learnError()
}

// learnError leaves out each inner point and sees how far the line between its neighbours passes from it, for each
// octave to the nearer of them.
func (c *curve) learnError() {
	sum, n := 0.0, len(c.octaves)-2
	for i := 1; i <= n; i++ {
		x, x0, x1 := c.octaves[i], c.octaves[i-1], c.octaves[i+1]
		off := (c.ln[i-1] + (c.ln[i+1]-c.ln[i-1])*(x-x0)/(x1-x0) - c.ln[i]) / min(x-x0, x1-x)
		sum += off * off
	}
	c.perOctave = guessPerOctave
	if n >= fewErrors {
		c.perOctave = min(max(math.Sqrt(sum/float64(n)), leastPerOctave), mostPerOctave)
	}
}

// at is the time at a size; not known where the curve says nothing.
func (c *curve) at(octave float64) Time {
	if len(c.octaves) == 0 || octave < c.octaves[0] || octave > c.octaves[len(c.octaves)-1] {
		return unknownTime
	}
	i, exact := slices.BinarySearch(c.octaves, octave)
	if exact {
		return Time{c.ln[i], c.noise}
	}
	away := min(octave-c.octaves[i-1], c.octaves[i]-octave)
	return Time{c.between.Predict(octave), math.Hypot(c.noise, c.perOctave*away)}
}
