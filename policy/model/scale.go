package model

import (
	"encoding/binary"
	"math"
	"math/bits"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/digest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Scaling carries the physics of a model to a machine of the same shape with other bandwidths and
// latencies. What was learnt beyond the physics is not used there, nor is what NCCL was measured to
// choose. How far scaling can be trusted was not measured: the gain demanded is that of a model
// used for more nodes, where it was measured how differently configurations scale.

// mostScaling is the largest ratio of bandwidths, either way, that is bridged.
const mostScaling = 4

// scaling is what changes for the communicators of one model.
type scaling struct {
	slower     float64 // time per byte on the narrowest link, here / at home
	hopLatency float64 // us more per hop over the network
}

// scalingOf compares the narrowest links on the way of a ring. ok is false where they are not known
// or too far apart.
func scalingOf(nodes int, home, here *topo.Summary) (s scaling, ok bool) {
	narrowest := func(t *topo.Summary) float64 {
		switch {
		case nodes == 1:
			return t.IntraBW
		case t.GPUs == 1:
			return t.NetBW
		}
		return min(t.IntraBW, t.NetBW)
	}
	a, b := narrowest(home), narrowest(here)
	if !(a > 0) || !(b > 0) {
		return s, false
	}
	s.slower = a / b
	if nodes > 1 {
		s.hopLatency = here.NetLatency - home.NetLatency
	}
	return s, s.slower <= mostScaling && s.slower >= 1.0/mostScaling
}

// scaled returns the model for a similar machine, or nil where nothing of it can be scaled.
func (m *Model) scaled(home, here *topo.Summary) *Model {
	s := &Model{Name: m.Name, File: m.File, home: m.home, similar: true, groups: map[groupKey]*compiledGroup{}}
	for key, g := range m.groups {
		by, ok := scalingOf(key.nodes, home, here)
		if !ok {
			continue
		}
		if scaled := g.scaled(key, by); len(scaled.curves) > 0 {
			s.groups[key] = scaled
		}
	}
	if len(s.groups) == 0 {
		return nil
	}
	used := []float64{here.IntraBW, here.NetBW, here.NetLatency, float64(here.GPUs)}
	s.digest = sync.OnceValue(func() digest.Digest {
		home := m.Digest()
		text := home[:]
		for _, v := range used {
			text = binary.LittleEndian.AppendUint64(text, math.Float64bits(v))
		}
		return digest.Of(text)
	})
	return s
}

func (g *compiledGroup) scaled(key groupKey, by scaling) *compiledGroup {
	s := &compiledGroup{file: g.file, axis: g.axis, octaves: g.octaves}
	for i := range g.curves {
		c := g.curves[i]
		f := c.family
		if len(f.Physics) == 0 || f.PhysicsSigma == 0 || c.channels == 0 {
			continue // nothing tells what of its time would change
		}
		extra := float64(networkHops(key.coll, c.algo, key.nodes)) * by.hopLatency
		if f.Physics[0]+extra < 0 {
			continue // less than the network's share was measured
		}
		t := lnTable{make([]float64, len(g.axis)), make([]float64, len(g.axis))}
		for k, bytes := range g.axis {
			t.ln[k], t.sigma[k] = math.NaN(), math.NaN()
			if math.IsNaN(c.ln[k]) {
				continue
			}
			// Whether bytes per channel wait for the link or for the GPU the fit cannot tell. The
			// truth is between the two.
			byLink := physicsMicros(f.Physics, float64(bytes), float64(c.channels), by.slower, by.slower) + extra
			byGPU := physicsMicros(f.Physics, float64(bytes), float64(c.channels), by.slower, 1) + extra
			if !(byLink > 0) || !(byGPU > 0) {
				continue
			}
			a, b := math.Log(byLink), math.Log(byGPU)
			half := (a - b) / 2
			t.ln[k] = (a + b) / 2
			t.sigma[k] = math.Sqrt(f.PhysicsSigma*f.PhysicsSigma + half*half)
		}
		c.lnTable = t
		s.curves = append(s.curves, c)
	}
	return s
}

// numPhysics is the number of a family's physical terms, see Family.
const numPhysics = 8

// physicsMicros is the physics of s bytes and c channels, with bytes on the links and bytes per
// channel so much slower. What is half latency and half bandwidth slows down by the root.
func physicsMicros(w []float64, s, c, links, channels float64) float64 {
	rootLinks, rootChannels := math.Sqrt(links), math.Sqrt(channels)
	sum := w[0] + w[1]*c
	for _, term := range [...]float64{
		w[2] * s / c * channels,
		w[3] * s * links,
		w[4] / c,
		w[5] * math.Sqrt(s) * rootLinks,
		w[6] * math.Sqrt(s/c) * rootChannels,
		w[7] * s * c * links,
	} {
		sum += term
	}
	return sum
}

// networkHops is how many times in a row a collective crosses the network, as NCCL 2.30.7 counts
// them (graph/tuning.cc).
func networkHops(coll nccl.Coll, a nccl.Algo, nodes int) int {
	if nodes < 2 {
		return 0
	}
	depth := bits.Len(uint(nodes)) - 1
	switch a {
	case nccl.AlgoTree, nccl.AlgoNVLSTree:
		return 2 * depth
	case nccl.AlgoPAT:
		return depth
	case nccl.AlgoRing:
		if coll == nccl.CollAllReduce {
			return 2 * (nodes - 1)
		}
		return nodes - 1
	}
	return 1
}
