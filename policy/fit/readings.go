package fit

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// variantPool holds what was measured in the order of arrival, or sorted.
type variantPool struct {
	simulated int // of the readings
	readings  []reading
	origins   []origin // in the order of arrival
	sorted    bool
}

// reading is one accepted sample.
type reading struct {
	cell   cellLabel
	order  uint32 // of arrival
	bytes  uint64
	micros float64
}

// cellLabel is a configuration, whether the library chose its channels, whether it chose
// it all, and whether that is to verify it, in one number that sorts as they do.
type cellLabel uint32

const (
	labelChosen      cellLabel = 1
	labelOwnChannels cellLabel = 2
	labelVerifies    cellLabel = 4
)

func newCellLabel(c Config, by bench.Selection, verifies bool) cellLabel {
	l := cellLabel(c.Algo+1)<<24 | cellLabel(c.Proto+1)<<16 | cellLabel(c.Channels)<<8
	switch by {
	case bench.SelectionDefault:
		l |= labelChosen
	case bench.SelectionOwnChannels:
		l |= labelOwnChannels
	}
	if verifies {
		l |= labelVerifies
	}
	return l
}

func (l cellLabel) config() Config {
	return Config{FamilyKey{nccl.Algo(l>>24) - 1, nccl.Proto(l>>16&0xff) - 1}, int(l >> 8 & 0xff)}
}

func (l cellLabel) family() cellLabel { return l >> 16 }

func (l cellLabel) channels() cellLabel { return l >> 8 & 0xff }

func (l cellLabel) byDefault() bool { return l&labelChosen != 0 }

func (l cellLabel) verifies() bool { return l&labelVerifies != 0 }

func (r *reading) sameCell(o *reading) bool { return r.cell == o.cell && r.bytes == o.bytes }

// join takes the readings of another pool, as if they had arrived last.
func (vp *variantPool) join(other *variantPool) {
	last := uint32(len(vp.readings))
	for _, o := range other.origins {
		vp.origins = append(vp.origins, origin{o.from + last, o.source})
	}
	for _, r := range other.readings {
		r.order += last
		vp.readings = append(vp.readings, r)
	}
	vp.simulated += other.simulated
	vp.sorted = false
}

// sort puts the readings of a cell side by side, in the order of arrival.
func (vp *variantPool) sort() {
	if vp.sorted {
		return
	}
	slices.SortFunc(vp.readings, func(a, b reading) int {
		switch {
		case a.cell != b.cell:
			return cmp.Compare(a.cell, b.cell)
		case a.bytes != b.bytes:
			return cmp.Compare(a.bytes, b.bytes)
		}
		return cmp.Compare(a.order, b.order)
	})
	vp.sorted = true
}

// cells yields the readings of each cell of a sorted pool.
func (vp *variantPool) cells(yield func([]reading) bool) {
	from := 0
	for i := range vp.readings {
		if next := i + 1; next == len(vp.readings) || !vp.readings[i].sameCell(&vp.readings[next]) {
			if !yield(vp.readings[from:next]) {
				return
			}
			from = next
		}
	}
}
