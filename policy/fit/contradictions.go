package fit

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Contradiction is two sweeps whose times of the same configurations and sizes are
// apart by far more than repetitions are: a machine that was not quiet, other hosts
// or another library.
type Contradiction struct {
	A, B string // files, or the sources that rows of one file name; A is the faster one
	// Apart counts cells at which they are that far apart, of the Common ones.
	Apart, Common int
	Factor        float64 // between their times, the median of those cells
}

const (
	// contradictionRatio is how far apart medians are at least, in ln(us): a factor of
	// 1.2. Good runs on different days differ by a few percent.
	contradictionRatio = 0.1823
	// contradictionShare of the common cells makes a pair worth naming.
	contradictionShare = 0.2
	mostContradictions = 20
)

// origin says from which reading on a pool's readings are of a source.
type origin struct {
	from   uint32
	source int32
}

// sourceOf returns the source of a reading.
func (vp *variantPool) sourceOf(r *reading) int32 {
	i, exact := slices.BinarySearchFunc(vp.origins, r.order, func(o origin, order uint32) int { return cmp.Compare(o.from, order) })
	if !exact {
		i--
	}
	return vp.origins[i].source
}

// fileOf cuts the line off a sample's source: "a.txt:12" and "a.json#3" are of a.txt
// and a.json.
func fileOf(source string) string {
	i := strings.LastIndexAny(source, ":#")
	if i > 0 && i+1 < len(source) && strings.Trim(source[i+1:], "0123456789") == "" {
		return source[:i]
	}
	return source
}

// bySource is the median of one source's readings of a cell.
type bySource struct {
	source int32
	micros float64
}

// medians returns one median per source, ascending, and adds how far repetitions of
// one source are apart to spread.
func (vp *variantPool) medians(readings []reading, spread *[]float64) []bySource {
	if len(vp.origins) < 2 || len(readings) < 2 {
		return nil
	}
	times := map[int32][]float64{}
	for i := range readings {
		s := vp.sourceOf(&readings[i])
		if of := times[s]; len(of) > 0 {
			*spread = append(*spread, math.Abs(math.Log(readings[i].micros/of[len(of)-1])))
		}
		times[s] = append(times[s], readings[i].micros)
	}
	var all []bySource
	for s, of := range times {
		all = append(all, bySource{s, median(of)})
	}
	slices.SortFunc(all, func(a, b bySource) int {
		return cmp.Or(cmp.Compare(a.micros, b.micros), cmp.Compare(a.source, b.source))
	})
	return all
}

// findContradictions marks cells at which sources are far apart and names the pairs.
// cells holds the sources' medians of each cell of the group, defaults of one size
// as one cell. Medians of one repetition each are held against the noise of a quiet
// machine.
func findContradictions(cells []sourcedCell, spread []float64, sources []source) []Contradiction {
	noise := assumedNoise
	if len(spread) >= fewPairs {
		noise = noiseOf(spread)
	}
	least := max(contradictionRatio, 6*noise)
	type pair struct{ a, b string }
	apart := map[pair][]float64{}
	for _, c := range cells {
		fastest, slowest := c.medians[0], c.medians[len(c.medians)-1]
		if d := math.Log(slowest.micros / fastest.micros); d > least {
			*c.apart = d
			a, b := namesOf(sources[fastest.source], sources[slowest.source])
			apart[pair{a, b}] = append(apart[pair{a, b}], d)
		}
	}
	if len(apart) == 0 {
		return nil
	}
	common := map[pair]int{}
	for _, c := range cells {
		seen := map[pair]bool{}
		for _, x := range c.medians {
			for _, y := range c.medians {
				a, b := namesOf(sources[x.source], sources[y.source])
				if p := (pair{a, b}); x.source != y.source && !seen[p] && apart[p] != nil {
					seen[p] = true
					common[p]++
				}
			}
		}
	}
	var all []Contradiction
	for p, d := range apart {
		if float64(len(d)) >= contradictionShare*float64(common[p]) {
			all = append(all, Contradiction{p.a, p.b, len(d), common[p], math.Exp(median(d))})
		}
	}
	slices.SortFunc(all, func(a, b Contradiction) int {
		return cmp.Or(cmp.Compare(b.Apart, a.Apart), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return all[:min(len(all), mostContradictions)]
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

// sourcedCell is a cell that several sources measured.
type sourcedCell struct {
	medians []bySource
	apart   *float64
}
