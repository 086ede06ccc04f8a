package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// Constants replace constants of NCCL's own cost model, which NCCL hands to a tuner since
// 2.28. What is not named keeps NCCL's value. All ranks of a job must write the same: NCCL's own
// choices follow from them.
//
// The fields are those of NCCL's ncclTunerConstants.
type Constants struct {
	// BaseLatencies are paid once per collective, HWLatencies once per step over a link.
	BaseLatencies []LatencyConstant `json:"base_latencies,omitempty"`
	HWLatencies   []LatencyConstant `json:"hw_latencies,omitempty"`
	// LLMaxBWs limit all channels of LL together, the others one channel.
	LLMaxBWs             []BandwidthConstant `json:"ll_max_bws,omitempty"`
	PerChMaxRingLL128BWs []BandwidthConstant `json:"per_ch_max_ring_ll128_bws,omitempty"`
	PerChMaxTreeLL128BWs []BandwidthConstant `json:"per_ch_max_tree_ll128_bws,omitempty"`
	PerChMaxTreeBWs      []BandwidthConstant `json:"per_ch_max_tree_bws,omitempty"`
	PerChMaxNVLSTreeBWs  []BandwidthConstant `json:"per_ch_max_nvls_tree_bws,omitempty"`
}

// LatencyConstant is microseconds of an algorithm with a protocol.
type LatencyConstant struct {
	Link   string  `json:"link,omitempty"` // nvlink, pci or net; of HWLatencies only
	Algo   string  `json:"algorithm"`
	Proto  string  `json:"protocol"`
	Micros float64 `json:"us"`
	Sigma  float64 `json:"sigma,omitempty"` // standard deviation of Micros; 0: not known
}

// BandwidthConstant is GB/s of a generation of GPUs.
type BandwidthConstant struct {
	// GPU is volta, ampere, hopper or blackwell. LL over several nodes is limited by the CPU, and
	// NCCL keeps that in volta's place for Intel and ampere's for AMD.
	GPU   string  `json:"gpu"`
	Nodes string  `json:"nodes"` // 1, 2 or more
	GBps  float64 `json:"gbps"`
	Sigma float64 `json:"sigma,omitempty"` // standard deviation of GBps; 0: not known
}

// ConstantTable names one of NCCL's tables of constants, in the order in which they lie in
// ncclTunerConstants.
type ConstantTable int

const (
	ConstantBaseLatency ConstantTable = iota // [algorithm][protocol]
	ConstantHWLatency                        // [link][algorithm][protocol]
	ConstantLLMaxBW                          // this and the rest: [GPU][nodes]
	ConstantPerChRingLL128BW
	ConstantPerChTreeLL128BW
	ConstantPerChTreeBW
	ConstantPerChNVLSTreeBW
)

// Constant is one value for one of NCCL's tables. Index counts from 0 in each of the table's
// dimensions.
type Constant struct {
	Table ConstantTable
	Index [3]int
	Value float64
}

var (
	constantLinks = []string{"nvlink", "pci", "net"}
	constantGPUs  = []string{"volta", "ampere", "hopper", "blackwell"}
	constantNodes = []string{"1", "2", "more"}
)

// Believable values. A bandwidth of 0 would take an algorithm away.
const (
	maxConstantMicros = 10_000
	maxConstantGBps   = 100_000
)

// Values lists the constants that the model replaces.
func (c *Constants) Values() []Constant {
	if c == nil {
		return nil
	}
	var all []Constant
	c.each(func(_ string, v Constant, _ error) { all = append(all, v) })
	return all
}

// constants checks the section; c may be nil.
func (m *checker) constants(c *Constants) {
	if c == nil {
		return
	}
	seen := map[Constant]bool{}
	c.each(func(path string, v Constant, err error) {
		if !m.isTrue(err == nil, path, "%v", err) {
			return
		}
		v.Value = 0
		m.isTrue(!seen[v], path, "there is a value for this already")
		seen[v] = true
	})
	m.isTrue(len(seen) > 0 || len(m.problems) > 0, "constants", "no values")
}

// each calls f for every entry, with its path in the file and what is wrong with it.
func (c *Constants) each(f func(path string, v Constant, err error)) {
	for i, l := range c.BaseLatencies {
		v, err := l.constant(ConstantBaseLatency)
		f(fmt.Sprintf("constants.base_latencies[%d]", i), v, err)
	}
	for i, l := range c.HWLatencies {
		v, err := l.constant(ConstantHWLatency)
		f(fmt.Sprintf("constants.hw_latencies[%d]", i), v, err)
	}
	for k, table := range []struct {
		name    string
		entries []BandwidthConstant
	}{
		{"ll_max_bws", c.LLMaxBWs},
		{"per_ch_max_ring_ll128_bws", c.PerChMaxRingLL128BWs},
		{"per_ch_max_tree_ll128_bws", c.PerChMaxTreeLL128BWs},
		{"per_ch_max_tree_bws", c.PerChMaxTreeBWs},
		{"per_ch_max_nvls_tree_bws", c.PerChMaxNVLSTreeBWs},
	} {
		for i, b := range table.entries {
			v, err := b.constant(ConstantLLMaxBW + ConstantTable(k))
			f(fmt.Sprintf("constants.%s[%d]", table.name, i), v, err)
		}
	}
}

func (l *LatencyConstant) constant(table ConstantTable) (Constant, error) {
	algo, err := nccl.Algos.Parse(l.Algo)
	if err != nil {
		return Constant{}, err
	}
	proto, err := nccl.Protos.Parse(l.Proto)
	if err != nil {
		return Constant{}, err
	}
	v := Constant{Table: table, Index: [3]int{int(algo), int(proto)}, Value: l.Micros}
	switch {
	case table == ConstantHWLatency:
		link, err := indexOf("link", l.Link, constantLinks)
		if err != nil {
			return Constant{}, err
		}
		v.Index = [3]int{link, int(algo), int(proto)}
	case l.Link != "":
		return Constant{}, fmt.Errorf("link is %s (allowed: none, a base latency is paid once)", suggest.Quote(l.Link))
	}
	return v, inConstantRange("us", l.Micros, 0, maxConstantMicros, l.Sigma)
}

func (b *BandwidthConstant) constant(table ConstantTable) (Constant, error) {
	gpu, err := indexOf("gpu", b.GPU, constantGPUs)
	if err != nil {
		return Constant{}, err
	}
	nodes, err := indexOf("nodes", b.Nodes, constantNodes)
	if err != nil {
		return Constant{}, err
	}
	const least = 0.001
	return Constant{table, [3]int{gpu, nodes}, b.GBps}, inConstantRange("gbps", b.GBps, least, maxConstantGBps, b.Sigma)
}

func indexOf(what, got string, known []string) (int, error) {
	i := slices.Index(known, got)
	if i < 0 {
		return 0, fmt.Errorf("unknown %s %s (%sallowed: %s)", what, suggest.Quote(got), suggest.DidYouMean(got, known), strings.Join(known, ", "))
	}
	return i, nil
}

func inConstantRange(what string, value, least, most, sigma float64) error {
	switch {
	case !(value >= least && value <= most):
		return fmt.Errorf("%s is %g (allowed: %g to %g)", what, value, least, most)
	case !(sigma >= 0 && sigma <= most):
		return fmt.Errorf("sigma is %g (allowed: 0 to %g)", sigma, most)
	}
	return nil
}
