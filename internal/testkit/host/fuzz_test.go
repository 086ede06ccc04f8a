package host

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// A plugin may print into what its host answers.
func FuzzAnswer(f *testing.F) {
	f.Add("8 131072 -1 2.5 nan 1e99")
	f.Fuzz(func(t *testing.T, text string) {
		fields := strings.Fields(text)
		if a, err := parseAnswer(fields); err == nil && len(a.Table) != len(fields)-2 {
			t.Errorf("%q: %+v", text, a)
		}
	})
}

func BenchmarkWorstAnswer(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := parseAnswer(strings.Fields(string(text)))
		return err
	}, hostile.Text{Unit: "1 "})
}
