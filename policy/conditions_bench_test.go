package policy

import (
	"bytes"
	"fmt"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

const whenHeader = "collective,min_bytes,max_bytes,algorithm,protocol,when\n"

// conditionFiles are policies of n rows with conditions on calls: so many distinct ones, on rows
// whose sizes are steps, as in a measured policy, or all alike, with no condition that holds: the
// worst there can be.
func conditionFiles(n int) map[string][]byte {
	all := map[string][]byte{}
	for _, distinct := range []int{1, 100, n} {
		var steps, deep bytes.Buffer
		steps.WriteString(whenHeader)
		deep.WriteString(whenHeader)
		step := 1 << 30 / n
		algos := []string{"tree", "ring"}
		for i := range n {
			k := i % distinct
			fmt.Fprintf(&steps, "allreduce,%d,%d,%s,simple,bytes %% 16 == 0 && pipe_ops < %d\n", i*step, (i+1)*step-1,
				algos[i%2], 1000+k)
			fmt.Fprintf(&deep, "allreduce,,,%s,simple,bytes > 1*GiB + %d && topo.nvswitch\n", algos[i%2], k)
		}
		all[fmt.Sprintf("steps-%d", distinct)] = steps.Bytes()
		all[fmt.Sprintf("all-overlap-%d", distinct)] = deep.Bytes()
	}
	return all
}

func BenchmarkDecideByCondition(b *testing.B) {
	costs := nccl.Costs{Micros: make([]float32, 21), NumProto: 3}
	for i := range costs.Micros {
		costs.Micros[i] = float32(10 + i)
	}
	for name, text := range conditionFiles(10_000) {
		p, err := ReadCSV("x.csv", text)
		if err != nil {
			b.Fatal(err)
		}
		v := p.For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Topo: testTopology()})
		b.Run(name, func(b *testing.B) {
			i := 0
			b.ReportAllocs()
			began := cpuTime()
			for b.Loop() {
				i += 7919
				v.Decide(Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: uint64(i*4096) % (1 << 30)},
					PipeOps: 1, Costs: costs})
			}
			b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

func BenchmarkReadConditions(b *testing.B) {
	for name, text := range conditionFiles(10_000) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began := cpuTime()
			for b.Loop() {
				if _, err := ReadCSV("x.csv", text); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what this process has used, in nanoseconds: on a busy machine it tells more than the time that passes.
func cpuTime() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// What the first communicator of a kind costs.
func BenchmarkForConditions(b *testing.B) {
	for name, text := range conditionFiles(10_000) {
		p, err := ReadCSV("x.csv", text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			ranks := 0
			began := cpuTime()
			for b.Loop() {
				ranks += 8
				p.narrow(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: ranks}})
			}
			b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
