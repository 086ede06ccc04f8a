package fit

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// label is what samples have to have in common to be repetitions of one another.
type label struct {
	nccl.Config
	bytes    uint64
	by       bench.Selection // who chose; SelectionUnknown: nobody said, and it is a configuration
	verifies bool
}

func (l label) compare(o label) int {
	return cmp.Or(l.Config.Compare(o.Config), cmp.Compare(l.by, o.by), boolToInt(l.verifies)-boolToInt(o.verifies),
		cmp.Compare(l.bytes, o.bytes))
}

func (l label) byDefault() bool { return l.by == bench.SelectionDefault }

// reading is one accepted sample.
type reading struct {
	micros float64
	order  int // of arrival
	source source
}

// variantPool holds what was measured.
type variantPool struct {
	simulated int // of the readings
	readings  int
	points    map[label][]reading
	// asked are the families of which our library asked for channels: these are no counts of NCCL's own.
	asked map[nccl.Cell]bool
}

func (vp *variantPool) add(l label, micros float64, from source) {
	vp.points[l] = append(vp.points[l], reading{micros, vp.readings, from})
	vp.readings++
}

// join takes the readings of another pool, as if they had arrived last.
func (vp *variantPool) join(other *variantPool) {
	for l, all := range other.points {
		for _, r := range all {
			r.order += vp.readings
			vp.points[l] = append(vp.points[l], r)
		}
	}
	maps.Copy(vp.asked, other.asked)
	vp.readings, vp.simulated = vp.readings+other.readings, vp.simulated+other.simulated
}

// inOrder yields the readings of each point in the order of arrival.
func (vp *variantPool) inOrder() iter.Seq2[label, []reading] {
	return func(yield func(label, []reading) bool) {
		for _, l := range slices.SortedFunc(maps.Keys(vp.points), label.compare) {
			all := vp.points[l]
			slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(a.order, b.order) })
			if !yield(l, all) {
				return
			}
		}
	}
}
