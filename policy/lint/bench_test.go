package lint

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Files of 10 000 rows of which many meet, in kinds that are hard for different checks. The target
// is a second each.
func BenchmarkCheck10000(b *testing.B) {
	const n = 10_000
	rng := rand.New(rand.NewPCG(1, 1))
	either := func(values ...string) string { return values[rng.IntN(len(values))] }
	algo, proto := func() string { return either("ring", "tree") }, func() string {
		return either("ll", "ll128", "simple", "-1")
	}
	for _, kind := range []struct {
		name string
		row  func(i int) string
	}{
		{"side by side", func(i int) string {
			return fmt.Sprintf("%d,%d,%s,%s,%d,%d,%d,,", i/100*4096, i/100*4096+4095, algo(), proto(), 1+i%32, 1+i%100,
				8*(1+i%100))
		}},
		{"overlapping", func(i int) string {
			return fmt.Sprintf("%d,%d,%s,%s,%d,2,16,,", i, 1<<30+i, algo(), proto(), 1+i%32)
		}},
		{"wider and wider", func(i int) string {
			return fmt.Sprintf("%d,%d,ring,simple,%d,2,16,,", n-i, 1<<30-i, 1+i%32)
		}},
		{"never reached", func(i int) string {
			return fmt.Sprintf("%d,%d,ring,simple,%d,2,16,,", max(0, i-2)*(1-i%2), 1<<(30-i%2)+i, 1+i%32)
		}},
		{"scattered", func(i int) string {
			at := rng.IntN(1 << 32)
			return fmt.Sprintf("%d,%d,%s,%s,%d,%s,%s,,", at, at+rng.IntN(1<<28), algo(), proto(), 1+i%32,
				either("-1", "1", "2", "4"), either("-1", "8", "16", "64"))
		}},
		{"bytes and bytes per rank", func(i int) string {
			at := rng.IntN(1 << 32)
			return fmt.Sprintf("%d,%d,%s,%s,%d,,,%d,", at, at+rng.IntN(1<<28), algo(), proto(), 1+i%32,
				at/(8+rng.IntN(56)))
		}},
		{"a kind each", func(i int) string {
			return fmt.Sprintf("%d,%d,%s,%s,%d,%d,,,", i, 1<<30, algo(), proto(), 1+i%32, i+1)
		}},
	} {
		b.Run(strings.ReplaceAll(kind.name, " ", "-"), func(b *testing.B) {
			var text strings.Builder
			text.WriteString(
				"collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,min_bytes_per_rank,max_bytes_per_rank\n")
			for i := range n {
				fmt.Fprintf(&text, "allreduce,%s\n", kind.row(i))
			}
			data := []byte(text.String())
			var found []Diagnostic
			for b.Loop() {
				found = Check("bench.csv", data, Options{})
			}
			if len(found) > 0 && found[0].Rule == Invalid {
				b.Fatal(found[0])
			}
			b.ReportMetric(float64(len(found)), "findings")
		})
	}
}
