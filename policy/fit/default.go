package fit

import (
	"math"
	"slices"
)

// defaultFit predicts what the library's own choice takes between the sizes at which that
// was measured. Where the choice is the same at the sizes on either side, the curve of
// that configuration tells the way from one to the other. Where it changes on the way,
// the two curves bound it, and it is taken to be in the middle. Where one of the two is
// not known, a line joins the two times.
type defaultFit struct {
	cells  []Cell // ascending sizes
	fitted map[Config]*familyFit
	line   *polyline
}

func (g *Group) fitDefault(fitted map[Config]*familyFit) *defaultFit {
	d := &defaultFit{g.Default, fitted, &polyline{}}
	for _, c := range g.Default {
		d.line.add(c, math.Hypot(g.noiseAt(c.Bytes), c.doubt()))
	}
	d.line.learnSpread()
	return d
}

func (d *defaultFit) predict(_ int, bytes []uint64) (means, sigmas []float64) {
	means, sigmas = make([]float64, len(bytes)), make([]float64, len(bytes))
	for i, b := range bytes {
		means[i], sigmas[i] = d.at(b)
	}
	return means, sigmas
}

func (d *defaultFit) at(bytes uint64) (mean, sigma float64) {
	octave := log2(bytes)
	i, exact := slices.BinarySearch(d.line.octaves, octave)
	if exact || i == 0 || i == len(d.cells) {
		return d.line.at(octave)
	}
	below, s0, ok0 := d.by(i-1, bytes)
	above, s1, ok1 := d.by(i, bytes)
	if !ok0 || !ok1 {
		return d.line.at(octave)
	}
	if d.cells[i-1].Config == d.cells[i].Config {
		t := (octave - d.line.octaves[i-1]) / (d.line.octaves[i] - d.line.octaves[i-1])
		return below + t*(above-below), max(s0, s1)
	}
	return (below + above) / 2, math.Sqrt((below-above)*(below-above)/4 + (s0*s0+s1*s1)/2)
}

// by is what the configuration that the library chose at a measured size takes at another
// one: its curve, moved to where the library's own time was.
func (d *defaultFit) by(i int, bytes uint64) (mean, sigma float64, ok bool) {
	c := d.cells[i]
	config := c.Config
	if d.fitted[config] == nil {
		config.Channels = 0 // measured as the library's own count
	}
	f := d.fitted[config]
	if f == nil {
		return 0, 0, false
	}
	if own := f.measured(config.Channels); !own.Contains(bytes) || !own.Contains(c.Bytes) {
		return 0, 0, false
	}
	means, sigmas := f.predict(config.Channels, []uint64{c.Bytes, bytes})
	return means[1] + math.Log(c.Micros) - means[0], max(sigmas[1], d.line.noises[i]), true
}
