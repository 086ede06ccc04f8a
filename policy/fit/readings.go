package fit

import (
	"cmp"
	"iter"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// reading is an accepted sample in the pool.
type reading struct {
	bench.Sample
	source source
}

func (r *reading) byDefault() bool { return r.Selection == bench.SelectionDefault }

// points yields the readings that are repetitions of one another, in the order of arrival. Channel counts that NCCL
// chose are left out: to keep them would split one curve into many. Where runs asked for some counts of an algorithm
// and protocol, the others are repetitions of these.
func points(all []*reading) iter.Seq[[]*reading] {
	asked := map[nccl.Cell]bool{}
	for _, r := range all {
		if r.Channels > 0 && (r.Selection == bench.SelectionForced || r.Selection == bench.SelectionUnknown) {
			asked[r.Cell] = true
		}
	}
	inOrder := make([]*reading, len(all))
	for i, r := range all {
		if r.Selection == bench.SelectionOwnChannels && !asked[r.Cell] {
			own := *r
			own.Channels, r = 0, &own
		}
		inOrder[i] = r
	}
	compare := func(a, b *reading) int {
		return cmp.Or(a.Config.Compare(b.Config), boolToInt(a.byDefault())-boolToInt(b.byDefault()),
			boolToInt(a.Verify)-boolToInt(b.Verify), cmp.Compare(a.Bytes, b.Bytes))
	}
	slices.SortStableFunc(inOrder, compare)
	return func(yield func([]*reading) bool) {
		for from := 0; from < len(inOrder); {
			to := from + 1
			for to < len(inOrder) && compare(inOrder[from], inOrder[to]) == 0 {
				to++
			}
			if !yield(inOrder[from:to]) {
				return
			}
			from = to
		}
	}
}
