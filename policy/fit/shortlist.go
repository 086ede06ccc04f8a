package fit

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Candidate is a configuration worth measuring on a communicator that was not
// measured, at the sizes given.
type Candidate struct {
	Config nccl.Config
	Sizes  []uint64 // ascending
}

// candidatesPerSize: the best configuration on more nodes is nearly always among
// the three best of the largest several-node count measured.
const candidatesPerSize = 3

func compareTimes(a, b Point) int { return cmp.Or(cmp.Compare(a.Micros, b.Micros), a.compare(b)) }

// Shortlist returns the three fastest configurations of each size. Those fastest at most
// sizes come first.
func (g *Group) Shortlist() []Candidate {
	at := map[nccl.Config]int{}
	var list []Candidate
	points := g.bySize()
	for _, b := range g.Sizes() {
		best := slices.Clone(points[b])
		slices.SortFunc(best, compareTimes)
		for _, c := range best[:min(len(best), candidatesPerSize)] {
			i, ok := at[c.Config]
			if !ok {
				i = len(list)
				at[c.Config] = i
				list = append(list, Candidate{Config: c.Config})
			}
			list[i].Sizes = append(list[i].Sizes, b)
		}
	}
	slices.SortStableFunc(list, func(a, b Candidate) int { return cmp.Compare(len(b.Sizes), len(a.Sizes)) })
	return list
}
