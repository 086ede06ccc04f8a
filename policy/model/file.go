package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Format and Version open every model file. A reader refuses others.
const (
	Format  = "nccl-tuner-go cost model"
	Version = 3
)

// MaxFileBytes is the size up to which the library reads a model.
const MaxFileBytes = 64 << 20

// File is a cost model as it is written: what a person reads and what Compile checks.
// Times are microseconds; every sigma is a standard deviation of ln(us), which for small values is
// a relative error.
type File struct {
	Format     string     `json:"format"`
	Version    int        `json:"version"`
	Provenance Provenance `json:"provenance"`
	CurveSets  []CurveSet `json:"groups"`
}

// Provenance says where the measurements come from.
type Provenance struct {
	Tool  string   `json:"tool,omitempty"`
	Files []Source `json:"files,omitempty"`
	NCCL  string   `json:"nccl,omitempty"` // version; empty: not known
	// Topology restricts the model to machines like the one measured. nil: not known, and nodes and
	// ranks alone tell whether the model is used.
	Topology      *topo.Machine `json:"topology,omitempty"`
	SimulatedRows int           `json:"simulated_rows,omitempty"`
	// Machines are those that were measured, as far as the logs tell, most rows first.
	Machines []MeasuredOn `json:"machines,omitempty"`
	// Mixed says that they have different GPUs, which the user allowed.
	Mixed bool `json:"mixed_machines,omitempty"`
}

// MeasuredOn says where and with what some of the measurements were made. An empty field is not known.
type MeasuredOn struct {
	GPU    string `json:"gpu,omitempty"` // model
	Hosts  string `json:"hosts,omitempty"`
	NCCL   string `json:"nccl,omitempty"`
	Driver string `json:"driver,omitempty"`
	Tuner  string `json:"tuner,omitempty"` // plugin that was loaded
	Begun  string `json:"begun,omitempty"` // the first of the runs
	Rows   int    `json:"rows"`
	Source string `json:"-"` // the file of the first row
}

// String names what is known of a machine.
func (m MeasuredOn) String() string {
	var known []string
	library := "NCCL "
	if nccl.IsRCCL(m.NCCL) {
		library = ""
	}
	for _, part := range []struct{ before, text string }{{"", m.GPU}, {"on ", m.Hosts}, {library, m.NCCL},
		{"driver ", m.Driver}, {"tuner ", m.Tuner}, {"first run ", m.Begun}} {
		if part.text != "" {
			known = append(known, part.before+part.text)
		}
	}
	return strings.Join(known, ", ")
}

// Source is one file of measurements.
type Source struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of its bytes, hexadecimal
	Rows   int    `json:"rows"`
}

// Key names a group: a collective on a communicator.
type Key struct {
	Coll nccl.Coll `json:"collective"`
	nccl.Comm
}

// Compare orders keys by collective, then communicator.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Coll, o.Coll), k.Comm.Compare(o.Comm))
}

func (k Key) String() string {
	if k.Ranks%k.Nodes != 0 {
		return fmt.Sprintf("%s, %s", k.Coll, k.Comm)
	}
	return fmt.Sprintf("%s %s", k.Coll, k.Comm)
}

// CurveSet is the model of one collective on one communicator.
type CurveSet struct {
	Coll string `json:"collective"`
	nccl.Comm

	// Variables are those of NCCL that all was measured under, as "NCCL_MAX_NCHANNELS=24": jobs need them, too.
	Variables string `json:"variables,omitempty"`

	Noise           float64 `json:"noise"`            // sigma between repetitions
	RepetitionPairs int     `json:"repetition_pairs"` // 0: all was measured once; of too few, Noise is assumed

	HeldOut []Trial `json:"held_out,omitempty"`

	// Default is NCCL's choice, ascending sizes; none: it was not measured.
	Default []DefaultPoint `json:"default,omitempty"`
	Curves  []Curve        `json:"curves"`
	// Verified are the sizes at which the default and the best candidates were measured once more. At these
	// the winner is chosen.
	Verified []Verified `json:"verified,omitempty"`
}

