package tuning

import (
	"math"
	"math/bits"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// treeCorrection scales the bandwidth of tree AllReduce by size: entry i holds for 2^(6+i) <= bytes < 2^(7+i).
// Source: NCCL 2.30.7, graph/tuning.cc. NCCL uses the last column for NVLSTree only.
var treeCorrection = [nccl.NumProtos][24]float32{
	nccl.ProtoLL: {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5,
		.4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
	nccl.ProtoLL128: {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6,
		.6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
	nccl.ProtoSimple: {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
		.5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}

const (
	opsPerBatch      = 8   // collectives in one work batch of the device; NCCL 2.30.7, device.h
	plateauMinBytes  = 64  // bytes per channel and rank from which a ring over nodes pays the plateau factor
	plateauFactor    = 1.4 // NCCL 2.30.7, graph/tuning.cc; before Ampere it is 1.9
	plateauFactorOld = 1.9
)

// Table predicts the time of one collective for each algorithm and protocol, the way NCCL fills the table that it
// hands to a tuner. bytes is NCCL's size of the collective (the larger of send and receive buffer), pipeOps the
// number of operations that NCCL pipelines, 1 without aggregation.
//
// Not applied: NCCL multiplies ring cells by 1024 for FP8 reductions over more than 8 ranks, and hides NVLS for
// types and reductions that the switch cannot do.
func (t *Tuning) Table(coll nccl.Coll, bytes int64, pipeOps int) nccl.CostTable {
	var table nccl.CostTable
	alone := t.Ranks == 1
	for a, p := range nccl.Cells {
		switch {
		case !coll.IsAsked() || bytes < 0 || !alone && !t.offers(coll, a):
			table[a][p] = nccl.Unavailable
		case !alone:
			table[a][p] = t.micros(coll, a, p, bytes, pipeOps)
		case a != nccl.AlgoRing || p != nccl.ProtoSimple:
			table[a][p] = nccl.Unavailable
		}
	}
	return table
}

// Offers says whether any algorithm is left for the collective.
func (t *Tuning) Offers(coll nccl.Coll) bool {
	for a := range nccl.Algo(nccl.NumAlgos) {
		if t.Bandwidths[coll][a] != [nccl.NumProtos]float32{} && t.offers(coll, a) {
			return true
		}
	}
	return false
}

// offers says whether NCCL considers the algorithm at all. A cell of it with bandwidth 0 is still unavailable.
func (t *Tuning) offers(coll nccl.Coll, algo nccl.Algo) bool {
	switch algo {
	case nccl.AlgoCollNetDirect, nccl.AlgoCollNetChain:
		return t.CollNet && t.LocalRanks() <= nccl.MaxDirectRanks
	case nccl.AlgoNVLS, nccl.AlgoNVLSTree:
		if !t.NVLS || coll != nccl.CollAllReduce && t.LocalRanks() > nccl.MaxNVLSRanks {
			return false
		}
		return algo == nccl.AlgoNVLSTree || t.CollNet || t.Nodes == 1
	}
	return true
}

// micros is latency + bytes/bandwidth with NCCL's corrections. The conversions to float32 stand where NCCL stores
// into a float.
func (t *Tuning) micros(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto, bytes int64, pipeOps int) float32 {
	bw := t.Bandwidths[coll][algo][proto]
	lat := t.Latencies[coll][algo][proto]
	if bw == 0 {
		return nccl.Unavailable
	}
	if t.isSharedPAT(algo) {
		return nccl.TunerOnly
	}
	if step := log2(bytes>>6, -1); coll == nccl.CollAllReduce && step >= 0 && t.corrected(algo, step) {
		bw = bw * treeCorrection[proto][step]
	}
	if algo == nccl.AlgoRing && proto == nccl.ProtoSimple && t.ringPlateau(coll) {
		if each := bytes / (int64(t.plateauChannels()) * int64(t.Ranks)); each >= plateauMinBytes {
			lat = t.plateau(coll, lat, each)
		}
	}
	launches := pipeOps
	if algo != nccl.AlgoRing {
		launches = (pipeOps + opsPerBatch - 1) / opsPerBatch
	}
	us := lat*float32(launches) + float32(bytes)/(1000*bw)
	if us <= 0 && t.NCCL.Has(nccl.Models) {
		return nccl.Unavailable
	}
	return us
}

// corrected says whether treeCorrection holds for an AllReduce.
func (t *Tuning) corrected(algo nccl.Algo, step int) bool {
	switch {
	case algo == nccl.AlgoTree:
		return step < 23
	case algo != nccl.AlgoNVLSTree || step >= 24 || t.MinCompCap < 100 || !t.NCCL.Has(nccl.CorrectedNVLSTree):
		return false
	case t.CPUArch == nccl.ArchX86:
		return true
	}
	// NCCL measured this for trays of four GPUs on Grace with one fast NIC each.
	return t.NCCL.Has(nccl.Models) && t.CPUArch == nccl.ArchARM && t.MinNetBW >= 96 &&
		t.FewestLocalRanks() == 4 && t.LocalRanks() == 4 && (step < t.armSteps() || t.Nodes > 2)
}

// armSteps is the step at which the correction of NVLSTree ends on Arm.
func (t *Tuning) armSteps() int {
	if t.NCCL.Has(nccl.ShorterCorrection) {
		return 20
	}
	return 23
}

// plateau raises the latency of a ring that moves each bytes per channel and rank.
func (t *Tuning) plateau(coll nccl.Coll, lat float32, each int64) float32 {
	factor := plateauFactor
	if t.MinCompCap < 80 {
		factor = plateauFactorOld
	}
	if !t.NCCL.Has(nccl.GradualPlateau) {
		return float32(float64(lat) * factor)
	}
	if t.Nodes > 1 {
		return lat * float32(factor)
	}
	// NCCL 2.32.3, tuning/ring.cc: a ring of one step has no plateau, and each further step leaves a part of what is
	// missing. From 256 to 512 KiB the plateau falls by that part, too.
	const part, from = 0.1, 256 << 10
	steps := t.Ranks - 1
	if coll == nccl.CollAllReduce {
		steps *= 2
	}
	most := float32(factor) - 1
	reached := 1 - float32(math.Pow(float64(part/most), float64(max(0, steps-1))))
	if each > from {
		most -= part * min(1, float32(each-from)/from)
	}
	return lat * (1 + reached*most)
}

// ringPlateau reports whether the latency of large rings is multiplied by the plateau factor.
func (t *Tuning) ringPlateau(coll nccl.Coll) bool {
	if t.plateauChannels() == 0 || t.Ranks == 0 {
		return false
	}
	if t.Nodes > 1 {
		return coll == nccl.CollAllReduce
	}
	return t.NCCL.Has(nccl.Models) && t.MinCompCap >= 100 && t.RingNVLink &&
		(coll == nccl.CollAllGather || coll == nccl.CollReduceScatter ||
			coll == nccl.CollAllReduce && t.NCCL.Has(nccl.GradualPlateau))
}

// plateauChannels is the number of channels that NCCL divides the size by to decide on the plateau.
func (t *Tuning) plateauChannels() int {
	if !t.NCCL.Has(nccl.NVLSChannelsCount) {
		return max(t.NChannels, t.NVLSChannels)
	}
	return t.NChannels
}

// log2 rounds down; it returns zero for 0 and below.
func log2(n int64, zero int) int {
	if n <= 0 {
		return zero
	}
	return bits.Len64(uint64(n)) - 1
}
