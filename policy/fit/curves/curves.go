// Package curves reads the curves of a fitted model for people: in order of how
// often a configuration is the fastest, so that the first few are worth drawing.
package curves

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Curve is one configuration of a group.
type Curve struct {
	fit.Config
	Measured []Point // as measured, repetitions pooled; ascending sizes
	Fitted   []Point // at the sizes of the group's axis
	Wins     int     // measured sizes at which nothing was faster
	// Behind is the mean over its measured sizes of ln(us / least us measured
	// there): 0 for a configuration that always wins.
	Behind float64
}

// Point is a time with the standard deviation of its ln(us); 0 of a measured one.
type Point struct {
	Bytes         uint64
	Micros, Sigma float64
}

// quantile95 of the normal distribution: as many sigmas on either side hold 90 %.
const quantile95 = 1.6449

// Band is the 90 % interval of the time.
func (p Point) Band() (low, high float64) {
	f := math.Exp(quantile95 * p.Sigma)
	return p.Micros / f, p.Micros * f
}

// KeyOf is the key of a compiled model's group.
func KeyOf(g *model.Group) (fit.Key, error) {
	coll, err := nccl.Colls.Parse(g.Coll)
	return fit.Key{Coll: coll, Nodes: g.Nodes, Ranks: g.Ranks}, err
}

// Best lists the least time measured at each size with any configuration,
// ascending sizes.
func Best(g *model.Group) []Point {
	least := map[uint64]float64{}
	for _, f := range g.Families {
		for _, c := range f.Curves {
			for _, m := range c.Measured {
				if us, ok := least[uint64(m[0])]; !ok || m[1] < us {
					least[uint64(m[0])] = m[1]
				}
			}
		}
	}
	var best []Point
	for b, us := range least {
		best = append(best, Point{Bytes: b, Micros: us})
	}
	slices.SortFunc(best, func(a, b Point) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return best
}

// Ranked lists the curves of a compiled model's group, those that win most first.
func Ranked(g *model.Group) ([]Curve, error) {
	least := map[uint64]float64{}
	for _, p := range Best(g) {
		least[p.Bytes] = p.Micros
	}
	var all []Curve
	for _, f := range g.Families {
		algo, err := nccl.Algos.Parse(f.Algo)
		if err != nil {
			return nil, err
		}
		proto, err := nccl.Protos.Parse(f.Proto)
		if err != nil {
			return nil, err
		}
		for i := range f.Curves {
			m := &f.Curves[i]
			c := Curve{Config: fit.Config{FamilyKey: fit.FamilyKey{Algo: algo, Proto: proto}, Channels: m.Channels}}
			for _, p := range m.Measured {
				b := uint64(p[0])
				c.Measured = append(c.Measured, Point{Bytes: b, Micros: p[1]})
				if c.Behind += math.Log(p[1] / least[b]); p[1] == least[b] {
					c.Wins++
				}
			}
			c.Behind /= max(1, float64(len(m.Measured)))
			n := 0
			for _, b := range g.Axis {
				if m.Min <= b && b <= m.Max && n < len(m.Micros) && n < len(m.Sigma) {
					c.Fitted = append(c.Fitted, Point{b, m.Micros[n], m.Sigma[n]})
					n++
				}
			}
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Curve) int {
		return cmp.Or(cmp.Compare(b.Wins, a.Wins), cmp.Compare(a.Behind, b.Behind))
	})
	return all, nil
}

// Default lists the measured times of the library's own choice, with the label it
// had; none where it was not measured.
func Default(g *model.Group) (points []Point, labels []string) {
	if g.Default == nil {
		return nil, nil
	}
	for _, p := range g.Default.Measured {
		label := ""
		if p.Algo != "" {
			label = p.Algo + "/" + p.Proto
			if p.Channels > 0 {
				label = fmt.Sprintf("%s %d ch", label, p.Channels)
			}
		}
		points, labels = append(points, Point{Bytes: p.Bytes, Micros: p.Micros}), append(labels, label)
	}
	return points, labels
}
