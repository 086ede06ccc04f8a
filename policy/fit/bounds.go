package fit

import "github.com/nccl-tuner-go/nccl-tuner-go/policy/model"

// Bounds that keep a million rows within seconds, however they are spread.
const (
	// mostJointCells is what a whole set may have for processes to be fitted to it.
	mostJointCells = 20_000
	// mostValidated are the cells that a whole set is validated with, but for those
	// of its first group.
	mostValidated = 10_000
	// mostTable bounds the values in the curves of a set without processes, for each
	// cell. Where each configuration was measured at sizes of its own there would be
	// far more values than measurements.
	mostTable = 5
	// leastTable is what a curve needs at least; a model that is too large all the same is not written.
	leastTable = 2
	// What takes room in a model's file, in bytes.
	curveBytes = 100
	cellBytes  = 20
	valueBytes = 16
)

// bound decides which groups are validated, the first in order, and whether all are
// fitted without processes. It counts and does not time, so that the same samples give
// the same model on every machine.
func bound(groups []*Group) (validated []bool) {
	cells, curves := 0, 0
	for _, g := range groups {
		cells, curves = cells+len(g.Cells), curves+len(g.Configs())
	}
	// So many values for each cell leave the file as small as the library reads it.
	table := min(mostTable, max(leastTable, float64(model.MaxFileBytes-curveBytes*curves-cellBytes*cells)/valueBytes/float64(cells)))
	validated = make([]bool, len(groups))
	left, some := mostValidated, false
	for i, g := range groups {
		g.plain, g.table = cells > mostJointCells, table
		if len(g.Cells) == 0 {
			continue
		}
		left -= min(len(g.Cells), mostValidatedCells)
		validated[i] = left >= 0 || !some
		some = true
	}
	return validated
}

// axis are the sizes at which the group's curves are given. coarse says that the bound of
// the table left measured ones out.
func (g *Group) axis() (axis []uint64, coarse bool) {
	sizes, closest := g.allSizes(), finest
	axis = axisOf(sizes, closest)
	whole := min(len(axis), len(sizes))
	for g.plain && len(axis) > 2 && float64(len(g.Configs())*len(axis)) > g.table*float64(len(g.Cells)) {
		closest *= 2
		axis = axisOf(sizes, closest)
	}
	return axis, len(axis) < whole
}
