package lint

import (
	"cmp"
	"fmt"
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
			c.report("overlap", r.Line, "",
				"line %d comes first and matches %s%s as well, where it asks for something else", o.Line,
				sizes, r.axis)
			break
		}
		earlier = append(earlier, r)
	}
}

// narrower finds rows after a wider one, which decides some of their sizes wherever NCCL offers what it asks for. The
// earlier row is for all communicators and calls of the later one, and for more of them or for more sizes. A row for
// the same calls and sizes is a fallback. Rows that overlap at their ends are left to overlaps. The earlier row that
// takes most is reported.
func (c *check) narrower() {
	var earlier []*row
	for _, r := range c.rows {
		can := c.available(r)
		if !r.active() || r.idle || r.cells&can == 0 {
			continue
		}
		var by *row
		var most nccl.Range
		for _, e := range earlier {
			sizes, ok := e.sizesOn(r)
			shared, any := sizes.And(r.sizes)
			inside, around := sizes.Holds(r.sizes), r.sizes.Holds(sizes)
			if !ok || !any || !inside && !around && r.When == nil ||
				by != nil && shared.Max-shared.Min <= most.Max-most.Min ||
				e.cells&can == 0 || e.Ask == r.Ask || e.When != nil && e.When != r.When || !r.key.within(e.key) {
				continue
			}
			if inside && !around || r.key != e.key || r.When != e.When {
				by, most = e, shared
				if most == r.sizes {
					break
				}
			}
		}
		earlier = append(earlier, r)
		if by == nil {
			continue
		}
		where := ""
		if !by.LeavesToNCCL() {
			where = fmt.Sprintf(" wherever %s is available", by.cells&can)
		}
		c.report("wide-first", r.Line, "", "line %d comes first and decides %s%s%s: put this row, which is for fewer "+
			"calls, before it", by.Line, most, r.axis, where)
	}
}

// gaps finds sizes between the rows of one collective and kind of communicator that no row matches. It says
// nothing if limits of bytes and of bytes per rank meet, because the gap then depends on the number of ranks. A gap
// between rows of a wider key is found for that key only, and none where a row matches the key in some releases.
func (c *check) gaps() {
	rows := slices.DeleteFunc(slices.Clone(c.rows), func(r *row) bool { return !r.active() || r.idle })
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.sizes.Min, b.sizes.Min) })
	seen := map[key]bool{}
	for _, at := range rows {
		if seen[at.key] {
			continue
		}
		seen[at.key] = true
		match := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return !at.key.within(r.key) })
		if at.axis == byBoth || slices.ContainsFunc(match, func(r *row) bool { return r.axis != at.axis }) {
			continue
		}
		last := match[0]
		for _, next := range match[1:] {
			left := nccl.Range{Min: last.sizes.Max + 1, Max: next.sizes.Min - 1}
			if last.sizes.Max < nccl.Inf && next.sizes.Min > left.Min && (next.key == at.key || last.key == at.key) &&
				!partly(rows, at.key, left) {
				f := c.report("gap", next.Line, "", "%s with %s: no row matches %s%s, between lines %d and %d",
					next.collName(), at.key, left, at.axis, last.Line, next.Line)
				if left.Max/2 >= left.Min {
					f.Severity = Note
				}
			}
			if next.sizes.Max > last.sizes.Max {
				last = next
			}
		}
	}
}

// partly reports whether rows match some of the sizes for a key in some of its releases only.
func partly(rows []*row, k key, sizes nccl.Range) bool {
	return slices.ContainsFunc(rows, func(r *row) bool {
		in := k
		in.nccl = r.nccl
		_, meets := r.sizes.And(sizes)
		return meets && in.within(r.key) && k.nccl.Overlaps(r.nccl) && !k.within(r.key)
	})
}
