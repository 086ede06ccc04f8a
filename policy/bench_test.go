package policy

import (
	"bytes"
	"fmt"
	"testing"
)

// steps is a policy of n rows that cover 0..1 GiB in equal steps.
func steps(n int) []byte {
	var b bytes.Buffer
	step := 1 << 30 / n
	for i := range n {
		fmt.Fprintf(&b, "allreduce,%d,%d,%s,simple,%d,1,8,-1,-1\n", i*step, (i+1)*step-1, []string{"tree", "ring"}[i%2], 1+i%32)
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
