package fit

import (
	"math"
	"math/rand/v2"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// machine is a made-up communicator whose true times are known.
type machine struct {
	Key
	sizes    []uint64
	channels []int
	noise    float64
	// everyCell sweeps all algorithms and protocols instead of tree and ring with
	// LL and Simple.
	everyCell bool
}

func smallMachine() machine {
	m := machine{Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 2, Ranks: 16}},
		channels: []int{1, 2, 4, 8, 16, 32}, noise: 0.005}
	for b := uint64(4 << 10); b <= 256<<20; b *= 2 {
		m.sizes = append(m.sizes, b)
	}
	return m
}

// micros is latency that grows with channels, and bandwidth that channels add to
// until the links are full: LL early and slow, Simple late and fast.
func (m machine) micros(c nccl.Config, bytes uint64) float64 {
	latency, perChannel, link := 12.0, 1.2, 90.0 // us, GB/s, GB/s
	if c.Proto == nccl.ProtoSimple {
		latency, perChannel, link = 35, 6, 180
	}
	if c.Algo == nccl.AlgoTree {
		latency, perChannel, link = 0.7*latency, 0.8*perChannel, 0.6*link
	}
	channels := float64(c.Channels)
	step := 1.0
	if bytes >= 1<<20 { // the library switches something at 1 MiB
		step = 1.15
	}
	perStep := 0.15 // us: more for the longer way around a ring
	if c.Algo == nccl.AlgoRing {
		perStep = 0.4
	}
	return step * (latency + perStep*channels + float64(bytes)/1000*(1/(perChannel*channels)+1/link))
}

func (m machine) configs() []nccl.Config {
	var all []nccl.Config
	algos, protos := []nccl.Algo{nccl.AlgoTree, nccl.AlgoRing}, []nccl.Proto{nccl.ProtoLL, nccl.ProtoSimple}
	if m.everyCell {
		algos, protos = nil, []nccl.Proto{nccl.ProtoLL, nccl.ProtoLL128, nccl.ProtoSimple}
		for a := range nccl.AlgoPAT + 1 {
			algos = append(algos, a)
		}
	}
	for _, a := range algos {
		for _, p := range protos {
			for _, c := range m.channels {
				all = append(all, nccl.Config{Cell: nccl.Cell{Algo: a, Proto: p}, Channels: c})
			}
		}
	}
	return all
}

// byDefault is what the made-up library chooses: not badly, not well.
func (m machine) byDefault(bytes uint64) nccl.Config {
	if bytes < 512<<10 {
		return nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}, Channels: 16}
	}
	return nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}, Channels: 8}
}

func (m machine) sample(c nccl.Config, bytes uint64, by bench.Selection, rng *rand.Rand) bench.Sample {
	return bench.Sample{
		Call: nccl.Call{Coll: m.Coll, Bytes: bytes}, Comm: m.Comm, DType: "float", RedOp: "sum", Config: c,
		Selection: by, Micros: m.micros(c, bytes) * math.Exp(m.noise*rng.NormFloat64()),
	}
}

func (m machine) sweep(reps int, seed uint64) []bench.Sample {
	rng := rand.New(rand.NewPCG(seed, 3))
	var all []bench.Sample
	for range reps {
		for _, b := range m.sizes {
			all = append(all, m.sample(m.byDefault(b), b, bench.SelectionDefault, rng))
			for _, c := range m.configs() {
				all = append(all, m.sample(c, b, bench.SelectionForced, rng))
			}
		}
	}
	return all
}

func pooled(samples []bench.Sample) *Set {
	p := NewPool()
	for i := range samples {
		p.Add(&samples[i])
	}
	return p.Set()
}
