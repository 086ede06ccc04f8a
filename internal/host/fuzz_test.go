package host

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// What the child process that loads a library prints may be mixed with what the library prints itself.
func FuzzProbe(f *testing.F) {
	f.Add("path /lib/x.so\nnccl 23007\nncclx\nmsccl\ntuner 4 x y\ntuner z\nversion 0.1.0\n")
	f.Add("8 131072 -1 2.5 nan 1e99")
	f.Fuzz(func(t *testing.T, text string) {
		if l := parseProbe(text); l == nil || strings.Contains(l.Path, "\n") {
			t.Errorf("%q: %+v", text, l)
		}
		fields := strings.Fields(text)
		if a, err := parseAnswer(fields); err == nil && len(a.Table) != len(fields)-2 {
			t.Errorf("%q: %+v", text, a)
		}
	})
}

func BenchmarkWorstProbe(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		parseProbe(string(text))
		_, err := parseAnswer(strings.Fields(string(text)))
		return err
	}, hostile.Text{Unit: "tuner %d x\n"}, hostile.Text{Unit: "path x\n"})
}