// LeftOutSizes is what is left out of the fit in a trial. It tests what a model is for: sizes between those that were
// measured.
const LeftOutSizes = "every other size"

// Score sums up ratios of times: decision / best measured, or decision / default.
// 1 is as good, above 1 slower. The zero value, of no decisions, says nothing.
type Score struct {
	Decisions int     `json:"decisions"`
	Mean      float64 `json:"mean"`
	// Low and High bound the mean in 90 % of resampled sets of decisions: two
	// scores whose intervals overlap are not known to differ.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	P95  float64 `json:"p95"`
	Max  float64 `json:"max"`
}

// Trial is how good decisions were on data that the model had not seen, against the best time measured.
type Trial struct {
	LeftOut string `json:"left_out"` // LeftOutSizes, ...
	Score
	// VersusDefault is the mean of decision / default; 0: no default measured.
	VersusDefault float64 `json:"versus_default,omitempty"`
	// Inside is the share of left-out times inside the model's 90 % interval. 0: none could be
	// predicted.
	Inside float64 `json:"inside_90,omitempty"`
}

// Verified is the winner at one size. Its configuration is empty and 0 where that is the default.
type Verified struct {
	Bytes         uint64  `json:"bytes"`
	Algo          string  `json:"algorithm,omitempty"`
	Proto         string  `json:"protocol,omitempty"`
	Channels      int     `json:"channels,omitempty"`
	Micros        float64 `json:"us"` // mean of the repetitions
	DefaultMicros float64 `json:"default_us"`
	Repetitions   int     `json:"repetitions"`
	Starts        int     `json:"starts,omitempty"` // of nccl-tests, that these are from; 0: not known
}

// DefaultPoint is one measured default. Its configuration is empty and 0 where it is not
// known.
type DefaultPoint struct {
	Bytes    uint64  `json:"bytes"`
	Micros   float64 `json:"us"`
	Algo     string  `json:"algorithm,omitempty"`
	Proto    string  `json:"protocol,omitempty"`
	Channels int     `json:"channels,omitempty"`
}

// Curve is one configuration, as it was measured. A monotone cubic interpolates between the sizes; nothing is
// known beyond them.
type Curve struct {
	Algo     string `json:"algorithm"`
	Proto    string `json:"protocol"`
	Channels int    `json:"channels"` // 1..64; 0: NCCL's own count
	// Floored says that it was measured only under an NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS of at least as many
	// channels. A job without that may have fewer, and then does not reach these times.
	Floored  bool         `json:"floored,omitempty"`
	Measured [][2]float64 `json:"measured"` // bytes, us; ascending sizes
}

// Key returns the group's key. The file must be one that Compile accepts.
func (g *CurveSet) Key() Key {
	coll, _ := nccl.Colls.Named(g.Coll)
	return Key{coll, g.Comm}
}

// Config is the winner, NoCell for the default.
func (v *Verified) Config() nccl.Config { return configOf(v.Algo, v.Proto, v.Channels) }

// Config is what NCCL chose, NoCell where that is not known.
func (p *DefaultPoint) Config() nccl.Config { return configOf(p.Algo, p.Proto, p.Channels) }

// Config is the configuration that the curve is of.
func (c *Curve) Config() nccl.Config { return configOf(c.Algo, c.Proto, c.Channels) }

// configOf reads a configuration of a file that Compile accepts.
func configOf(algo, proto string, channels int) nccl.Config {
	a, known := nccl.Algos.Named(algo)
	p, too := nccl.Protos.Named(proto)
	if !known || !too {
		return nccl.Config{Cell: nccl.NoCell, Channels: channels}
	}
	return nccl.Config{Cell: nccl.Cell{Algo: a, Proto: p}, Channels: channels}
}

// Sizes are those that were measured, ascending.
func (g *CurveSet) Sizes() (sizes []uint64) {
	for _, p := range g.Default {
		sizes = append(sizes, p.Bytes)
	}
	for _, c := range g.Curves {
		for _, m := range c.Measured {
			sizes = append(sizes, uint64(m[0]))
		}
	}
	for _, v := range g.Verified {
		sizes = append(sizes, v.Bytes)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}
