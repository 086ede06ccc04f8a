package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Key names a group.
type Key = model.Key

// Point is what was measured of one configuration at one size, its repetitions pooled.
type Point struct {
	Config nccl.Config
	Bytes  uint64
	// Micros is the mean of all starts, of which each is the middle of its repetitions. What whole starts were slower
	// is taken off.
	Micros float64
	Reps   int // >= 1
	Starts int // of nccl-tests, that they are from, >= 1
	Since  int // the first of these, of all of the group, from 0
	// Verified is how many of the starts verified a choice.
	Verified int
}

func (c Point) compare(o Point) int {
	return cmp.Or(c.Config.Compare(o.Config), cmp.Compare(c.Bytes, o.Bytes))
}

// Group is all that was measured of one collective on one communicator.
type Group struct {
	Key
	// Under counts the samples by what they were measured under. Of several conditions, Points and Default are of the
	// one that has most sizes.
	Under  map[bench.Conditions]int
	Points []Point // ordered by configuration, then size; none twice
	// Default is NCCL's choice, ordered by size. Its Config is unknownConfig where
	// nobody knows what NCCL chose.
	Default []Point
	// Noise is the standard deviation of ln(us) between single times.
	Noise  float64
	parts  stats.Nested // of the noise
	starts int          // of nccl-tests
	// verifiedIn is the last start that verified, -1: none; see Point.Since.
	verifiedIn int
	verifying  map[int]bool // starts that verified
	series     []series
	// NoisePairs is the number of pairs of repetitions; 0: everything was measured once.
	NoisePairs int
	Aliases    []Alias
	// NotOffered was measured, and NCCL does not offer it: it ran with NCCL_ALGO or NCCL_PROTO only, and no tuner gets
	// it. Points do not have it.
	NotOffered []nccl.Cell
	// Unlabelled counts the samples whose algorithm or protocol nobody knows, and that are not of the default.
	Unlabelled int
	// Unsettable says that some channel counts were measured that a tuner cannot have. Points do not have them.
	Unsettable bool
	// Contradictions are between sweeps that were pooled, the most points first.
	Contradictions []Contradiction

	// onlyLower says that NCCL's release takes a tuner's channels only where they are fewer than its own.
	onlyLower bool
	// neverMore says that RCCL was measured: no more channels are asked for than it takes itself at a size. It obeys,
	// but each is a compute unit that the job's kernels lose.
	neverMore bool
	// own are NCCL's own channel counts, as far as runs that asked for more told.
	own map[place]int

	// floored are the configurations that were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS.
	floored map[nccl.Config]bool
}

// OnlyDefault says of a group without Points what was measured.
func (g *Group) OnlyDefault() string {
	if g.Unlabelled > 0 {
		return "what was measured besides the default does not tell its algorithm and protocol"
	}
	return "nothing but the default was measured"
}

const (
	// assumedNoise is what repetitions usually differ by on a quiet machine.
	assumedNoise = stats.QuietNoise
	// leastNoise keeps a machine that repeats perfectly from being believed.
	leastNoise = 0.004
	// fewPairs of repetitions say less about noise than experience does.
	fewPairs = 5
)

// NoiseAssumed reports whether there are too few repetitions to know their noise.
func (g *Group) NoiseAssumed() bool { return g.NoisePairs < fewPairs }

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

// Sizes lists the sizes measured with any configuration, ascending.
func (g *Group) Sizes() []uint64 { return sizesOf(g.Points) }

// AllSizes are those, and those of the default.
func (g *Group) AllSizes() []uint64 { return sizesOf(slices.Concat(g.Points, g.Default)) }

func sizesOf(points []Point) []uint64 {
	var sizes []uint64
	for _, c := range points {
		sizes = append(sizes, c.Bytes)
	}
	slices.Sort(sizes)
	return slices.Clip(slices.Compact(sizes))
}

// Configs lists the configurations measured at any size, in order.
func (g *Group) Configs() []nccl.Config {
	var configs []nccl.Config
	for _, c := range g.Points {
		if n := len(configs); n == 0 || configs[n-1] != c.Config {
			configs = append(configs, c.Config)
		}
	}
	return configs
}

// subset is the group with only the points and defaults that keep accepts.
func (g *Group) subset(keep, keepDefault func(Point) bool) *Group {
	s := *g
	s.Points = slices.DeleteFunc(slices.Clone(g.Points), func(c Point) bool { return !keep(c) })
	s.Default = slices.DeleteFunc(slices.Clone(g.Default), func(c Point) bool { return !keepDefault(c) })
	return &s
}

// at returns the point of a configuration and size.
func (g *Group) at(c nccl.Config, bytes uint64) (Point, bool) {
	i, ok := slices.BinarySearchFunc(g.Points, Point{Config: c, Bytes: bytes}, Point.compare)
	if !ok {
		return Point{}, false
	}
	return g.Points[i], true
}

func (g *Group) defaultAt(bytes uint64) (Point, bool) {
	i, ok := slices.BinarySearchFunc(g.Default, bytes, func(c Point, b uint64) int { return cmp.Compare(c.Bytes, b) })
	if !ok {
		return Point{}, false
	}
	return g.Default[i], true
}

// winners are the fastest configuration at each size, ascending sizes; of equals the first.
func (g *Group) winners() (fastest []Point) {
	points := g.bySize()
	for _, b := range g.Sizes() {
		fastest = append(fastest, slices.MinFunc(points[b], compareTimes))
	}
	return fastest
}

// probableNoiseMax bounds the noise that repetitions are believed to have, in ln(us).
const probableNoiseMax = 0.5

// noiseOf is the standard deviation of ln(us) behind differences of two, which have sqrt(2) of it.
func noiseOf(differences []float64) float64 {
	return min(max(stats.Sigma(differences)/math.Sqrt2, leastNoise), probableNoiseMax)
}

func log2(bytes uint64) float64 { return math.Log2(float64(bytes)) }
