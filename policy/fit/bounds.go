package fit

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
)

// bound decides which groups are validated, the first in order, and whether all are
// fitted without processes. It counts and does not time, so that the same samples give
// the same model on every machine.
func bound(groups []*Group) (validated []bool) {
	cells := 0
	for _, g := range groups {
		cells += len(g.Cells)
	}
	validated = make([]bool, len(groups))
	left, some := mostValidated, false
	for i, g := range groups {
		g.plain = cells > mostJointCells
		if len(g.Cells) == 0 {
			continue
		}
		left -= min(len(g.Cells), mostValidatedCells)
		validated[i] = left >= 0 || !some
		some = true
	}
	return validated
}

// axis are the sizes at which the group's curves are given.
func (g *Group) axis() []uint64 {
	sizes, closest := g.allSizes(), finest
	axis := axisOf(sizes, closest)
	for g.plain && len(g.Configs())*len(axis) > mostTable*len(g.Cells) {
		closest *= 2
		axis = axisOf(sizes, closest)
	}
	return axis
}
