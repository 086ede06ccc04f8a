package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// OwnChoice is what NCCL was measured to do when left alone. Between two sizes that were measured
// it is the choice at the nearer one.
type OwnChoice struct {
	nccl.Config // NoCell: the time was measured, and nobody wrote down what took it

	LnMicros, Sigma float64 // ln(us) and its standard deviation, as decisions reckon with
}

// Micros is the time, for people.
func (c OwnChoice) Micros() float64 { return math.Exp(c.LnMicros) }

// Own returns what NCCL does by itself where that was measured on this communicator.
func (v *View) Own(coll nccl.Coll, bytes uint64) (own OwnChoice, ok bool) {
	g, octave, _ := v.find(coll, bytes)
	if g == nil || g.file.Nodes != v.nodes {
		return own, false
	}
	below, above, ok := g.defaultsAround(bytes)
	if !ok {
		return own, false
	}
	near := below
	if octave-log2(below.bytes) > log2(above.bytes)-octave {
		near = above
	}
	own = OwnChoice{Config: nccl.Config{Cell: nccl.NoCell}}
	if below.Algo >= 0 && above.Algo >= 0 {
		own.Algo, own.Proto = near.Algo, near.Proto
		if below.sameCell(above) && below.Channels == above.Channels {
			own.Channels = near.Channels
		}
	}
	own.LnMicros, own.Sigma = g.byDefault(octave, below, above)
	return own, true
}

// defaultTime is what NCCL's own choice takes. Where what it would choose now is not what it chose
// when measured, the fastest that its cell can be stands in, so that a gain is never assumed.
func (v *View) defaultTime(g *compiledGroup, bytes uint64, costs nccl.Costs, best *compiledCurve) (ln, sigma float64, same, ok bool) {
	pickAlgo, pickProto, tied := costs.Own()
	if tied {
		return 0, 0, false, false // releases take different ones
	}
	octave := log2(bytes)
	if below, above, known := g.defaultsAround(bytes); known {
		as := func(d compiledDefault) bool { return d.Algo < 0 || d.Algo == pickAlgo && d.Proto == pickProto }
		if costs.AvailableOnly || as(below) || as(above) {
			ln, sigma = g.byDefault(octave, below, above)
			return ln, sigma, below.is(best) && above.is(best), true
		}
	}
	for i := range g.curves {
		c := &g.curves[i]
		if c.Algo != pickAlgo || c.Proto != pickProto {
			continue
		}
		if l, s := c.at(octave); s > 0 && (!ok || l < ln) {
			ln, sigma, ok = l, s, true
		}
	}
	return ln, sigma, false, ok
}

// byDefault is what NCCL's own choice takes between two sizes at which it was measured: from the curve of what it chose at
// the one to the curve of what it chose at the other. Where that is not the same, the two curves bound it. Where one of
// them is not known, the default's own times tell.
func (g *compiledGroup) byDefault(octave float64, below, above compiledDefault) (ln, sigma float64) {
	if below.bytes == above.bytes {
		return below.ln, g.file.Noise
	}
	low, s, ok := g.moved(octave, below)
	high, z, too := g.moved(octave, above)
	if !ok || !too {
		return g.own.at(octave)
	}
	from, to := log2(below.bytes), log2(above.bytes)
	ln = low + (octave-from)/(to-from)*(high-low)
	if below.sameCell(above) && below.Channels == above.Channels {
		return ln, max(s, z)
	}
	return ln, math.Sqrt((low-high)*(low-high)/4 + (s*s+z*z)/2)
}

// moved is the curve of what NCCL chose at a measured size, moved to where NCCL's own time was.
func (g *compiledGroup) moved(octave float64, d compiledDefault) (ln, sigma float64, ok bool) {
	c := g.curve(d.Algo, d.Proto, d.Channels)
	if c == nil {
		c = g.curve(d.Algo, d.Proto, 0) // measured as NCCL's own count
	}
	if home := log2(d.bytes); c != nil && c.has(octave) && c.has(home) {
		ln, sigma = c.at(octave)
		was, _ := c.at(home)
		return ln + d.ln - was, sigma, true
	}
	return 0, 0, false
}

// is reports whether a configuration is the default itself: NCCL's own channel count is whatever
// that had.
func (d compiledDefault) is(c *compiledCurve) bool {
	return d.Algo == c.Algo && d.Proto == c.Proto && (d.Channels == c.Channels || c.Channels == 0)
}

func (d compiledDefault) sameCell(e compiledDefault) bool {
	return d.Algo == e.Algo && d.Proto == e.Proto
}

// defaultsAround returns the measured defaults at or next to a size, twice the same where it was
// measured itself.
func (g *compiledGroup) defaultsAround(bytes uint64) (below, above compiledDefault, ok bool) {
	i, exact := slices.BinarySearchFunc(g.defaults, bytes, func(d compiledDefault, b uint64) int {
		return cmp.Compare(d.bytes, b)
	})
	switch {
	case exact:
		return g.defaults[i], g.defaults[i], true
	case i == 0 || i == len(g.defaults):
		return below, above, false
	}
	return g.defaults[i-1], g.defaults[i], true
}
