package fit

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// shapes are the ways in which many rows come about. Each yields rows until
// it is told to stop.
var shapes = []struct {
	name string
	rows func(yield func(bench.Sample) bool)
}{
	// 25 communicators, measured over and over.
	{"repeats", func(yield func(bench.Sample) bool) {
		for rep := 0; ; rep++ {
			for _, m := range machines(25, smallMachine()) {
				for _, s := range m.sweep(1, uint64(rep)) {
					if !yield(s) {
						return
					}
				}
			}
		}
	}},
	// One sweep of each of many communicators.
	{"groups", func(yield func(bench.Sample) bool) {
		for _, m := range machines(1<<20, smallMachine()) {
			for _, s := range m.sweep(1, uint64(m.Nodes)) {
				if !yield(s) {
					return
				}
			}
		}
	}},
	// One communicator, tens of thousands of sizes.
	{"sizes", func(yield func(bench.Sample) bool) {
		m := smallMachine()
		m.sizes = nil
		for b := uint64(4 << 10); len(m.sizes) < 40_000; b += 4 << 10 {
			m.sizes = append(m.sizes, b)
		}
		sweepUntil(m, yield)
	}},
	// Every algorithm, protocol and channel count there is.
	{"channels", func(yield func(bench.Sample) bool) {
		m := smallMachine()
		m.everyCell = true
		m.channels = nil
		for c := 1; c <= nccl.MaxChannels; c++ {
			m.channels = append(m.channels, c)
		}
		for _, m := range machines(1<<20, m) {
			if !sweepUntil(m, yield) {
				return
			}
		}
	}},
	// The same, each configuration at sizes of its own: nothing is alike.
	{"scattered", scattered(20)},
	// The same with few sizes: more models than measurements of each.
	{"sparse", scattered(3)},
}

// scattered measures each configuration at so many sizes of its own.
func scattered(sizes int) func(yield func(bench.Sample) bool) {
	return func(yield func(bench.Sample) bool) {
		m := smallMachine()
		m.everyCell = true
		m.channels = []int{1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64}
		for _, m := range machines(1<<20, m) {
			rng := rand.New(rand.NewPCG(uint64(m.Nodes), 8))
			for _, c := range m.configs() {
				for range sizes {
					b := uint64(4096 * (1 + rng.IntN(1<<uint(1+rng.IntN(16)))))
					if !yield(m.sample(c, b, bench.SelectionForced, rng)) {
						return
					}
				}
			}
		}
	}
}

// machines are n communicators like one, in all collectives.
func machines(n int, like machine) func(func(int, machine) bool) {
	return func(yield func(int, machine) bool) {
		for i := range n {
			m := like
			m.Coll = nccl.Coll(i % nccl.NumColls)
			m.Nodes = 1 + i/nccl.NumColls
			m.Ranks = 8 * m.Nodes
			if !yield(i, m) {
				return
			}
		}
	}
}

// sweepUntil yields one sweep; false: it was told to stop.
func sweepUntil(m machine, yield func(bench.Sample) bool) bool {
	rng := rand.New(rand.NewPCG(uint64(m.Nodes), 3))
	for _, b := range m.sizes {
		if !yield(m.sample(m.byDefault(b), b, bench.SelectionDefault, rng)) {
			return false
		}
		for _, c := range m.configs() {
			if !yield(m.sample(c, b, bench.SelectionForced, rng)) {
				return false
			}
		}
	}
	return true
}

// BenchmarkFit fits what was pooled and writes the model: 100 000 rows in 5 s and 300 MiB.
func BenchmarkFit(b *testing.B) {
	for _, shape := range shapes {
		for _, rows := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, rows), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					p := NewPool()
					n := 0
					for s := range shape.rows {
						p.Add(&s)
						if n++; n == rows {
							break
						}
					}
					b.StartTimer()
					file, _ := Fit(p.Set(), Options{})
					if err := WriteModel(io.Discard, file); err != nil {
						b.Fatal(err)
					}
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-from-OS")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(rows), "us/row")
			})
		}
	}
}
