package csvtable

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

func BenchmarkWorstRead(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := NewReader(strings.NewReader(string(text))).ReadAll()
		return err
	},
		hostile.Text{Unit: "a,1\n"}, hostile.Text{Unit: "\"\n\",1\n"}, hostile.Text{Unit: ","},
	)
}
