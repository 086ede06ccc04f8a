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
	Algo     nccl.Algo // -1: the time was measured, and nobody wrote down what took it
	Proto    nccl.Proto
	Channels int // 0: not known

	LnMicros, Sigma float64 // ln(us) and its standard deviation, as decisions reckon with
}

// Micros is the time, for people.
func (c OwnChoice) Micros() float64 { return math.Exp(c.LnMicros) }

// Own returns what NCCL does by itself where that was measured on this communicator.
func (v *View) Own(coll nccl.Coll, bytes uint64) (own OwnChoice, ok bool) {
	g, at, _ := v.find(coll, bytes)
	if g == nil || g.file.Nodes != v.nodes {
		return own, false
	}
	below, above, ok := g.defaultsAround(bytes)
	if !ok {
		return own, false
	}
	near := below
	if float64(bytes)/float64(below.bytes) > float64(above.bytes)/float64(bytes) {
		near = above
	}
	own = OwnChoice{Algo: -1, Proto: -1}
	if below.algo < 0 || above.algo < 0 {
		own.LnMicros, own.Sigma = at.in(g.byDef)
		return own, own.Sigma > 0
	}
	own.Algo, own.Proto = near.algo, near.proto
	if below.sameCell(above) && below.channels == above.channels {
		own.Channels = near.channels
	}
	own.LnMicros, own.Sigma = g.timeOfDefault(at, below, above, near)
	return own, own.Sigma > 0
}

type defaultTime struct{ mean, sigma float64 }

// defaultTime is what NCCL's own choice takes. Where what it would choose now is not what it chose
// when measured, the fastest that its cell can be stands in, so that a gain is never assumed.
func (v *View) defaultTime(g *compiledGroup, at position, costs nccl.Costs, best *compiledCurve) (d defaultTime, same, ok bool) {
	pickAlgo, pickProto, tied := costs.Own()
	if tied {
		return d, false, false // releases take different ones
	}
	is := func(algo nccl.Algo, proto nccl.Proto) bool { return algo == pickAlgo && proto == pickProto }
	below, above, known := g.defaultsAround(at.bytes)
	if known {
		unlabelled := below.algo < 0 || above.algo < 0
		if costs.AvailableOnly || unlabelled || is(below.algo, below.proto) || is(above.algo, above.proto) {
			d.mean, d.sigma = at.in(g.byDef)
			if !unlabelled && !costs.AvailableOnly {
				label := below
				if !is(below.algo, below.proto) {
					label = above
				}
				d.mean, d.sigma = g.timeOfDefault(at, below, above, label)
			}
			same = below.is(best) && above.is(best)
			return d, same, d.sigma > 0
		}
	}
	if pickAlgo < 0 {
		return d, false, false
	}
	found := false
	for i := range g.curves {
		c := &g.curves[i]
		if !is(c.algo, c.proto) {
			continue
		}
		if mean, sigma := at.in(c.lnTable); sigma > 0 && (!found || mean < d.mean) {
			d.mean, d.sigma, found = mean, sigma, true
		}
	}
	return d, false, found
}

// timeOfDefault is what a measured default takes at a size. Where NCCL changes its choice on the
// way from one size to the next and the one that it is on is known, the time is that of its curve,
// moved to where NCCL's own time was.
func (g *compiledGroup) timeOfDefault(at position, below, above, label compiledDefault) (mean, sigma float64) {
	if !below.sameCell(above) {
		c := g.curve(label.algo, label.proto, label.channels)
		if c == nil {
			c = g.curve(label.algo, label.proto, 0) // measured as NCCL's own count
		}
		if c != nil {
			mean, sigma := at.in(c.lnTable)
			home, known := g.locate(label.bytes).in(c.lnTable)
			if sigma > 0 && known > 0 {
				return mean + label.lnMicros - home, sigma
			}
		}
	}
	return at.in(g.byDef)
}

// is reports whether a configuration is the default itself: NCCL's own channel count is whatever
// that had.
func (d compiledDefault) is(c *compiledCurve) bool {
	return d.algo == c.algo && d.proto == c.proto && (d.channels == c.channels || c.channels == 0)
}

func (d compiledDefault) sameCell(e compiledDefault) bool {
	return d.algo == e.algo && d.proto == e.proto
}

// defaultsAround returns the measured defaults at or next to a size, twice the same where it was
// measured itself.
func (g *compiledGroup) defaultsAround(bytes uint64) (below, above compiledDefault, ok bool) {
	i, exact := slices.BinarySearchFunc(g.defaults, bytes, func(d compiledDefault, b uint64) int { return cmp.Compare(d.bytes, b) })
	switch {
	case exact:
		return g.defaults[i], g.defaults[i], true
	case i == 0 || i == len(g.defaults):
		return below, above, false
	}
	return g.defaults[i-1], g.defaults[i], true
}
