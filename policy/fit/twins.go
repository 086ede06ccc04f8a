package fit

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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
	var families []byPlace
	for _, cells := range g.families() {
		if cells[0].Config.Channels > 0 {
			families = append(families, newByPlace(cells))
		}
	}
	for i, a := range families {
		for _, b := range families[:i] {
			g.Twins = append(g.Twins, twins(b, a)...)
		}
	}
	slices.SortFunc(g.Twins, func(a, b Twin) int {
		return cmp.Or(a.A.compare(b.A), a.B.compare(b.B), cmp.Compare(a.Bytes, b.Bytes))
	})
}

// byPlace are the times of a family, ascending sizes, then channels.
type byPlace struct {
	FamilyKey
	times []placedTime
}

type placedTime struct {
	bytes    uint64
	channels int
	ln       float64
}

func newByPlace(cells []Cell) byPlace {
	f := byPlace{FamilyKey: cells[0].Config.FamilyKey}
	for _, c := range cells {
		f.times = append(f.times, placedTime{c.Bytes, c.Config.Channels, math.Log(c.Micros)})
	}
	slices.SortFunc(f.times, placedTime.compare)
	return f
}

func (a placedTime) compare(b placedTime) int {
	if a.bytes != b.bytes {
		return cmp.Compare(a.bytes, b.bytes)
	}
	return cmp.Compare(a.channels, b.channels)
}

// twins compares two families at the channel counts and sizes they share.
func twins(one, other byPlace) (found []Twin) {
	a, b := one.times, other.times
	var bytes uint64
	var off []float64
	judge := func() {
		if len(off) >= fewTwinCells && shareBelow(off, twinMost) >= twinShare {
			if typical := median(off); typical < twinMedian {
				found = append(found, Twin{bytes, one.FamilyKey, other.FamilyKey, len(off), typical})
			}
		}
		off = off[:0]
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch order := a[i].compare(b[j]); {
		case order < 0:
			i++
		case order > 0:
			j++
		default:
			if a[i].bytes != bytes {
				judge()
				bytes = a[i].bytes
			}
			off = append(off, math.Abs(a[i].ln-b[j].ln))
			i, j = i+1, j+1
		}
	}
	judge()
	return found
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

// DescribeTwins lists which families coincide at which sizes; empty: none do.
func DescribeTwins(twins []Twin) string {
	var parts []string
	for i := 0; i < len(twins); {
		j := i
		var sizes []string
		for ; j < len(twins) && twins[j].A == twins[i].A && twins[j].B == twins[i].B; j++ {
			sizes = append(sizes, nccl.FormatBytes(twins[j].Bytes))
		}
		parts = append(parts, twins[i].A.String()+" = "+twins[i].B.String()+" at "+strings.Join(sizes, ", "))
		i = j
	}
	return strings.Join(parts, "; ")
}
