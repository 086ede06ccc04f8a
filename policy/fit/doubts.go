package fit

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Contradiction is two sweeps whose times of the same configurations and sizes differ
// by far more than repetitions do. Causes are a machine that was not quiet, other hosts,
// or another library.
type Contradiction struct {
	// A and B are files, or the sources that rows of one file name; A is the faster one. Both are "" where many pairs
	// of sources are apart.
	A, B string
	// Sizes are those at which points are apart.
	Sizes nccl.Range
	// Apart counts points at which they are that far apart, of the Common ones.
	Apart, Common int
	Factor        float64 // between their times, the median of those points
}

// Varies reports whether times vary from run to run, and no two sweeps contradict each other.
func (c Contradiction) Varies() bool { return c.A == "" && c.B == "" }

const (
	// contradictionRatio is how far apart medians are at least, in ln(us): a factor of
	// 1.2. Good runs on different days differ by a few percent.
	contradictionRatio = 0.1823
	// contradictionShare of the common points makes a pair worth naming.
	contradictionShare = 0.2
	// So many pairs may each be two sweeps that contradict each other. Where there are more, the times vary.
	severalContradictions = 3
)

// sourced is a point as several sources have it, ascending.
type sourced struct {
	bytes   uint64
	medians []bySource
}

// bySource is the median of one source's readings of a point.
type bySource struct {
	source
	micros float64
}

// medians returns one median per source, ascending, and adds how far repetitions of
// one source are apart to spread.
func medians(readings []*reading, spread *[]float64) []bySource {
	times := map[source][]float64{}
	for _, r := range readings {
		if of := times[r.source]; len(of) > 0 {
			*spread = append(*spread, math.Abs(math.Log(r.Micros/of[len(of)-1])))
		}
		times[r.source] = append(times[r.source], r.Micros)
	}
	var all []bySource
	for s, of := range times {
		all = append(all, bySource{s, stats.Median(of)})
	}
	slices.SortFunc(all, func(a, b bySource) int {
		return cmp.Or(cmp.Compare(a.micros, b.micros), cmp.Compare(a.file, b.file), cmp.Compare(a.rows, b.rows))
	})
	return all
}

// findContradictions names the pairs of sources that are far apart at some points.
// points holds the sources' medians of each point of the group, defaults of one size
// as one point. Medians of one repetition each are held against the noise of a quiet
// machine.
func findContradictions(points []sourced, spread []float64) []Contradiction {
	noise := assumedNoise
	if len(spread) >= fewPairs {
		noise = noiseOf(spread)
	}
	least := max(contradictionRatio, 6*noise)
	type pair struct{ a, b string }
	apart, sizes := map[pair][]float64{}, map[pair][]uint64{} // of each point that is that far apart
	for _, p := range points {
		fastest, slowest := p.medians[0], p.medians[len(p.medians)-1]
		if d := math.Log(slowest.micros / fastest.micros); d > least {
			a, b := namesOf(fastest.source, slowest.source)
			at := pair{a, b}
			apart[at], sizes[at] = append(apart[at], d), append(sizes[at], p.bytes)
		}
	}
	if len(apart) == 0 {
		return nil
	}
	has := func(point sourced, name string) bool {
		return slices.ContainsFunc(point.medians, func(m bySource) bool { return m.file == name || m.rows == name })
	}
	common := map[pair]int{}
	for p := range apart {
		for _, point := range points {
			common[p] += boolToInt(has(point, p.a) && has(point, p.b))
		}
	}
	contradiction := func(p pair, logs []float64, at []uint64, common int) Contradiction {
		return Contradiction{p.a, p.b, nccl.Range{Min: slices.Min(at), Max: slices.Max(at)}, len(logs), common,
			math.Exp(stats.Median(logs))}
	}
	var all []Contradiction
	var logs []float64 // of all of them
	var at []uint64
	for p, d := range apart {
		if float64(len(d)) >= contradictionShare*float64(common[p]) {
			all = append(all, contradiction(p, d, sizes[p], common[p]))
			logs, at = append(logs, d...), append(at, sizes[p]...)
		}
	}
	if len(all) > severalContradictions {
		return []Contradiction{contradiction(pair{}, logs, at, len(points))}
	}
	slices.SortFunc(all, func(a, b Contradiction) int {
		return cmp.Or(cmp.Compare(b.Apart, a.Apart), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return all
}

// source is where samples come from: the file that was read, "" where nobody said,
// and what its rows name.
type source struct{ file, rows string }

// namesOf tells two sources apart, by the files where these are two.
func namesOf(a, b source) (string, string) {
	if a.file != b.file {
		return a.file, b.file
	}
	return a.rows, b.rows
}

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
