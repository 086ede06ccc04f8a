package fit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// The Gaussian process over (log2 bytes, log2 channels) that corrects the
// physics. Its settings are fixed: fitted ones are over-confident on grids of
// this kind, and many others do as well as these.
const (
	smoothVariance = 0.09 // of ln(us): the correction that neighbours share
	smoothOctaves  = 1.5  // its length in bytes
	smoothChannels = 3.0  // its length in channels, in octaves
	ownVariance    = 0.01 // of ln(us): what one channel count has to itself
	ownOctaves     = 1.0  // its length in bytes
)

// input is where ln(us) was seen, and how well.
type input struct {
	octave   float64 // log2 bytes
	channels float64 // log2 channels
	noise    float64 // standard deviation of ln(us), > 0
}

func covariance(a, b *input) float64 {
	d := a.octave - b.octave
	x, y := d/smoothOctaves, (a.channels-b.channels)/smoothChannels
	k := smoothVariance * matern52(math.Sqrt(x*x+y*y))
	if a.channels == b.channels {
		k += ownVariance * matern52(math.Abs(d)/ownOctaves)
	}
	return k
}

// covariances of one input with some sizes of one channel count.
func covariances(to []float64, p *input, channels float64, octaves []float64) {
	y := (p.channels - channels) / smoothChannels
	for j, octave := range octaves {
		x := (p.octave - octave) / smoothOctaves
		to[j] = smoothVariance * matern52(math.Sqrt(x*x+y*y))
	}
	if p.channels == channels {
		for j, octave := range octaves {
			to[j] += ownVariance * matern52(math.Abs(p.octave-octave)/ownOctaves)
		}
	}
}

// layout is all of a Gaussian process that does not depend on the values: nearly
// all of the work. The families of one sweep were usually measured at the same
// inputs and share it.
type layout struct {
	inputs    []input
	chol      mat.Cholesky
	lower     *mat.TriDense
	precision []float64   // diagonal of K^-1
	inner     []sizeBlock // all sizes but the first and the last
	octaves   []float64   // of the sizes, ascending
	forecasts map[float64]*forecast
}

// layouts finds the one for some inputs among those there are.
type layouts []*layout

func (all *layouts) of(inputs []input) *layout {
	for _, l := range *all {
		if slices.Equal(l.inputs, inputs) {
			return l
		}
	}
	l := newLayout(inputs)
	*all = append(*all, l)
	return l
}

// newLayout factorises the covariance of inputs, no two of which are the same.
func newLayout(inputs []input) *layout {
	n := len(inputs)
	k := mat.NewSymDense(n, nil)
	for i := range inputs {
		for j := i; j < n; j++ {
			v := covariance(&inputs[i], &inputs[j])
			if i == j {
				v += inputs[i].noise * inputs[i].noise
			}
			k.SetSym(i, j, v)
		}
	}
	l := &layout{inputs: inputs, lower: mat.NewTriDense(n, mat.Lower, nil), precision: make([]float64, n), forecasts: map[float64]*forecast{}}
	if !l.chol.Factorize(k) {
		panic("fit: the covariance of distinct inputs with noise is not positive definite") // cannot be: noise > 0
	}
	l.chol.LTo(l.lower)
	var inverse mat.SymDense
	// An error means badly conditioned, not singular: good enough to scale by.
	_ = l.chol.InverseTo(&inverse)
	bySize := map[float64][]int{}
	for i, p := range inputs {
		l.precision[i] = inverse.At(i, i)
		if bySize[p.octave] == nil {
			l.octaves = append(l.octaves, p.octave)
		}
		bySize[p.octave] = append(bySize[p.octave], i)
	}
	slices.Sort(l.octaves)
	for k := 1; k+1 < len(l.octaves); k++ {
		l.inner = append(l.inner, newSizeBlock(&inverse, bySize[l.octaves[k]]))
	}
	return l
}

// sizeBlock tells how well the inputs of one size are predicted from all others.
type sizeBlock struct {
	at         []int
	precision  mat.Cholesky // of their block of K^-1
	deviations []float64    // standard deviations of the predictions; nil: not known
}

func newSizeBlock(inverse *mat.SymDense, at []int) sizeBlock {
	b := sizeBlock{at: at}
	block := mat.NewSymDense(len(at), nil)
	for i, p := range at {
		for j := i; j < len(at); j++ {
			block.SetSym(i, j, inverse.At(p, at[j]))
		}
	}
	var covariance mat.SymDense
	if !b.precision.Factorize(block) || b.precision.InverseTo(&covariance) != nil {
		return b
	}
	for i := range at {
		b.deviations = append(b.deviations, math.Sqrt(covariance.At(i, i)))
	}
	return b
}

// errors of the predictions, in their standard deviations.
func (b *sizeBlock) errors(alpha *mat.VecDense) []float64 {
	right := mat.NewVecDense(len(b.at), nil)
	for i, p := range b.at {
		right.SetVec(i, alpha.AtVec(p))
	}
	var residual mat.VecDense
	if b.deviations == nil || b.precision.SolveVecTo(&residual, right) != nil {
		return nil
	}
	z := make([]float64, len(b.at))
	for i, d := range b.deviations {
		z[i] = residual.AtVec(i) / d
	}
	return z
}

// forecast is what a layout knows about one channel count at some sizes.
type forecast struct {
	octaves    []float64
	white      *mat.Dense // L^-1 times the covariance of the layout's inputs and these
	deviations []float64
	distances  []float64 // in octaves, to the nearest size of the layout
}

// forecast remembers the last answer for each channel count.
func (l *layout) forecast(channels float64, octaves []float64) *forecast {
	if f := l.forecasts[channels]; f != nil && slices.Equal(f.octaves, octaves) {
		return f
	}
	n, m := len(l.inputs), len(octaves)
	f := &forecast{octaves, mat.NewDense(n, m, nil), make([]float64, m), make([]float64, m)}
	for i := range l.inputs {
		covariances(f.white.RawRowView(i), &l.inputs[i], channels, octaves)
	}
	blas64.Trsm(blas.Left, blas.NoTrans, 1, l.lower.RawTriangular(), f.white.RawMatrix())
	for j, octave := range octaves {
		f.deviations[j] = smoothVariance + ownVariance
		f.distances[j] = l.distance(octave)
	}
	for i := range n {
		for j, v := range f.white.RawRowView(i) {
			f.deviations[j] -= v * v
		}
	}
	for j, v := range f.deviations {
		f.deviations[j] = math.Sqrt(max(v, 0))
	}
	l.forecasts[channels] = f
	return f
}

func (l *layout) distance(octave float64) float64 {
	i, _ := slices.BinarySearch(l.octaves, octave)
	d := math.Inf(1)
	if i < len(l.octaves) {
		d = l.octaves[i] - octave
	}
	if i > 0 {
		d = min(d, octave-l.octaves[i-1])
	}
	return d
}
