package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// NCCLChoice returns what NCCL was measured to choose on this communicator, with the time that decisions use.
// Between two sizes that were measured it is the choice at the nearer one. Its cell is NoCell if only the time
// is known.
func (v *View) NCCLChoice(call nccl.Call) (choice Choice, ok bool) {
	g, octave, _ := v.find(call)
	if g == nil {
		return choice, false
	}
	below, above, ok := g.defaultsAround(call.Bytes)
	if !ok {
		return choice, false
	}
	near := below
	if octave-log2(below.bytes) > log2(above.bytes)-octave {
		near = above
	}
	choice = NoChoice
	choice.Time = g.byDefault(octave, below, above)
	choice.Default = choice.Time
	if below.Known() && above.Known() {
		choice.Cell = near.Cell
		if below.Config == above.Config {
			choice.Channels = near.Channels
		}
	}
	return choice, true
}

// defaultTime returns the time of NCCL's choice, and whether a configuration is that choice. NCCL may now
// choose another cell than when it was measured. Then the fastest time of that cell counts, so that the gain
// is never overestimated.
func (g *compiledSet) defaultTime(bytes uint64, costs nccl.Costs, config nccl.Config) (t Time, same bool) {
	pick, tied := costs.NCCLChoice()
	if tied {
		return unknownTime, false // releases choose different cells
	}
	octave := log2(bytes)
	if below, above, known := g.defaultsAround(bytes); known {
		as := func(d compiledDefault) bool { return !d.Known() || d.Cell == pick }
		if costs.AvailableOnly || as(below) || as(above) {
			return g.byDefault(octave, below, above), below.is(config) && above.is(config)
		}
	}
	t = unknownTime
	for i := range g.curves {
		c := &g.curves[i]
		if c.Cell != pick {
			continue
		}
		if now := c.at(octave); !now.Unknown() && !(t.LnMicros <= now.LnMicros) {
			t = now
		}
	}
	return t, false
}

// byDefault returns the time of NCCL's choice between two sizes at which it was measured. It goes from the
// curve of the choice below to the curve of the choice above. If the two choices differ, their curves bound
// the time. If one of them has no curve, the default's own times are interpolated.
func (g *compiledSet) byDefault(octave float64, below, above compiledDefault) Time {
	if below.bytes == above.bytes {
		return Time{below.lnMicros, g.Noise}
	}
	low, high := g.moved(octave, below), g.moved(octave, above)
	if low.Unknown() || high.Unknown() {
		return g.defaultCurve.at(octave)
	}
	from, to := log2(below.bytes), log2(above.bytes)
	apart := high.LnMicros - low.LnMicros
	t := Time{low.LnMicros + (octave-from)/(to-from)*apart, max(low.Sigma, high.Sigma)}
	if below.Config != above.Config {
		t.Sigma = math.Sqrt(apart*apart/4 + (low.Sigma*low.Sigma+high.Sigma*high.Sigma)/2)
	}
	return t
}

// moved is the time by the curve of what NCCL chose at a measured size, shifted to meet NCCL's time there.
func (g *compiledSet) moved(octave float64, d compiledDefault) Time {
	c := g.curve(d.Config)
	if c == nil {
		c = g.curve(nccl.Config{Cell: d.Cell}) // measured with NCCL's channel count
	}
	if c == nil {
		return unknownTime
	}
	t := c.at(octave)
	t.LnMicros = t.LnMicros + d.lnMicros - c.at(log2(d.bytes)).LnMicros
	return t
}

// is reports whether a configuration is the default. A channel count of 0 leaves it to NCCL and fits any.
func (d compiledDefault) is(c nccl.Config) bool {
	return d.Cell == c.Cell && (d.Channels == c.Channels || c.Channels == 0)
}

// defaultsAround returns the measured defaults at or next to a size, twice the same where it was
// measured itself.
func (g *compiledSet) defaultsAround(bytes uint64) (below, above compiledDefault, ok bool) {
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
