package compare

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
)

// Restoration is a size that became slower, and what may take that back: the configuration that ran before.
type Restoration struct {
	Key
	*Row
	Config Config
	// Check compares the configuration with what runs there now, both measured after; nil: it was not measured.
	Check *Row
	// Refused says why the size stays as it is; empty: it can be restored.
	Refused string
	// Next says that the size before it in the group is restored by the same configuration on the same grounds.
	Next bool
}

// Proven reports whether measurements after the change show that the configuration is faster than what runs there now.
func (r *Restoration) Proven() bool { return r.Check != nil && r.Check.Verdict == Faster }

// Restore looks at each size that is proven to be slower by more than the threshold. The samples are those after
// the change, among which it looks for the configuration that ran before; failed are what did not run then.
func (t *Table) Restore(after, failed []bench.Sample) (all []Restoration) {
	for i := range t.Groups {
		g := &t.Groups[i]
		for j := range g.Rows {
			if r := &g.Rows[j]; r.Exceeds(t.Threshold) {
				restored := Restoration{Key: g.Key, Row: r, Config: r.Before.Ran}
				restored.Refused = restored.refused(failed)
				all = append(all, restored)
			}
		}
	}
	check := t.check(all, after)
	for i := range all {
		r := &all[i]
		r.judge(check)
		if i > 0 {
			last := &all[i-1]
			r.Next = r.Refused == "" && last.Refused == "" && r.Key == last.Key && r.Config == last.Config && r.Proven() == last.Proven() && t.adjacent(r.Key, last.Bytes, r.Bytes)
		}
	}
	return all
}

func (r *Restoration) refused(failed []bench.Sample) string {
	now := r.Row.After.Ran
	switch {
	case !r.Config.Known():
		return "nothing tells what ran before (needed: logs with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING)"
	case r.Nodes == 0 || r.Ranks == 0:
		return "the number of nodes or ranks is not known"
	case now == r.Config:
		return r.Config.String() + " ran before and runs now: it is slower by itself"
	case slices.ContainsFunc(failed, func(s bench.Sample) bool {
		same := s.Algo == r.Config.Algo && s.Proto == r.Config.Proto && (s.Channels == 0 || s.Channels == r.Config.Channels)
		return same && s.Coll == r.Coll && s.Nodes == r.Nodes && s.Ranks == r.Ranks
	}):
		return r.Config.String() + " ran before and does not run any more"
	}
	return ""
}

// check compares what runs after the change with what ran before it, as far as that was measured, too.
func (t *Table) check(all []Restoration, after []bench.Sample) *Table {
	type place struct {
		key   Key
		bytes uint64
	}
	wanted := map[place]Config{}
	for _, r := range all {
		if r.Refused == "" {
			wanted[place{r.Key, r.Bytes}] = r.Config
		}
	}
	var now, restored []bench.Sample
	for i := range after {
		s := &after[i]
		config, ok := wanted[place{Key{s.Coll, s.Nodes, s.Ranks, s.DType, s.RedOp, s.InPlace}, s.Bytes}]
		switch k := kindOf(s); {
		case !ok:
		case k.byDefault:
			now = append(now, *s)
		case k.Config == config:
			restored = append(restored, *s)
		}
	}
	return Two(now, restored, Options{Alpha: t.Alpha, AllVariants: true})
}

// judge takes what the check says.
func (r *Restoration) judge(check *Table) {
	if r.Refused != "" {
		return
	}
	for i := range check.Groups {
		g := &check.Groups[i]
		if at := slices.IndexFunc(g.Rows, func(c Row) bool { return g.Key == r.Key && c.Bytes == r.Bytes }); at >= 0 {
			r.Check = &g.Rows[at]
		}
	}
	if c := r.Check; c != nil && c.Verdict != Faster && (c.Verdict != Unknown || c.Ratio >= 1) {
		r.Refused = fmt.Sprintf("%s ran before and was measured after, too: %.3f of the time now, not proven to be faster", r.Config, c.Ratio)
	}
}

// adjacent reports whether no size was compared between two.
func (t *Table) adjacent(key Key, below, above uint64) bool {
	for _, g := range t.Groups {
		if g.Key == key {
			return !slices.ContainsFunc(g.Rows, func(r Row) bool { return below < r.Bytes && r.Bytes < above })
		}
	}
	return false
}
