package report

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// coverage counts, per family and size, how many channel counts were measured.
type coverage struct {
	Sizes    []uint64      `json:"sizes"`
	Families []familyCover `json:"families"`
	Default  []bool        `json:"default"` // at Sizes
}

type familyCover struct {
	Name     string `json:"n"`
	Channels []int  `json:"ch"` // measured at any size
	Count    []int  `json:"k"`  // at Sizes
}

func newCoverage(g *fit.Group) coverage {
	c := coverage{Sizes: g.AllSizes(), Families: []familyCover{}}
	c.Default = make([]bool, len(c.Sizes))
	for _, d := range g.Default {
		i, _ := slices.BinarySearch(c.Sizes, d.Bytes)
		c.Default[i] = true
	}
	for i := range g.Points {
		point := &g.Points[i]
		name := point.Config.Cell.String()
		if n := len(c.Families); n == 0 || c.Families[n-1].Name != name {
			c.Families = append(c.Families, familyCover{Name: name, Count: make([]int, len(c.Sizes))})
		}
		f := &c.Families[len(c.Families)-1]
		if n := len(f.Channels); n == 0 || f.Channels[n-1] != point.Config.Channels {
			f.Channels = append(f.Channels, point.Config.Channels)
		}
		k, _ := slices.BinarySearch(c.Sizes, point.Bytes)
		f.Count[k]++
	}
	return c
}
