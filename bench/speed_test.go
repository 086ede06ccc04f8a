package bench

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// manyRows is a log of about so many bytes: rows between lines of NCCL's log.
func manyRows(bytes_ int, logLines int) []byte {
	var b bytes.Buffer
	b.WriteString(head("all_reduce_perf", 2, 8))
	for i := 0; b.Len() < bytes_; i++ {
		size := uint64(1024 + 64*i)
		for range logLines {
			fmt.Fprintf(&b,
				"node0:77:77 [0] NCCL INFO AllReduce: %d Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}\n", size)
		}
		us := 20 + float64(size)/1e5
		alg := float64(size) / us / 1000
		fmt.Fprintf(&b, "%12d  %12d  %8s  %6s  %6d  %7.2f  %6.2f  %6.2f  %6d  %7.2f  %6.2f  %6.2f  %6d\n",
			size, size/4, "float", "sum", -1, us, alg, alg*1.875, 0, us, alg, alg*1.875, 0)
	}
	b.WriteString(tail(0))
	return b.Bytes()
}

func BenchmarkReadText15MB(b *testing.B) {
	for _, logLines := range []int{0, 10} {
		text := manyRows(15e6, logLines)
		b.Run(fmt.Sprintf("logLines=%d", logLines), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := Read(bytes.NewReader(text), "x.log", Options{})
				if err != nil || r.NumRejected() > 0 {
					b.Fatal(err, r.Rejected)
				}
			}
		})
	}
}

func manySamples(n int) []Sample {
	samples := make([]Sample, n)
	for i := range samples {
		size := uint64(1) << (10 + i%20)
		us := 20 + float64(size)/1e5 + float64(i%97)/100
		samples[i] = Sample{
			Call: nccl.Call{Coll: 4, Bytes: size}, DType: "float", RedOp: "sum",
			Config: nccl.Config{Cell: nccl.Cell{Algo: 1, Proto: 2}, Channels: 1 + i%32},
			Comm:   nccl.Comm{Nodes: 2, Ranks: 16}, Selection: SelectionForced, Micros: us,
			AlgBW: float64(size) / us / 1000, BusBW: float64(size) / us / 1000 * 1.875,
			Source: "cluster/run" + fmt.Sprint(i%100),
		}
	}
	return samples
}

func BenchmarkReadTidy(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		var file bytes.Buffer
		if err := WriteTidy(&file, manySamples(n)); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			b.SetBytes(int64(file.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r, err := Read(bytes.NewReader(file.Bytes()), "x.csv", Options{})
				if err != nil || len(r.Samples) != n {
					b.Fatal(err, r.Rejected)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-from-OS")
		})
	}
}

func BenchmarkWriteTidy(b *testing.B) {
	samples := manySamples(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteTidy(io.Discard, samples); err != nil {
			b.Fatal(err)
		}
	}
}
