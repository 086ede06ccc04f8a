package cli

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

func FuzzSizesAndComms(f *testing.F) {
	for _, text := range []string{"1K-4G", "64K,1M", "0-1", "1-1024T", "1x8", "4x8", "4096x4096", "-1x8"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sizes, isRange, err := ParseSizes(text)
		if err == nil && (len(sizes) == 0 || !slices.IsSorted(sizes) || isRange && (sizes[0] == 0 || len(sizes) > 64)) {
			t.Errorf("%q: %v", text, sizes)
		}
		c, err := ParseComm(text)
		if err != nil {
			return
		}
		if c.Ranks < 2 || c.Ranks > MaxRanks || c.Ranks%c.Nodes != 0 {
			t.Errorf("%q: %+v", text, c)
		}
		if again, err := ParseComm(fmt.Sprintf("%dx%d", c.Nodes, c.Ranks/c.Nodes)); err != nil || again != c {
			t.Errorf("%q: %+v comes back as %+v, %v", text, c, again, err)
		}
	})
}

func BenchmarkWorstSizesAndComms(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, _, wrong := ParseSizes(string(text))
		_, too := ParseComm(string(text))
		return errors.Join(wrong, too)
	}, hostile.Text{Unit: "%dK,", Tail: "1"}, hostile.Text{Head: "1-1", Unit: "0"}, hostile.Text{Head: "1x", Unit: "1"})
}
