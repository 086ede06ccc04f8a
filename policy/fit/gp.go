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

	// The standard deviations are multiplied by one number found by leaving out
	// each point in turn, within these bounds.
	leastScale = 0.35
	mostScale  = 2.0
	// priorSizes is how many sizes' evidence the settings above are taken for.
	priorSizes = 1.5
)

// point is a place at which ln(us) minus the physics was seen.
type point struct {
	octave   float64 // log2 bytes
	channels float64 // log2 channels
	value    float64
	noise    float64 // standard deviation of value, > 0
}

// matern52 is the Matérn covariance of smoothness 5/2 at distance r >= 0, 1 at 0.
func matern52(r float64) float64 {
	s := math.Sqrt(5) * r
	return (1 + s + s*s/3) * math.Exp(-s)
}

func covariance(a, b *point) float64 {
	d := a.octave - b.octave
	x, y := d/smoothOctaves, (a.channels-b.channels)/smoothChannels
	k := smoothVariance * matern52(math.Sqrt(x*x+y*y))
	if a.channels == b.channels {
		k += ownVariance * matern52(math.Abs(d)/ownOctaves)
	}
	return k
}

type process struct {
	points []point
	chol   mat.Cholesky
	lower  *mat.TriDense
	alpha  *mat.VecDense // K^-1 value

	// scale multiplies the standard deviation at sizes that were measured,
	// gapScale half an octave and more away from them.
	scale, gapScale float64
}

// newProcess conditions on the points. No two may be at one place.
func newProcess(points []point) *process {
	n := len(points)
	k := mat.NewSymDense(n, nil)
	for i := range points {
		for j := i; j < n; j++ {
			v := covariance(&points[i], &points[j])
			if i == j {
				v += points[i].noise * points[i].noise
			}
			k.SetSym(i, j, v)
		}
	}
	p := &process{points: points, alpha: mat.NewVecDense(n, nil), lower: mat.NewTriDense(n, mat.Lower, nil)}
	if !p.chol.Factorize(k) {
		panic("fit: the covariance of distinct points with noise is not positive definite") // cannot be: noise > 0
	}
	y := mat.NewVecDense(n, nil)
	for i := range points {
		y.SetVec(i, points[i].value)
	}
	if err := p.chol.SolveVecTo(p.alpha, y); err != nil {
		panic(err)
	}
	p.chol.LTo(p.lower)
	p.learnScales()
	return p
}

// learnScales compares predictions with what was left out of them, in standard
// deviations: each point in turn, then each size but the first and the last with
// all its points. Steps between sizes are common to all channel counts, so that
// only the second sees them. Closed form: Rasmussen and Williams (2006), 5.4.2.
func (p *process) learnScales() {
	var inv mat.SymDense
	// An error means badly conditioned, not singular: good enough to scale by.
	_ = p.chol.InverseTo(&inv)
	var z []float64
	for i := range p.points {
		z = append(z, p.alpha.AtVec(i)/math.Sqrt(inv.At(i, i)))
	}
	p.scale = min(max(rootMeanSquare(z), leastScale), mostScale)

	bySize := map[float64][]int{}
	var sizes []float64
	for i, pt := range p.points {
		if bySize[pt.octave] == nil {
			sizes = append(sizes, pt.octave)
		}
		bySize[pt.octave] = append(bySize[pt.octave], i)
	}
	slices.Sort(sizes)
	z = z[:0]
	for k := 1; k+1 < len(sizes); k++ {
		z = append(z, p.leaveOut(&inv, bySize[sizes[k]])...)
	}
	p.gapScale = p.scale
	if len(z) > 0 {
		// Errors at one size go together: there are as many of them as sizes, and
		// few of them say little about the next.
		seen := float64(len(sizes) - 2)
		rms := rootMeanSquare(z)
		p.gapScale = math.Sqrt((priorSizes + seen*rms*rms) / (priorSizes + seen))
		p.gapScale = min(max(p.gapScale, p.scale), mostScale)
	}
}

// leaveOut returns the errors of predicting some points from all others.
func (p *process) leaveOut(inv *mat.SymDense, out []int) []float64 {
	block := mat.NewSymDense(len(out), nil)
	alpha := mat.NewVecDense(len(out), nil)
	for a, i := range out {
		alpha.SetVec(a, p.alpha.AtVec(i))
		for b := a; b < len(out); b++ {
			block.SetSym(a, b, inv.At(i, out[b]))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(block) {
		return nil
	}
	var covariance mat.SymDense
	var residual mat.VecDense
	if chol.InverseTo(&covariance) != nil || chol.SolveVecTo(&residual, alpha) != nil {
		return nil
	}
	z := make([]float64, len(out))
	for a := range out {
		z[a] = residual.AtVec(a) / math.Sqrt(covariance.At(a, a))
	}
	return z
}

func rootMeanSquare(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum / float64(len(v)))
}

// predict returns mean and standard deviation at places; noise of a new
// measurement is not part of it.
func (p *process) predict(at []point) (means, sigmas []float64) {
	n, m := len(p.points), len(at)
	cross := mat.NewDense(n, m, nil)
	for i := range p.points {
		row := cross.RawRowView(i)
		for j := range at {
			row[j] = covariance(&p.points[i], &at[j])
		}
	}
	means, sigmas = make([]float64, m), make([]float64, m)
	mv := mat.NewVecDense(m, means)
	mv.MulVec(cross.T(), p.alpha)
	for j := range at {
		sigmas[j] = covariance(&at[j], &at[j])
	}
	blas64.Trsm(blas.Left, blas.NoTrans, 1, p.lower.RawTriangular(), cross.RawMatrix())
	for i := range n {
		for j, v := range cross.RawRowView(i) {
			sigmas[j] -= v * v
		}
	}
	for j, v := range sigmas {
		sigmas[j] = p.scaleAt(at[j].octave) * math.Sqrt(max(v, 0))
	}
	return means, sigmas
}

// scaleAt goes over from scale to gapScale within half an octave of the nearest
// size measured.
func (p *process) scaleAt(octave float64) float64 {
	distance := math.Inf(1)
	for i := range p.points {
		distance = min(distance, math.Abs(p.points[i].octave-octave))
	}
	return p.scale + min(1, 2*distance)*(p.gapScale-p.scale)
}
