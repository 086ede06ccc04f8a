package probe

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// What the child process that loads a library prints may be mixed with what the library prints itself.
func FuzzProbe(f *testing.F) {
	f.Add("path /lib/x.so\nnccl 23007\nncclx\nmsccl\ntuner 4 x y\ntuner z\nversion 0.1.0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if l := parseProbe(text); l == nil || strings.Contains(l.Path, "\n") {
			t.Errorf("%q: %+v", text, l)
		}
	})
}

func BenchmarkWorstProbe(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		parseProbe(string(text))
		return nil
	}, hostile.Text{Unit: "tuner %d x\n"}, hostile.Text{Unit: "path x\n"})
}
