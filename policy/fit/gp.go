package fit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// process is the Gaussian process that corrects the physics of one family:
// values at the inputs of a layout.
type process struct {
	*layout
	alpha *mat.VecDense // K^-1 value
	white *mat.VecDense // L^-1 value, where K = L L^T

	// scale multiplies the standard deviation at sizes that were measured,
	// gapScale half an octave and more away from them.
	scale, gapScale float64
}

const (
	// The standard deviations are multiplied by one number found by leaving out
	// each point in turn, within these bounds.
	leastScale = 0.1
	mostScale  = 2.0
	// priorSizes is how many sizes' evidence the process' settings are taken for.
	priorSizes = 0.75
)

// newProcess conditions on values, one for each input.
func newProcess(l *layout, values []float64) *process {
	p := &process{layout: l, alpha: mat.NewVecDense(len(values), nil)}
	p.white = mat.NewVecDense(len(values), slices.Clone(values))
	blas64.Trsv(blas.NoTrans, l.lower.RawTriangular(), p.white.RawVector())
	if err := l.chol.SolveVecTo(p.alpha, mat.NewVecDense(len(values), values)); err != nil {
		panic(err) // cannot be: noise > 0
	}
	p.learnScales()
	return p
}

// learnScales compares predictions with what was left out of them, in standard
// deviations: each point in turn, then each size but the first and the last with
// all its points. Steps between sizes are common to all channel counts, so that
// only the second sees them. Closed form: Rasmussen and Williams (2006), 5.4.2.
func (p *process) learnScales() {
	z := make([]float64, len(p.inputs))
	for i := range z {
		z[i] = p.alpha.AtVec(i) / math.Sqrt(p.precision[i])
	}
	p.scale = min(max(rootMeanSquare(z), leastScale), mostScale)

	z = z[:0]
	for i := range p.inner {
		z = append(z, p.inner[i].errors(p.alpha)...)
	}
	p.gapScale = p.scale
	if len(z) > 0 {
		// Errors at one size go together: there are as many of them as sizes, and
		// few of them say little about the next.
		seen := float64(len(p.inner))
		rms := rootMeanSquare(z)
		p.gapScale = math.Sqrt((priorSizes + seen*rms*rms) / (priorSizes + seen))
		p.gapScale = min(max(p.gapScale, p.scale), mostScale)
	}
}

func rootMeanSquare(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum / float64(len(v)))
}

// predict returns mean and standard deviation for one channel count; noise of a
// new measurement is not part of it.
func (p *process) predict(channels float64, octaves []float64) (means, sigmas []float64) {
	f := p.forecast(channels, octaves)
	means, sigmas = make([]float64, len(octaves)), make([]float64, len(octaves))
	mat.NewVecDense(len(means), means).MulVec(f.white.T(), p.white)
	for j, d := range f.deviations {
		// From scale to gapScale within half an octave of the nearest size measured.
		sigmas[j] = d * (p.scale + min(1, 2*f.distances[j])*(p.gapScale-p.scale))
	}
	return means, sigmas
}
