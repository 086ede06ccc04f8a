package fit

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Alias is a size at which two families take the same time at nearly all channel
// counts. Different algorithms and protocols do not do that by chance: the
// library took one path under both labels, and at least one label is wrong.
type Alias struct {
	Bytes uint64
	A, B  nccl.Cell
}

const (
	// Aliases have at least so many channel counts in common. Half of these differ by
	// less than 1.5 %, three quarters by less than 3 %. Of families that really
	// differ, the closest pair had 2.4 % for the half.
	fewAliasPoints = 4
	aliasMedian    = 0.015
	aliasMost      = 0.03
	aliasShare     = 0.75
)

// findAliases compares all families at all sizes.
func (g *Group) findAliases() {
	g.Aliases = nil
	for bytes, points := range g.bySize() {
		families := map[nccl.Cell]map[int]float64{} // ln(us) by channels
		for _, c := range points {
			if families[c.Config.Cell] == nil {
				families[c.Config.Cell] = map[int]float64{}
			}
			families[c.Config.Cell][c.Config.Channels] = math.Log(c.Micros)
		}
		for a, one := range families {
			for b, other := range families {
				if off := apart(one, other); a.Compare(b) < 0 && coincide(off) {
					g.Aliases = append(g.Aliases, Alias{bytes, a, b})
				}
			}
		}
	}
	slices.SortFunc(g.Aliases, func(a, b Alias) int {
		return cmp.Or(a.A.Compare(b.A), a.B.Compare(b.B), cmp.Compare(a.Bytes, b.Bytes))
	})
}

// apart is |ln ratio| of two families at the channel counts that they share. NCCL's own, 0, is none.
func apart(one, other map[int]float64) (off []float64) {
	for channels, ln := range one {
		if o, ok := other[channels]; ok && channels > 0 {
			off = append(off, math.Abs(ln-o))
		}
	}
	return off
}

func coincide(off []float64) bool {
	return len(off) >= fewAliasPoints && stats.Median(off) < aliasMedian && shareBelow(off, aliasMost) >= aliasShare
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

// DescribeAliases lists which families coincide at which sizes; empty: none do.
func DescribeAliases(aliases []Alias) string {
	var parts []string
	for i := 0; i < len(aliases); {
		j := i
		var sizes []string
		for ; j < len(aliases) && aliases[j].A == aliases[i].A && aliases[j].B == aliases[i].B; j++ {
			sizes = append(sizes, nccl.FormatBytes(aliases[j].Bytes))
		}
		parts = append(parts, aliases[i].A.String()+" = "+aliases[i].B.String()+" at "+strings.Join(sizes, ", "))
		i = j
	}
	return strings.Join(parts, "; ")
}
