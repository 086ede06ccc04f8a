package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A predictor says what ln(us) a configuration takes, with a standard deviation
// that includes the noise of measuring it once. Sizes may be any; what is outside
// its domain it does not know.
type predictor interface {
	predict(channels int, bytes []uint64) (means, sigmas []float64)
}

// familyFit is the model of one algorithm and protocol.
type familyFit struct {
	cells    []Cell
	channels []int  // measured, ascending
	most     uint64 // bytes
	// mostPerChannel is the most bytes that a channel had to move.
	mostPerChannel uint64
	predictor
}

const (
	// fewPoints is what physics and a process need at least.
	fewPoints = 6
	// mostPoints bounds a process, whose work grows with their cube; cells that are
	// close in size are merged until there are no more.
	mostPoints = 320
)

func (g *Group) fitFamily(cells []Cell, shared *layouts) *familyFit {
	f := &familyFit{cells: cells}
	for _, c := range cells {
		channels := uint64(max(c.Config.Channels, 1))
		f.most, f.mostPerChannel = max(f.most, c.Bytes), max(f.mostPerChannel, (c.Bytes+channels-1)/channels)
		if n := len(f.channels); n == 0 || f.channels[n-1] != c.Config.Channels {
			f.channels = append(f.channels, c.Config.Channels)
		}
	}
	lines := g.fitInterpolation(cells)
	f.predictor = lines
	if !g.plain && len(cells) >= fewPoints && f.channels[0] > 0 {
		f.predictor = &blend{g.fitJoint(cells, shared), lines}
	}
	return f
}

// measured is the range of sizes at which a configuration was measured itself.
func (f *familyFit) measured(channels int) nccl.Range {
	r := nccl.Range{Min: math.MaxUint64}
	for _, c := range f.cells {
		if c.Config.Channels == channels {
			r = nccl.Range{Min: min(r.Min, c.Bytes), Max: max(r.Max, c.Bytes)}
		}
	}
	return r
}

// domain is the range of sizes for which a configuration is predicted: with a
// joint model, all that are smaller than the family's largest, for they take no
// longer, and somewhat larger ones. A size is too large, too, if it gives a channel
// far more to move than any had: with the links' share of the time alone nothing
// tells the channel's.
func (f *familyFit) domain(channels int) nccl.Range {
	if _, ok := f.predictor.(*blend); !ok {
		return f.measured(channels)
	}
	return nccl.Range{Min: 1, Max: reach * min(f.most, f.mostPerChannel*uint64(channels))}
}

// reach is the factor in size by which a joint model predicts beyond what was
// measured of its family. Physics carries that far, and without it a family that
// lacks just the last size leaves that to others that are three times as slow.
const reach = 4

// blend is the mean of a joint model and of the line between a configuration's own points,
// where it has any around, each weighed by the inverse of its variance: the one knows the
// whole family, the other follows steps that the family does not share.
type blend struct {
	*joint
	lines *interpolation
}

func (b *blend) predict(channels int, bytes []uint64) (means, sigmas []float64) {
	means, sigmas = b.joint.predict(channels, bytes)
	line := b.lines.curves[channels]
	if line == nil {
		return means, sigmas
	}
	for i, size := range bytes {
		octave := log2(size)
		if octave < line.octaves[0] || octave > line.octaves[len(line.octaves)-1] {
			continue
		}
		mean, sigma := line.at(octave)
		share := sigma * sigma / (sigma*sigma + sigmas[i]*sigmas[i])
		means[i] = share*means[i] + (1-share)*mean
		sigmas[i] = share*sigmas[i] + (1-share)*sigma // as if both erred alike
	}
	return means, sigmas
}

// joint is physics times a smooth correction, over bytes and channels.
type joint struct {
	physics physics
	process *process
	noiseAt func(bytes uint64) float64
}

// caution multiplies the standard deviation where a configuration itself was not
// measured. A scale below 1 was learnt between measured sizes and holds only there.
func (j *joint) caution() float64 { return max(1, 1/j.process.gapScale) }

