package lint

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// overlaps finds rows that share the sizes at one end with an earlier row that asks for something else. The
// earlier row must be for the same or more communicators and calls. The nearest such row is reported.
func (c *check) overlaps() {
	var earlier []*row
	for _, r := range c.rows {
		if !r.active() || r.When != nil || r.axis == byBoth || r.idle {
			continue
		}
		for _, o := range slices.Backward(earlier) {
			sizes, any := o.sizes.And(r.sizes)
			if !any || o.sizes.Holds(r.sizes) || r.sizes.Holds(o.sizes) || o.axis != r.axis || o.Ask == r.Ask ||
				!r.key.within(o.key) {
				continue
			}
			c.report(overlap, r.Line, "",
				"line %d comes first and matches %s%s as well, where it asks for something else", o.Line,
				sizeText(sizes), r.axis)
			break
		}
		earlier = append(earlier, r)
	}
}

// gaps finds sizes between the rows of one collective and kind of communicator that no row matches. It says
// nothing if limits of bytes and of bytes per rank meet, because the gap then depends on the number of ranks.
func (c *check) gaps() {
	rows := slices.DeleteFunc(slices.Clone(c.rows), func(r *row) bool { return !r.active() || r.idle })
	seen := map[key]bool{}
	for _, at := range rows {
		if seen[at.key] {
			continue
		}
		seen[at.key] = true
		var match []*row
		oneAxis := at.axis != byBoth
		for _, r := range rows {
			if at.key.within(r.key) {
				match = append(match, r)
				oneAxis = oneAxis && r.axis == at.axis
			}
		}
		if !oneAxis {
			continue
		}
		slices.SortStableFunc(match, func(a, b *row) int { return cmp.Compare(a.sizes.Min, b.sizes.Min) })
		c.gapsBetween(match, at)
	}
}

// gapsBetween goes through rows in ascending order of their first sizes. A gap between rows of a wider key is
// reported for that key only.
func (c *check) gapsBetween(rows []*row, at *row) {
	last := rows[0]
	for _, r := range rows[1:] {
		if last.sizes.Max < nccl.Inf && r.sizes.Min > last.sizes.Max+1 && (r.key == at.key || last.key == at.key) {
			left := nccl.Range{Min: last.sizes.Max + 1, Max: r.sizes.Min - 1}
			f := c.report(gap, r.Line, "", "%s with %s: no row matches %s%s, between lines %d and %d", r.collName(),
				at.key, sizeText(left), at.axis, last.Line, r.Line)
			if left.Max/2 >= left.Min {
				f.Severity = Note
			}
		}
		if r.sizes.Max > last.sizes.Max {
			last = r
		}
	}
}
