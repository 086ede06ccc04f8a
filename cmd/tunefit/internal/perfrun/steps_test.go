package perfrun

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

func TestSteps(t *testing.T) {
	for _, test := range []struct {
		sizes []uint64
		unit  uint64
		want  string
	}{
		{[]uint64{4096}, 4, "[{4096 4096 0}]"},
		{[]uint64{1024, 2048, 4096}, 4, "[{1024 4096 2}]"},
		{[]uint64{1024, 4096, 16384, 32768}, 4, "[{1024 16384 4} {32768 32768 0}]"},
		{[]uint64{1000, 1500, 3000}, 4, "[{1000 3000 3} {1500 1500 0}]"},
		{[]uint64{1 << 20, 3 << 19, 2 << 20, 3 << 20, 4 << 20, 6 << 20}, 4,
			"[{1048576 4194304 2} {1572864 6291456 2}]"},
		{[]uint64{4, 1 << 63}, 4, "[{4 4 0} {9223372036854775808 9223372036854775808 0}]"},
	} {
		if got := fmt.Sprint(Steps(test.sizes, test.unit)); got != test.want {
			t.Errorf("%v: %s, want %s", test.sizes, got, test.want)
		}
	}
}

// However nccl-tests trims the sizes of a range, one start measures them again.
func TestStepsOverTrimmedSizes(t *testing.T) {
	for ranks := 2; ranks <= 96; ranks++ {
		for _, coll := range []nccl.Coll{nccl.CollAllGather, nccl.CollReduceScatter, nccl.CollAllReduce} {
			unit := TrimUnit(fit.Key{Coll: coll, Comm: nccl.Comm{Nodes: 1, Ranks: ranks}})
			var sizes []uint64
			for b := uint64(4 << 10); b <= 1<<30; b *= 2 {
				sizes = append(sizes, b/unit*unit)
			}
			all := Steps(sizes, unit)
			if len(all) != 1 {
				t.Fatalf("%s on %d ranks: %v", coll, ranks, all)
			}
			if again := all[0].Sizes(unit); !slices.Equal(again, sizes) {
				t.Fatalf("%s on %d ranks: %v measures %v, want %v", coll, ranks, all, again, sizes)
			}
		}
	}
}

// In several passes each range has two sizes at least, where there is a smaller one.
func TestStepsOfPasses(t *testing.T) {
	for _, test := range []struct {
		sizes []uint64
		unit  uint64
		want  string
	}{
		{[]uint64{1024, 2048, 4096}, 4, "[{1024 4096 2}]"},
		{[]uint64{4096}, 4, "[{2048 4096 2}]"},
		{[]uint64{4}, 4, "[{4 4 0}]"},
		{[]uint64{1024, 4096, 16384, 32768}, 4, "[{1024 16384 4} {16384 32768 2}]"},
		{[]uint64{768}, 384, "[{512 1024 2}]"},
	} {
		all := PassSteps(test.sizes, test.unit)
		if got := fmt.Sprint(all); got != test.want {
			t.Errorf("%v: %s, want %s", test.sizes, got, test.want)
		}
		for _, b := range test.sizes {
			if !slices.ContainsFunc(all, func(s Step) bool { return slices.Contains(s.Sizes(test.unit), b) }) {
				t.Errorf("%v: %v do not measure %d", test.sizes, all, b)
			}
		}
	}
}
