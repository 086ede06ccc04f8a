package fit

import (
	"cmp"
	"math"
	"slices"
)

// Cell is one configuration at one size, its repetitions pooled.
type Cell struct {
	Config Config
	Bytes  uint64
	Micros float64 // median of the repetitions
	Reps   int     // >= 1
	// Outlier says that the neighbours in size and in channels contradict the
	// time, or those in size of the default. It counts for little in the fit.
	Outlier bool
	// Apart is how far the medians of sweeps that contradict each other are apart, in
	// ln(us). 0: they agree, or there is but one.
	Apart float64
	// Sources is from how many files a default was measured; 0 of other cells.
	Sources int
	// Drift is how far the last repetition of a default that was verified is from the first, in ln(us): what the machine
	// changed by meanwhile. 0 of other cells.
	Drift float64
	// Verified says that the repetitions are those that verify a choice, and no others.
	Verified bool
}

// doubt is the standard deviation of ln(us) beyond the noise of repetitions.
func (c Cell) doubt() float64 {
	if c.Outlier {
		return outlierNoise
	}
	return c.Apart / 2
}

func (c Cell) compare(o Cell) int {
	return cmp.Or(c.Config.compare(o.Config), cmp.Compare(c.Bytes, o.Bytes))
}

// Group is all that was measured of one collective on one communicator.
type Group struct {
	Key
	Cells []Cell // ordered by configuration, then size; none twice
	// Default is what the library chose by itself, ordered by size. A Config of
	// unknownConfig says that nobody knows what it was.
	Default []Cell
	// Noise is the standard deviation of ln(us) between repetitions, over all sizes.
	Noise float64
	// noises are those of single sizes, ascending; empty: all have Noise.
	noises []sizeNoise
	// NoisePairs is the number of pairs of repetitions behind Noise; 0: it is
	// assumedNoise.
	NoisePairs int
	Twins      []Twin
	// Contradictions are between sweeps that were pooled, the most cells first.
	Contradictions []Contradiction

	// onlyLower says that NCCL's release takes a tuner's channels only where they are fewer than its own.
	onlyLower bool

	// floored are the configurations that were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS.
	floored map[Config]bool

	// plain says that the set is too large for processes: each configuration is
	// interpolated by itself.
	plain bool
	// table bounds the values of its curves then, for each cell.
	table float64
}

const (
	// assumedNoise is what repetitions usually differ by on a quiet machine.
	assumedNoise = 0.01
	// leastNoise keeps a machine that repeats perfectly from being believed.
	leastNoise = 0.004
	// fewPairs of repetitions say less about noise than experience does.
	fewPairs = 5
)

// unknownConfig is the label of a default that nobody knows.
var unknownConfig = Config{FamilyKey: FamilyKey{-1, -1}}

// cellNoise is the standard deviation of a cell's ln(us). The median of n has
// 1.25/sqrt(n) of one value's.
func (g *Group) cellNoise(c Cell) float64 {
	n := g.noiseAt(c.Bytes)
	if c.Reps > 2 {
		n *= 1.2533 / math.Sqrt(float64(c.Reps))
	} else if c.Reps == 2 {
		n /= math.Sqrt2
	}
	return max(n, leastNoise)
}

// Sizes lists the sizes measured with any configuration, ascending.
func (g *Group) Sizes() []uint64 { return sizesOf(g.Cells) }

// allSizes are those, and those of the default.
func (g *Group) allSizes() []uint64 { return sizesOf(append(slices.Clone(g.Cells), g.Default...)) }

// Compares reports whether there is a size at which several configurations were measured,
// or one and the default.
func (g *Group) Compares() bool { return len(g.Cells)+len(g.Default) > len(g.allSizes()) }

func sizesOf(cells []Cell) []uint64 {
	var sizes []uint64
	for _, c := range cells {
		sizes = append(sizes, c.Bytes)
	}
	slices.Sort(sizes)
	return slices.Clip(slices.Compact(sizes))
}

// Configs lists the configurations measured at any size, in order.
func (g *Group) Configs() []Config {
	var configs []Config
	for _, c := range g.Cells {
		if n := len(configs); n == 0 || configs[n-1] != c.Config {
			configs = append(configs, c.Config)
		}
	}
	return configs
}

// subset is the group with only the cells and defaults that keep accepts.
func (g *Group) subset(keep func(Cell) bool, keepDefault func(Cell) bool) *Group {
	s := *g
	s.Cells, s.Default = nil, nil
	for _, c := range g.Cells {
		if keep(c) {
			s.Cells = append(s.Cells, c)
		}
	}
	for _, c := range g.Default {
		if keepDefault(c) {
			s.Default = append(s.Default, c)
		}
	}
	return &s
}

// families cuts Cells into one slice per algorithm and protocol. Cells whose
// channel count is NCCL's own make a family apart: there is no telling how they
// relate to the others.
func (g *Group) families() [][]Cell {
	var out [][]Cell
	from := 0
	for i := range g.Cells {
		if next := i + 1; next == len(g.Cells) || !sameFamily(g.Cells[i].Config, g.Cells[next].Config) {
			out = append(out, g.Cells[from:next])
			from = next
		}
	}
	return out
}

func sameFamily(a, b Config) bool {
	return a.FamilyKey == b.FamilyKey && (a.Channels == 0) == (b.Channels == 0)
}

// at returns the cell of a configuration and size.
func (g *Group) at(c Config, bytes uint64) (Cell, bool) {
	i, ok := slices.BinarySearchFunc(g.Cells, Cell{Config: c, Bytes: bytes}, Cell.compare)
	if !ok {
		return Cell{}, false
	}
	return g.Cells[i], true
}

func (g *Group) defaultAt(bytes uint64) (Cell, bool) {
	i, ok := slices.BinarySearchFunc(g.Default, bytes, func(c Cell, b uint64) int { return cmp.Compare(c.Bytes, b) })
	if !ok {
		return Cell{}, false
	}
	return g.Default[i], true
}
