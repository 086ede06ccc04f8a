package policy

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// steps is a policy of n rows that cover 0..1 GiB in equal steps.
func steps(n int) []byte {
	var b bytes.Buffer
	step := 1 << 30 / n
	for i := range n {
		fmt.Fprintf(&b, "allreduce,%d,%d,%s,simple,%d,1,8,-1,-1\n", i*step, (i+1)*step-1,
			[]string{"tree", "ring"}[i%2], 1+i%32)
	}
	return b.Bytes()
}

func BenchmarkReadCSV(b *testing.B) {
	for _, n := range []int{10, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			text := steps(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ReadCSV("steps.csv", text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// files are policies whose rows differ in ways that an index could trip over.
func files(n int) map[string][]byte {
	var calls, both, shapes bytes.Buffer
	both.WriteString("collective,min_bytes,max_bytes,min_bytes_per_rank,max_bytes_per_rank,algorithm,protocol\n")
	for i := range n {
		fmt.Fprintf(&calls, "allreduce,0,inf,ring,simple,8,-1,-1,%d,-1\n", i)
		fmt.Fprintf(&both, "allreduce,%d,%d,%d,%d,ring,simple\n", i*1000, 1<<30+i, i*10, 1<<28+i)
		fmt.Fprintf(&shapes, "allreduce,%d,%d,ring,simple,8,%d,%d\n", i, i+1000, 1+i%100, 8+8*(i%100))
	}
	return map[string][]byte{"sizes": steps(n), "calls": calls.Bytes(), "both-ranges": both.Bytes(),
		"shapes": shapes.Bytes()}
}

func BenchmarkDecide(b *testing.B) {
	costs := nccl.Costs{Micros: make([]float32, 21), NumProto: 3}
	for i := range costs.Micros {
		costs.Micros[i] = float32(10 + i)
	}
	for _, n := range []int{10, 10_000, 100_000} {
		for name, text := range files(n) {
			p, err := ReadCSV("x.csv", text)
			if err != nil {
				b.Fatal(err)
			}
			v := p.For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				i := 0
				b.ReportAllocs()
				for b.Loop() {
					i += 7919
					v.Decide(Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: uint64(i*4096) % (1 << 30)},
						PipeOps: i % n, Costs: costs})
				}
			})
		}
	}
}

// What the first communicator of a kind costs once the file was read.
func BenchmarkFor(b *testing.B) {
	for name, text := range files(10_000) {
		p, err := ReadCSV("x.csv", text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.narrow(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
			}
		})
	}
}

// A person waits for it: 10 000 rows, each with its reason.
func BenchmarkExplain(b *testing.B) {
	p, err := ReadCSV("steps.csv", steps(10_000))
	if err != nil {
		b.Fatal(err)
	}
	v := p.For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
	for b.Loop() {
		v.Explain(Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << 20}, PipeOps: 1, Costs: costsOf(nil)})
	}
}
