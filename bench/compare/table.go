package compare

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Table is a comparison.
type Table struct {
	Threshold float64  `json:"threshold"` // a slowdown must be proven to exceed it to be in Slower; 0.01 is 1 %
	Before    Side     `json:"before"`
	After     Side     `json:"after"`
	Common    []string `json:"common"` // what both were measured with
	// Differences are what the sides were measured with and do not have in common.
	Differences []Difference `json:"differences"`
	Sections    []Section    `json:"groups"` // by collective, nodes, ranks; of two data types the first in order first
	// Overall is the mean over all sizes of all sections; of one section it is that section's, of none it is zero.
	Overall Mean      `json:"geomean,omitzero"`
	Tested  int       `json:"-"` // ratios that a verdict was sought on: sizes and means
	LeftOut []LeftOut `json:"left_out"`
	Notes   []string  `json:"notes"` // what the reader should know: assumptions, doubts

	Sizes  int `json:"sizes"` // of all sections, and of these with a verdict
	Faster int `json:"faster"`
	Slower int `json:"slower"`
	// Beyond are the sizes that are proven to be slower by more than the threshold. MeanBeyond: so is a mean.
	Beyond     int  `json:"slower_than_threshold"`
	MeanBeyond bool `json:"geomean_slower_than_threshold"`

	unknown int // sizes without a measure of the noise

	Simulated int `json:"-"` // of the times in the table: made up, not measured
}

// Side is one of the two sets.
type Side struct {
	Name     string `json:"name"`
	Runs     int    `json:"runs"`  // logs, or runs within logs
	Readings int    `json:"times"` // times that are in the table
}

// Difference is a circumstance of measuring that changed.
type Difference struct {
	What   string `json:"what"` // as "NCCL", "GPU"
	Before string `json:"before"`
	After  string `json:"after"`
}

// LeftOut counts measurements that are not compared.
type LeftOut struct {
	Side   string `json:"side"`
	Rows   int    `json:"times"`
	Reason string `json:"reason"`
}

// Section is a collective on a communicator.
type Section struct {
	bench.Series
	// Paired says that runs of both sides alternated and are compared pair by pair.
	Paired bool `json:"paired"`
	// InStarts says that both sides were measured in the same starts of nccl-tests, each in passes of its own.
	InStarts bool         `json:"in_starts,omitzero"`
	Rows     []SizeResult `json:"sizes"` // ascending
	Mean     Mean         `json:"geomean"`
	// Unsteady are runs that collapsed. They are no part of the tests.
	Unsteady []CollapsedRun `json:"unsteady"`
}

// SizeResult is a size.
type SizeResult struct {
	Bytes  uint64   `json:"bytes"`
	Before Measured `json:"before"`
	After  Measured `json:"after"`
	Estimate
}

// Measured is one side of a row.
type Measured struct {
	Micros float64 `json:"us"`              // median
	BusBW  float64 `json:"busbw,omitempty"` // GB/s at that time; 0: the number of ranks is not known
	Reps   int     `json:"repetitions"`     // that count: runs, or times within one run where no side has two
	Ran    Ran     `json:"ran,omitzero"`
}

// Ran is the configuration that ran, of several the most frequent. JSON has it as "ring/ll128/16" and leaves it out
// where no log names it.
type Ran struct{ nccl.Config }

// IsZero reports whether it is not known.
func (r Ran) IsZero() bool { return !r.Known() }

// MarshalText is its label.
func (r Ran) MarshalText() ([]byte, error) { return []byte(r.Label()), nil }

// Verdict says what is proven of a ratio.
type Verdict int8

const (
	Unproven Verdict = iota
	Faster
	Slower
	Unknown // there is no measure of the noise
)

func (v Verdict) String() string { return [...]string{"~", "faster", "slower", "~"}[v] }

// MarshalText is its word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Estimate is a ratio of times, after / before: below 1 is faster.
type Estimate struct {
	Ratio float64 `json:"ratio"`
	// Low and High are the 95 % interval of the ratio. A verdict needs that it leaves out 1, and more: see judge.
	Low     stats.Optional `json:"low,omitzero"`
	High    stats.Optional `json:"high,omitzero"`
	P       stats.Optional `json:"p,omitzero"` // corrected for the number of ratios in the table
	Verdict Verdict        `json:"verdict"`

	test *stats.Location // nil: there is no measure of the noise
}

// unknown is an estimate without a measure of the noise.
func unknown(ln float64) Estimate {
	none := stats.Optional(math.NaN())
	return Estimate{Ratio: math.Exp(ln), Low: none, High: none, P: none, Verdict: Unknown}
}

// Mean is a geometric mean of ratios over sizes.
type Mean struct {
	Sizes int `json:"sizes"`
	Estimate
}

// Exceeds reports whether the ratio is proven to be above 1 by more than a share.
func (e *Estimate) Exceeds(threshold float64) bool {
	return e.Verdict == Slower && e.Low > stats.Optional(1+threshold)
}

// count fills in how many sizes have which verdict.
func (t *Table) count() {
	t.MeanBeyond = t.Overall.Exceeds(t.Threshold)
	for i := range t.Sections {
		g := &t.Sections[i]
		t.MeanBeyond = t.MeanBeyond || g.Mean.Exceeds(t.Threshold)
		for j := range g.Rows {
			r := &g.Rows[j]
			t.Sizes++
			switch r.Verdict {
			case Faster:
				t.Faster++
			case Slower:
				t.Slower++
			case Unknown:
				t.unknown++
			}
			if r.Exceeds(t.Threshold) {
				t.Beyond++
			}
		}
	}
}