func (g *Group) fitJoint(cells []Cell, shared *layouts) *joint {
	n := len(cells)
	s, c, us, w := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, cell := range cells {
		s[i], c[i], us[i], w[i] = float64(cell.Bytes), float64(cell.Config.Channels), cell.Micros, 1
		if cell.Outlier {
			w[i] = 0.1
		}
	}
	j := &joint{physics: fitPhysics(s, c, us, w), noiseAt: g.noiseAt}
	points := make([]point, n)
	for i, cell := range cells {
		points[i] = point{input{math.Log2(s[i]), math.Log2(c[i]), g.cellNoise(cell)}, math.Log(us[i] / j.physics.micros(s[i], c[i]))}
		if doubt := cell.doubt(); doubt > 0 {
			points[i].noise = math.Hypot(points[i].noise, doubt)
		}
	}
	points = downsample(points, mostPoints)
	inputs, values := make([]input, len(points)), make([]float64, len(points))
	for i, p := range points {
		inputs[i], values[i] = p.input, p.value
	}
	j.process = newProcess(shared.of(inputs), values)
	return j
}

func (j *joint) predict(channels int, bytes []uint64) (means, sigmas []float64) {
	octaves := make([]float64, len(bytes))
	for i, b := range bytes {
		octaves[i] = log2(b)
	}
	means, sigmas = j.process.predict(math.Log2(float64(channels)), octaves)
	for i, b := range bytes {
		means[i] += math.Log(j.physics.micros(float64(b), float64(channels)))
		sigmas[i] = math.Hypot(sigmas[i], j.noiseAt(b))
	}
	return means, sigmas
}

// interpolation joins the points of each channel count by straight lines over
// log2 bytes and ln(us). It serves where too little was measured for more, and
// as what more has to beat.
type interpolation struct {
	curves map[int]*polyline
}

type polyline struct {
	octaves, values []float64
	noises          []float64 // standard deviations of the points
	perOctave       float64   // growth of the standard deviation away from a point
}

const (
	guessPerOctave = 0.15 // where too few points are there to tell
	leastPerOctave = 0.03
	mostPerOctave  = 0.5
)

func (g *Group) fitInterpolation(cells []Cell) *interpolation {
	ip := &interpolation{map[int]*polyline{}}
	for _, c := range cells {
		p := ip.curves[c.Config.Channels]
		if p == nil {
			p = &polyline{}
			ip.curves[c.Config.Channels] = p
		}
		p.add(c, math.Hypot(g.noiseAt(c.Bytes), c.doubt()))
	}
	for _, p := range ip.curves {
		p.learnSpread()
	}
	return ip
}

func (p *polyline) add(c Cell, noise float64) {
	p.octaves, p.values, p.noises = append(p.octaves, log2(c.Bytes)), append(p.values, math.Log(c.Micros)), append(p.noises, noise)
}

// learnSpread leaves out each inner point and sees how far its neighbours' line
// passes from it, per octave of distance.
func (p *polyline) learnSpread() {
	var off []float64
	for i := 1; i+1 < len(p.octaves); i++ {
		x, x0, x1 := p.octaves[i], p.octaves[i-1], p.octaves[i+1]
		line := p.values[i-1] + (p.values[i+1]-p.values[i-1])*(x-x0)/(x1-x0)
		off = append(off, math.Abs(p.values[i]-line)/min(x-x0, x1-x))
	}
	p.perOctave = guessPerOctave
	if len(off) >= 3 {
		sum := 0.0
		for _, v := range off {
			sum += v * v
		}
		p.perOctave = min(max(math.Sqrt(sum/float64(len(off))), leastPerOctave), mostPerOctave)
	}
}

func (p *polyline) at(octave float64) (value, sigma float64) {
	i, exact := slices.BinarySearch(p.octaves, octave)
	n := len(p.octaves)
	switch {
	case exact:
		return p.values[i], p.noises[i]
	case i == 0:
		return p.values[0], math.Hypot(p.noises[0], mostPerOctave*(p.octaves[0]-octave))
	case i == n:
		return p.values[n-1], math.Hypot(p.noises[n-1], mostPerOctave*(octave-p.octaves[n-1]))
	}
	x0, x1 := p.octaves[i-1], p.octaves[i]
	t := (octave - x0) / (x1 - x0)
	return p.values[i-1] + t*(p.values[i]-p.values[i-1]), math.Hypot(max(p.noises[i-1], p.noises[i]), p.perOctave*min(octave-x0, x1-octave))
}

func (ip *interpolation) predict(channels int, bytes []uint64) (means, sigmas []float64) {
	means, sigmas = make([]float64, len(bytes)), make([]float64, len(bytes))
	for i, b := range bytes {
		means[i], sigmas[i] = ip.curves[channels].at(log2(b))
	}
	return means, sigmas
}
