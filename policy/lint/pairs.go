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

// hole is what no row matches between the sizes of two rows: calls of a key, whose releases are told apart.
type hole struct {
	key
	last, next *row
}

// gaps finds sizes between the rows of one collective and kind of communicator that no row matches. It says
// nothing if limits of bytes and of bytes per rank meet, because the gap then depends on the number of ranks.
func (c *check) gaps() {
	rows := slices.DeleteFunc(slices.Clone(c.rows), func(r *row) bool { return !r.active() || r.idle })
	in := map[hole][]nccl.Releases{} // ascending
	for _, releases := range releasesApart(rows) {
		seen := map[key]bool{}
		for _, at := range rows {
			k := at.key.in(releases)
			if !at.nccl.Contains(releases) || seen[k] {
				continue
			}
			seen[k] = true
			for _, h := range holes(rows, k, at.axis) {
				if all := in[h]; len(all) > 0 && all[len(all)-1].Max+1 == releases.Min {
					all[len(all)-1].Max = releases.Max
				} else {
					in[h] = append(all, releases)
				}
			}
		}
	}
	for h, all := range in {
		for _, releases := range all {
			left := nccl.Range{Min: h.last.sizes.Max + 1, Max: h.next.sizes.Min - 1}
			f := c.report("gap", h.next.Line, "", "%s with %s: no row matches %s%s, between lines %d and %d",
				h.next.collName(), h.key.in(releases), left, h.next.axis, h.last.Line, h.next.Line)
			if left.Max/2 >= left.Min {
				f.Severity = Note
			}
		}
	}
}

// releasesApart cuts the releases that rows are for wherever one of their ranges begins or ends. Within each of the
// parts, which ascend, no release is told from another one.
func releasesApart(rows []*row) (parts []nccl.Releases) {
	var begins []nccl.Version
	for _, r := range rows {
		begins = append(begins, r.nccl.Min, r.nccl.Max+1)
	}
	slices.Sort(begins)
	begins = slices.Compact(begins)
	for i := 1; i < len(begins); i++ {
		parts = append(parts, nccl.Releases{Min: begins[i-1], Max: begins[i] - 1})
	}
	return parts
}

// holes goes through the rows that match all calls of a key, in ascending order of their first sizes. A gap between
// rows of a wider key is found for that key only.
func holes(rows []*row, k key, by axis) (found []hole) {
	var match []*row
	for _, r := range rows {
		if !k.within(r.key) {
			continue
		}
		if r.axis != by || by == byBoth {
			return nil
		}
		match = append(match, r)
	}
	slices.SortStableFunc(match, func(a, b *row) int { return cmp.Compare(a.sizes.Min, b.sizes.Min) })
	last := match[0]
	for _, r := range match[1:] {
		if last.sizes.Max < nccl.Inf && r.sizes.Min > last.sizes.Max+1 &&
			(r.key.in(k.nccl) == k || last.key.in(k.nccl) == k) {
			found = append(found, hole{k.in(nccl.AnyRelease), last, r})
		}
		if r.sizes.Max > last.sizes.Max {
			last = r
		}
	}
	return found
}
