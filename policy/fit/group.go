package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Key names a group.
type Key = model.Key

// Cell is one configuration at one size, its repetitions pooled.
type Cell struct {
	Config nccl.Config
	Bytes  uint64
	Micros float64 // median of the repetitions
	Reps   int     // >= 1
	// First is the repetition measured first, Low and High are the least and the most of them; 0: as Micros.
	First, Low, High float64
	// Verified says that some of the repetitions are those that verify a choice.
	Verified bool
	// Twice says that others are from before the verification.
	Twice bool
}

func (c Cell) compare(o Cell) int {
	return cmp.Or(c.Config.Compare(o.Config), cmp.Compare(c.Bytes, o.Bytes))
}

// Group is all that was measured of one collective on one communicator.
type Group struct {
	Key
	Cells []Cell // ordered by configuration, then size; none twice
	// Default is NCCL's choice, ordered by size. Its Config is unknownConfig where
	// nobody knows what NCCL chose.
	Default []Cell
	// Noise is the standard deviation of ln(us) between repetitions.
	Noise float64
	// NoisePairs is the number of pairs of repetitions behind Noise; 0: it is
	// assumedNoise.
	NoisePairs int
	Aliases    []Alias
	// Contradictions are between sweeps that were pooled, the most cells first.
	Contradictions []Contradiction

	// onlyLower says that NCCL's release takes a tuner's channels only where they are fewer than its own.
	onlyLower bool
	// own are NCCL's own channel counts, as far as runs that asked for more told.
	own map[place]int

	// floored are the configurations that were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS.
	floored map[nccl.Config]bool
}

const (
	// assumedNoise is what repetitions usually differ by on a quiet machine.
	assumedNoise = 0.01
	// leastNoise keeps a machine that repeats perfectly from being believed.
	leastNoise = 0.004
	// fewPairs of repetitions say less about noise than experience does.
	fewPairs = 5
)

// place is a family at a size.
type place struct {
	nccl.Cell
	bytes uint64
}

// asOwn leaves out a number of channels that is NCCL's own.
func (g *Group) asOwn(c nccl.Config, bytes uint64) nccl.Config {
	if n := g.own[place{c.Cell, bytes}]; n > 0 && n == c.Channels {
		c.Channels = 0
	}
	return c
}

// unknownConfig is the label of a default that nobody knows.
var unknownConfig = nccl.Config{Cell: nccl.NoCell}

// cellNoise is the standard deviation of a cell's ln(us). The median of n has
// 1.25/sqrt(n) of one value's.
func (g *Group) cellNoise(c Cell) float64 {
	n := g.Noise
	if c.Reps > 2 {
		n *= 1.2533 / math.Sqrt(float64(c.Reps))
	} else if c.Reps == 2 {
		n /= math.Sqrt2
	}
	return max(n, leastNoise)
}

// Sizes lists the sizes measured with any configuration, ascending.
func (g *Group) Sizes() []uint64 { return sizesOf(g.Cells) }

// AllSizes are those, and those of the default.
func (g *Group) AllSizes() []uint64 { return sizesOf(slices.Concat(g.Cells, g.Default)) }

// Compares reports whether there is a size at which several configurations were measured,
// or one and the default.
func (g *Group) Compares() bool {
	return len(g.Cells)+len(g.Default) > len(g.AllSizes())
}

func sizesOf(cells []Cell) []uint64 {
	var sizes []uint64
	for _, c := range cells {
		sizes = append(sizes, c.Bytes)
	}
	slices.Sort(sizes)
	return slices.Clip(slices.Compact(sizes))
}

// Configs lists the configurations measured at any size, in order.
func (g *Group) Configs() []nccl.Config {
	var configs []nccl.Config
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

// at returns the cell of a configuration and size.
func (g *Group) at(c nccl.Config, bytes uint64) (Cell, bool) {
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

// winners are the fastest configuration at each size, ascending sizes; of equals the first.
func (g *Group) winners() (fastest []Cell) {
	cells := g.bySize()
	for _, b := range g.Sizes() {
		fastest = append(fastest, slices.MinFunc(cells[b], compareTimes))
	}
	return fastest
}
