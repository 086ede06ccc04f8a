package channels

import (
	"errors"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Values of NCCL's variables: they are refused as NCCL refuses them, or become numbers that NCCL could have.
func FuzzVariables(f *testing.F) {
	f.Add("^tree;broadcast:ring", "LL,^LL128", "-1")
	f.Add("allreduce:nvls;;:x", "simple:", "0x7fffffffffffffff")
	f.Add("ring", "", "9999999999999999999 -2 3")
	f.Fuzz(func(t *testing.T, algo, proto, number string) {
		for _, version := range nccl.KnownVersions {
			v, err := VariablesFromEnv(func(name string) string {
				switch name {
				case "NCCL_ALGO":
					return algo
				case "NCCL_PROTO":
					return proto
				}
				return number
			}, version)
			if err != nil {
				continue
			}
			most := maxChannels(version)
			for _, n := range []int{v.MinChannels, v.MaxChannels, v.MinCTAs, v.MaxCTAs} {
				if n < 0 || n > most {
					t.Errorf("NCCL %s: %q makes %d channels", version, number, n)
				}
			}
			v.Starved(version)
			_, _ = ParseSymKernel(algo, version)
		}
	})
}

func BenchmarkWorstVariables(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		value := string(text)
		_, wrong := VariablesFromEnv(func(string) string { return value }, nccl.Newest)
		_, too := ParseSymKernel(value, nccl.Newest)
		return errors.Join(wrong, too)
	},
		hostile.Text{Unit: "ring,"}, hostile.Text{Unit: "allreduce:ring;"}, hostile.Text{Unit: "allreduce:x%d;"},
		hostile.Text{Unit: ";"}, hostile.Text{Unit: "^ring;"},
	)
}
