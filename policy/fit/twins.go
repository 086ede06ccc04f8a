package fit

import (
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Twin is a size at which two families take the same time at nearly all channel
// counts. Different algorithms and protocols do not do that by chance: the
// library took one path under both labels, and at least one label is wrong.
type Twin struct {
	Bytes   uint64
	A, B    FamilyKey
	Cells   int     // channel counts compared
	Typical float64 // median of |ln ratio|
}

const (
	// Twins have at least so many channel counts in common, half of which differ
	// by less than 1.5 % and three quarters by less than 3 %. The closest pair of
	// families that really differ had 2.4 % for the half.
	fewTwinCells = 4
	twinMedian   = 0.015
	twinMost     = 0.03
	twinShare    = 0.75
)

// findTwins compares all families at all sizes.
func (g *Group) findTwins() {
	g.Twins = nil
	families := slices.DeleteFunc(g.families(), func(cells []Cell) bool { return cells[0].Config.Channels == 0 })
	type place struct {
		channels int
		bytes    uint64
	}
	for i, a := range families {
		at := make(map[place]float64, len(a))
		for _, c := range a {
			at[place{c.Config.Channels, c.Bytes}] = c.Micros
		}
		for _, b := range families[:i] {
			ratios := map[uint64][]float64{}
			for _, c := range b {
				if us, ok := at[place{c.Config.Channels, c.Bytes}]; ok {
					ratios[c.Bytes] = append(ratios[c.Bytes], math.Abs(math.Log(us/c.Micros)))
				}
			}
			for bytes, r := range ratios {
				if len(r) >= fewTwinCells && median(r) < twinMedian && shareBelow(r, twinMost) >= twinShare {
					g.Twins = append(g.Twins, Twin{bytes, b[0].Config.FamilyKey, a[0].Config.FamilyKey, len(r), median(r)})
				}
			}
		}
	}
	slices.SortFunc(g.Twins, func(a, b Twin) int {
		switch {
		case a.A != b.A:
			return a.A.compare(b.A)
		case a.B != b.B:
			return a.B.compare(b.B)
		case a.Bytes < b.Bytes:
			return -1
		}
		return 1
	})
}

func shareBelow(v []float64, bound float64) float64 {
	n := 0
	for _, x := range v {
		if x < bound {
			n++
		}
	}
	return float64(n) / float64(len(v))
}

// twinAt reports whether a family's label cannot be trusted at a measured size.
func (g *Group) twinAt(f FamilyKey, bytes uint64) bool {
	return slices.ContainsFunc(g.Twins, func(t Twin) bool { return t.Bytes == bytes && (t.A == f || t.B == f) })
}

// DescribeTwins lists which families coincide at which sizes; empty: none do.
func DescribeTwins(twins []Twin) string {
	var parts []string
	for i := 0; i < len(twins); {
		j := i
		var sizes []string
		for ; j < len(twins) && twins[j].A == twins[i].A && twins[j].B == twins[i].B; j++ {
			sizes = append(sizes, policy.FormatBytes(twins[j].Bytes))
		}
		parts = append(parts, twins[i].A.String()+" = "+twins[i].B.String()+" at "+strings.Join(sizes, ", "))
		i = j
	}
	return strings.Join(parts, "; ")
}
