package channels

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// Compute capability classes and link classes that index the tables below.
const (
	gpuVolta = iota
	gpuAmpere
	gpuHopper
	gpuBlackwell
	numGPUClasses
)

const (
	wireNVLink = iota
	wirePCI
	wireNet
	numWires
)

// perScale holds a value for 1 node, 2 nodes, and 3 or more.
type perScale [3]float64

// costConstants are NCCL's measured constants; latencies in microseconds, bandwidths in GB/s.
// Source of all of them: graph/tuning.cc.
type costConstants struct {
	baseLatency nccl.PerCell[float64]           // paid once per collective
	hopLatency  [numWires]nccl.PerCell[float64] // paid per step

	// all channels together; over nodes row 0 is for Intel, row 1 for AMD CPUs
	llMax             [numGPUClasses]perScale
	ringLL128PerChan  [numGPUClasses]perScale
	treeLL128PerChan  [numGPUClasses]perScale
	treePerChan       [numGPUClasses]perScale
	nvlsTreePerChan   [numGPUClasses]perScale
	nvlsEfficiency    [numGPUClasses]float32
	arityLatency      float64 // CollNetDirect, per further local rank
	patLatencyDivisor float64
	patLinear         float64 // PAT, per rank
}

// defaultCosts are those of NCCL 2.30.7 and 2.31.2.
var defaultCosts = costConstants{
	baseLatency: nccl.PerCell[float64]{
		nccl.AlgoTree: {6.8, 14, 8.4},
		nccl.AlgoRing: {6.6, 14, 8.4},
		nccl.AlgoPAT:  {8, 8, 8},
	},
	hopLatency: [numWires]nccl.PerCell[float64]{
		wireNVLink: {
			nccl.AlgoTree:          {.6, 1.25, 4},
			nccl.AlgoRing:          {.6, 1.9, 3.4},
			nccl.AlgoCollNetDirect: {nccl.ProtoSimple: 3.7},
			nccl.AlgoCollNetChain:  {nccl.ProtoSimple: 2.8},
			nccl.AlgoNVLS:          {nccl.ProtoSimple: 25},
			nccl.AlgoNVLSTree:      {nccl.ProtoSimple: 25},
			nccl.AlgoPAT:           {nccl.ProtoSimple: 4},
		},
		wirePCI: {
			nccl.AlgoTree:          {1, 1.9, 4},
			nccl.AlgoRing:          {1, 2.5, 5.7},
			nccl.AlgoCollNetDirect: {nccl.ProtoSimple: 3.7},
			nccl.AlgoCollNetChain:  {nccl.ProtoSimple: 2.8},
			nccl.AlgoPAT:           {nccl.ProtoSimple: 4},
		},
		wireNet: {
			nccl.AlgoTree:          {5, 8.5, 14},
			nccl.AlgoRing:          {2.7, 4, 14},
			nccl.AlgoCollNetDirect: {nccl.ProtoSimple: 31},
			nccl.AlgoCollNetChain:  {nccl.ProtoSimple: 30},
			nccl.AlgoNVLS:          {nccl.ProtoSimple: 18},
			nccl.AlgoNVLSTree:      {nccl.ProtoSimple: 20.9},
			nccl.AlgoPAT:           {nccl.ProtoSimple: 14},
		},
	},
	llMax: [numGPUClasses]perScale{
		gpuVolta:     {39, 39, 20.4},
		gpuAmpere:    {87.7, 22.5, 19},
		gpuHopper:    {141, 45, 35},
		gpuBlackwell: {282, 90, 70},
	},
	ringLL128PerChan: [numGPUClasses]perScale{
		gpuVolta:     {20, 20, 20},
		gpuAmpere:    {20, 20, 20},
		gpuHopper:    {36.7, 36.7, 36.7},
		gpuBlackwell: {40, 40, 40},
	},
	treeLL128PerChan: [numGPUClasses]perScale{
		gpuVolta:     {20, 20, 20},
		gpuAmpere:    {20, 20, 20},
		gpuHopper:    {36.7, 36.7, 29},
		gpuBlackwell: {55.6, 31.67, 20},
	},
	treePerChan: [numGPUClasses]perScale{
		gpuVolta:     {26.5, 18.5, 10},
		gpuAmpere:    {24, 23.6, 17.8},
		gpuHopper:    {38.7, 41.4, 36},
		gpuBlackwell: {70, 42.8, 24},
	},
	nvlsTreePerChan: [numGPUClasses]perScale{
		gpuVolta:     {26.5, 18.5, 10},
		gpuAmpere:    {24, 23.6, 17.8},
		gpuHopper:    {0, 57.7, 45.5},
		gpuBlackwell: {0, 96, 80},
	},
	nvlsEfficiency:    [numGPUClasses]float32{gpuHopper: .85, gpuBlackwell: .74},
	arityLatency:      .4,
	patLatencyDivisor: 3.5,
	patLinear:         2.8,
}

// earlierCosts are what constants were before a release, the latest one first.
var earlierCosts = []struct {
	until nccl.Change // a named one, or the release alone
	set   func(*costConstants)
}{
	{23003, func(c *costConstants) { c.nvlsTreePerChan[gpuBlackwell][2] = 43.8 }},
	{22907, func(c *costConstants) { c.ringLL128PerChan[gpuBlackwell] = perScale{34.5, 34.6, 34.5} }},
	{22902, func(c *costConstants) { c.ringLL128PerChan[gpuBlackwell] = perScale{73.4, 34.6, 73.4} }},
	{22809, func(c *costConstants) {
		c.nvlsTreePerChan[gpuBlackwell][2] = 43.1
		c.hopLatency[wireNet][nccl.AlgoNVLSTree][nccl.ProtoSimple] = 14
	}},
	{22807, func(c *costConstants) { c.ringLL128PerChan[gpuBlackwell] = perScale{73.4, 73.4, 73.4} }},
	{nccl.NVLSEfficiency, func(c *costConstants) {
		c.treeLL128PerChan[gpuBlackwell] = perScale{73.4, 73.4, 58}
		c.treePerChan[gpuBlackwell] = perScale{77.4, 82.8, 72}
	}},
	{nccl.NewTreeLatencies, func(c *costConstants) {
		c.baseLatency[nccl.AlgoTree][nccl.ProtoSimple] = 0
		for wire := range c.hopLatency {
			c.hopLatency[wire][nccl.AlgoTree][nccl.ProtoSimple] = 28
		}
	}},
}

func costsOf(version nccl.Version) costConstants {
	costs := defaultCosts
	for _, e := range earlierCosts {
		if !version.Has(e.until) {
			e.set(&costs)
		}
	}
	return costs
}

// gpuClass puts a compute capability (10*major+minor) into the row that NCCL uses for it.
func gpuClass(compCap int, version nccl.Version) int {
	switch {
	case compCap >= 100 && version.Has(nccl.BlackwellCosts):
		return gpuBlackwell
	case compCap >= 90:
		return gpuHopper
	case compCap >= 80:
		return gpuAmpere
	}
	return gpuVolta
}
