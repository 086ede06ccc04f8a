package simulate

import (
	"math"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Options say what to sweep on which communicator.
type Options struct {
	Tuning *tuning.Tuning // of a communicator with 2 ranks or more
	System string         // names the cluster in the samples' source, without a comma
	Seed   uint64         // picks the cluster and the noise

	Colls []nccl.Coll
	Sizes []uint64 // bytes, 1 to MaxBytes
	// Channels are the counts to force, 1 or more. Those that an algorithm does not
	// have are left out for it; where NCCL obeys no count, its own is the only one.
	Channels    []int
	Repetitions int // of the whole sweep, 1 or more
	// Noise is the typical deviation of one time (robust standard deviation) between
	// 64 KiB and 16 MiB, as a part, 0 to MaxNoise; twice that below and half of it
	// above. On real clusters it is 0.003 to 0.013. 0: times are the Truth's.
	Noise float64
}

// Bounds of Options, which Sweep does not check.
const (
	MaxBytes = 1 << 40
	MaxNoise = .2
)

// Sweep returns the samples in the order in which they would have been measured. For
// each collective, NCCL's choice comes first, then one configuration after the other,
// each repeated.
func Sweep(o Options) []bench.Sample {
	s := sweep{
		Options: o, truth: NewTruth(o.Tuning, o.Seed),
		source: "simulated:" + o.System + "/seed" + strconv.FormatUint(o.Seed, 10),
	}
	for _, coll := range o.Colls {
		for rep := range o.Repetitions {
			s.measure(coll, nccl.Config{Cell: nccl.NoCell}, rep)
		}
		for _, x := range offered(o.Tuning, coll) {
			for _, channels := range s.counts(x.Algo) {
				for rep := range o.Repetitions {
					s.measure(coll, nccl.Config{Cell: x.Cell, Channels: channels}, rep)
				}
			}
		}
	}
	return s.samples
}

type sweep struct {
	Options
	truth   *Truth
	source  string
	samples []bench.Sample
}

// counts returns the numbers of channels to force.
func (s *sweep) counts(a nccl.Algo) (counts []int) {
	limit := s.Tuning.Channels(a)
	if !nccl.ChannelsCanBeSet(a, s.Tuning.Nodes) {
		return []int{limit}
	}
	for _, n := range s.Channels {
		if n <= limit && !slices.Contains(counts, n) {
			counts = append(counts, n)
		}
	}
	return counts
}

// measure times all sizes once. A configuration that is not known is NCCL's choice.
func (s *sweep) measure(coll nccl.Coll, asked nccl.Config, rep int) {
	key := []int64{int64(coll), int64(asked.Algo), int64(asked.Proto), int64(asked.Channels), int64(rep)}
	noise := Noise{typical: s.Noise, run: s.draw(aboutRun, key...).heavy()}
	for _, bytes := range s.Sizes {
		noise.times = s.draw(aboutTime, append(key, int64(bytes))...)
		c, by := asked, bench.SelectionForced
		if !asked.Known() {
			c, by = s.Tuning.Choose(coll, int64(bytes), 1).Config, bench.SelectionDefault
		}
		s.add(nccl.Call{Coll: coll, Bytes: bytes}, c, by, rep, noise)
	}
}

func (s *sweep) draw(about int, key ...int64) draw {
	return newDraw(s.Seed, about, append([]int64{int64(s.Tuning.Nodes), int64(s.Tuning.Ranks)}, key...)...)
}

// add times a configuration once, where NCCL has it.
func (s *sweep) add(call nccl.Call, c nccl.Config, by bench.Selection, rep int, noise Noise) {
	us, ok := s.truth.Micros(call.Coll, c, call.Bytes)
	if !ok {
		return
	}
	us = printed(us * noise.Next(call.Bytes))
	algBW := float64(call.Bytes) / 1000 / us
	m := bench.Sample{
		Call: call, DType: "float", Config: c, Comm: s.Tuning.Comm, Selection: by,
		Micros: us, AlgBW: printedBW(algBW), BusBW: printedBW(algBW * call.Coll.BusFactor(float64(s.Tuning.Ranks))),
		Source: s.source, Start: 1 + rep, Pass: 1, Simulated: true,
	}
	if call.Coll == nccl.CollAllReduce || call.Coll == nccl.CollReduceScatter || call.Coll == nccl.CollReduce {
		m.RedOp = "sum"
	}
	s.samples = append(s.samples, m)
}

const (
	runPart     = .5   // of the noise is common to a run: clocks, placement of buffers
	ownPart     = .866 // the rest, so that the squares of both sum to 1
	outlierRate = .004 // another job, a retransmission: nccl-tests' mean of 20 moves
)

// Noise is the deviation of the times of one run of nccl-tests.
type Noise struct {
	typical float64 // as Options.Noise
	run     float64 // the run's deviation
	times   draw    // of the times' own deviations
}

// NewNoise draws the noise of a run, which has a number. typical means what Options.Noise means.
func NewNoise(typical float64, seed, number uint64) *Noise {
	return &Noise{typical, newDraw(seed, aboutRun, int64(number)).heavy(), newDraw(seed, aboutTime, int64(number))}
}

// Next is the factor by which the next time is off.
func (n *Noise) Next(bytes uint64) float64 {
	noise := n.typical
	if noise == 0 {
		return 1
	}
	switch {
	case bytes < 64<<10:
		noise *= 2
	case bytes > 16<<20:
		noise /= 2
	}
	off := runPart*n.run + ownPart*n.times.heavy()
	factor := max(.5, 1+noise*off)
	if rare, far := n.times.uniform(), n.times.uniform(); rare < outlierRate {
		factor *= 1.05 + .6*(far*far)
	}
	return factor
}

// printed rounds a time to the digits that nccl-tests has room for.
func printed(us float64) float64 {
	switch {
	case us < 1e4:
		return max(.01, math.Round(us*100)/100)
	case us < 1e5:
		return math.Round(us*10) / 10
	}
	return math.Round(us)
}

func printedBW(gbps float64) float64 {
	if gbps < 1 {
		return math.Round(gbps*1e4) / 1e4
	}
	return math.Round(gbps*100) / 100
}
