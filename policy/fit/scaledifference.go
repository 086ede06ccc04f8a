package fit

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// ScaleDifference is a range of sizes at which another configuration is the fastest than on fewer nodes.
type ScaleDifference struct {
	Key
	Fewer nccl.Comm  // the most nodes below Key's that were measured, two or more
	Bytes nccl.Range // from the first to the last size measured
	// There and Here are the fastest on Fewer and on Key's nodes; NoCell: the default.
	There, Here nccl.Config
	Slower      float64 // time of There / time of Here on Key's nodes, the most of the sizes
}

// ScaleDifferences returns where the fastest on fewer nodes is slower on more by over 1 %, as far as both were measured
// there.
func (s *Set) ScaleDifferences() (all []ScaleDifference) {
	for _, g := range s.Groups {
		fewer := s.fewerNodes(g)
		if fewer == nil {
			continue
		}
		there, here := fewer.fastest(), g.fastest()
		var last *ScaleDifference // nil: the size before was alike
		for _, b := range g.AllSizes() {
			from, known := there[b]
			to, too := here[b]
			if !known || !too {
				continue
			}
			d, _ := g.defaultAt(b)
			us := d.Micros
			if from.Config.Known() {
				us = g.timeOf(from.Config, b)
			}
			switch slower := us / to.Micros; {
			case !(slower > harmful):
				last = nil
			case last != nil && last.There == from.Config && last.Here == to.Config:
				last.Bytes.Max, last.Slower = b, max(last.Slower, slower)
			default:
				all = append(all, ScaleDifference{Key: g.Key, Fewer: fewer.Comm, Bytes: nccl.Range{Min: b, Max: b},
					There: from.Config, Here: to.Config, Slower: slower})
				last = &all[len(all)-1]
			}
		}
	}
	return all
}

// fewerNodes is the group of the same collective and ranks per node with the most nodes below a group's, at least two;
// nil: none.
func (s *Set) fewerNodes(g *Group) (fewer *Group) {
	for _, o := range s.Groups {
		if o.Coll == g.Coll && o.Nodes > 1 && o.Nodes < g.Nodes && o.Ranks*g.Nodes == g.Ranks*o.Nodes &&
			len(o.Points) > 0 && (fewer == nil || o.Nodes > fewer.Nodes) {
			fewer = o
		}
	}
	return fewer
}

// fastest is what is fastest at each size at which the default was measured, by the verification where there was one.
// The configuration of the default is unknownConfig.
func (g *Group) fastest() map[uint64]Point {
	all, points := map[uint64]Point{}, g.bySize()
	for _, d := range g.Default {
		d.Config = unknownConfig
		all[d.Bytes] = slices.MinFunc(append(slices.Clip(points[d.Bytes]), d), compareTimes)
	}
	for _, c := range g.verdicts() {
		if c.wins() {
			all[c.best.Bytes] = c.best
		} else {
			c.byDefault.Config = unknownConfig
			all[c.byDefault.Bytes] = c.byDefault
		}
	}
	return all
}
