package lint

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// scope is the calls that a row is for and the axis that it limits sizes by: rows of one scope
// differ in their sizes alone.
type scope struct {
	key
	axis axis
}

// scopeRows are the rows of one scope, in the file's order, and all sizes they match.
type scopeRows struct {
	rows  []*row
	sizes ranges
}

// overlaps finds rows of which an earlier one, for the same or more communicators and calls, takes
// the sizes at one end, and does something else with them.
func (c *check) overlaps() {
	earlier := map[scope]*scopeRows{}
	for _, r := range c.rows {
		if !r.active() || r.When != nil || r.axis == byBoth || c.idle[r] {
			continue
		}
		c.overlap(r, earlier)
		at := scope{r.key, r.axis}
		if earlier[at] == nil {
			earlier[at] = &scopeRows{}
		}
		earlier[at].rows = append(earlier[at].rows, r)
		earlier[at].sizes.add(r.sizes)
	}
}

// overlap reports the nearest of such rows.
func (c *check) overlap(r *row, earlier map[scope]*scopeRows) {
	for _, k := range r.key.implied() {
		s := earlier[scope{k, r.axis}]
		if s == nil || !s.sizes.meet(r.sizes) {
			continue
		}
		for i := len(s.rows) - 1; i >= 0; i-- {
			o := s.rows[i]
			sizes, any := both(o.sizes, r.sizes)
			if !any || holds(o.sizes, r.sizes) || holds(r.sizes, o.sizes) || o.Ask == r.Ask {
				continue
			}
			c.report(overlap, r.Line, "", "line %d comes first and matches %s%s as well, where it asks for something else", o.Line, sizeText(sizes), r.axis)
			return
		}
	}
}

// gaps finds sizes between the rows of one collective and kind of communicator that no row matches.
// Where limits of bytes and of bytes per rank meet, what is left out depends on the number of
// ranks, and nothing is said.
func (c *check) gaps() {
	all := map[scope][]*row{}
	for _, r := range c.rows {
		if r.active() && !c.idle[r] {
			at := scope{r.key, r.axis}
			all[at] = append(all[at], r)
		}
	}
	kinds := map[key][3]bool{}
	for at := range all {
		k := kinds[at.key]
		k[at.axis] = true
		kinds[at.key] = k
	}
	for at := range all {
		if at.axis == byBoth {
			continue
		}
		other := false
		var match []*row
		for _, k := range at.key.implied() {
			for a, there := range kinds[k] {
				other = other || there && axis(a) != at.axis
			}
			match = append(match, all[scope{k, at.axis}]...)
		}
		if other {
			continue
		}
		slices.SortStableFunc(match, func(a, b *row) int { return cmp.Compare(a.sizes.Min, b.sizes.Min) })
		c.gapsBetween(match, at)
	}
}

// gapsBetween goes through rows in ascending order of their first sizes. Gaps between rows that are
// all of a wider key are that key's.
func (c *check) gapsBetween(rows []*row, at scope) {
	last := rows[0]
	for _, r := range rows[1:] {
		if last.sizes.Max < nccl.Inf && r.sizes.Min > last.sizes.Max+1 && (r.key == at.key || last.key == at.key) {
			left := nccl.Range{Min: last.sizes.Max + 1, Max: r.sizes.Min - 1}
			f := c.report(gap, r.Line, "", "%s with %s: no row matches %s%s, between lines %d and %d", r.collName(), at.key, sizeText(left), at.axis, last.Line, r.Line)
			if left.Max/2 >= left.Min {
				f.Severity = Note
			}
		}
		if r.sizes.Max > last.sizes.Max {
			last = r
		}
	}
}
