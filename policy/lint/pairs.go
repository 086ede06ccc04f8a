package lint

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// byKeyAndAxis are rows that limit sizes alike, by the key they have.
type byKeyAndAxis map[place]*sorted

type place struct {
	key
	axis axis
}

// sorted is rows in ascending order of their first sizes, so that those which meet
// a range are found without looking at all.
type sorted struct {
	rows  []*row
	reach []uint64 // the largest size of all rows up to here
}

func sortedRows(rows []*row) byKeyAndAxis {
	all := byKeyAndAxis{}
	for _, r := range rows {
		at := place{r.key, r.axis}
		if all[at] == nil {
			all[at] = &sorted{}
		}
		all[at].rows = append(all[at].rows, r)
	}
	for _, s := range all {
		slices.SortStableFunc(s.rows, func(a, b *row) int { return compare(a.sizes.Min, b.sizes.Min) })
		most := uint64(0)
		for _, r := range s.rows {
			most = max(most, r.sizes.Max)
			s.reach = append(s.reach, most)
		}
	}
	return all
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// meeting calls f for rows that overlap a range, until it returns false.
func (s *sorted) meeting(r policy.Range, f func(*row) bool) {
	i, _ := slices.BinarySearchFunc(s.rows, r.Max, func(o *row, size uint64) int {
		if o.sizes.Min <= size {
			return -1
		}
		return 1
	})
	for i--; i >= 0 && s.reach[i] >= r.Min; i-- {
		if s.rows[i].sizes.Max >= r.Min && !f(s.rows[i]) {
			return
		}
	}
}

// overlaps finds rows of which an earlier one, for the same or more communicators
// and calls, takes the sizes at one end, and does something else with them.
func (c *check) overlaps() {
	var rows []*row
	line := map[*row]int{}
	for i, r := range c.rows {
		line[r] = i
		if r.active() && !r.when && r.axis != byBoth && !c.repeated[r] {
			rows = append(rows, r)
		}
	}
	all := sortedRows(rows)
	for _, r := range rows {
		var first *row
		for _, k := range r.key.implied() {
			s := all[place{k, r.axis}]
			if s == nil {
				continue
			}
			s.meeting(r.sizes, func(o *row) bool {
				if line[o] < line[r] && !holds(o.sizes, r.sizes) && !holds(r.sizes, o.sizes) && !o.asksAlike(r) &&
					(first == nil || line[o] < line[first]) {
					first = o
				}
				return true
			})
		}
		if first != nil {
			sizes, _ := both(first.sizes, r.sizes)
			perRank := ""
			if r.axis == byPerRank {
				perRank = " per rank"
			}
			c.report(overlap, r.Line, "", "line %d comes first and takes %s%s, which this row matches too", first.Line, sizeText(sizes), perRank)
		}
	}
}

// gaps finds sizes between the rows of one collective and kind of communicator
// that no row matches. Where limits of bytes and of bytes per rank meet, what is
// left out depends on the number of ranks, and nothing is said.
func (c *check) gaps() {
	var rows []*row
	for _, r := range c.rows {
		if r.active() && !c.repeated[r] {
			rows = append(rows, r)
		}
	}
	all := sortedRows(rows)
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
			if s := all[place{k, at.axis}]; s != nil {
				match = append(match, s.rows...)
			}
		}
		if other {
			continue
		}
		slices.SortStableFunc(match, func(a, b *row) int { return compare(a.sizes.Min, b.sizes.Min) })
		c.gapsBetween(match, at)
	}
}

// gapsBetween goes through rows in ascending order of their first sizes. Gaps
// between rows that are all of a wider key are that key's.
func (c *check) gapsBetween(rows []*row, at place) {
	last := rows[0]
	for _, r := range rows[1:] {
		if last.sizes.Max < policy.Inf && r.sizes.Min > last.sizes.Max+1 && (r.key == at.key || last.key == at.key) {
			left := policy.Range{Min: last.sizes.Max + 1, Max: r.sizes.Min - 1}
			perRank := ""
			if at.axis == byPerRank {
				perRank = " per rank"
			}
			f := c.report(gap, r.Line, "", "%s with %s: no row matches %s%s, between lines %d and %d", r.collName(), at.key, sizeText(left), perRank, last.Line, r.Line)
			if left.Max/2 >= left.Min {
				f.Severity = Note
			}
		}
		if r.sizes.Max > last.sizes.Max {
			last = r
		}
	}
}
