package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
)

// circumstances are what a log may tell about where and with what it was measured. The first ones are the usual
// reasons for a comparison, a difference in the others is a doubt about it.
var circumstances = []struct {
	what   string
	of     func(*bench.Setup) string
	none   string // in words, where a side has none and that means something; empty: the log does not tell
	reason bool
}{
	{"NCCL", func(s *bench.Setup) string { return s.NCCL }, "", true},
	{"tuner", func(s *bench.Setup) string { return s.Tuner }, "none", true},
	{"driver", func(s *bench.Setup) string { return s.Driver }, "", true},
	{"GPU", func(s *bench.Setup) string { return s.GPU }, "", false},
	{"hosts", func(s *bench.Setup) string { return s.Hosts }, "", false},
	{"NCCL_MIN_NCHANNELS", func(s *bench.Setup) string { return s.MinChannels }, "unset", false},
	{"NCCL_MIN_CTAS", func(s *bench.Setup) string { return s.MinCTAs }, "unset", false},
}

// describe fills in the sides and what they were measured with.
func (t *Table) describe(samples [2][]bench.Sample, p *pool) {
	for side := range samples {
		s := Side{Name: p.names[side]}
		runs := map[int]bool{}
		for _, sizes := range p.readings {
			for _, at := range sizes {
				for _, r := range at {
					if r.side == side {
						s.Readings++
						runs[r.run] = true
						t.simulated += boolToInt(r.simulated)
					}
				}
			}
		}
		s.Runs = len(runs)
		t.Sides[side] = s
	}
	for _, c := range circumstances {
		values, told := [2]string{}, [2]bool{}
		for side := range samples {
			found := map[string]bool{}
			for i := range samples[side] {
				if s := &samples[side][i]; s.Setup != nil && p.has(s) {
					told[side] = true
					found[c.of(s.Setup)] = true
				}
			}
			if len(found) > 1 || c.none == "" {
				delete(found, "")
			}
			values[side] = strings.Join(slices.Sorted(maps.Keys(found)), " and ")
		}
		switch {
		case values[0] == values[1]:
			if values[0] != "" {
				t.Common = append(t.Common, c.what+" "+values[0])
			}
		case told[0] && told[1] && (c.none != "" || values[0] != "" && values[1] != ""):
			for side := range values {
				if values[side] == "" {
					values[side] = c.none
				}
			}
			t.Differences = append(t.Differences, Difference{c.what, values[0], values[1]})
		}
	}
}

// has reports whether samples of this kind are still compared.
func (p *pool) has(s *bench.Sample) bool {
	_, ok := p.readings[Key{s.Coll, s.Nodes, s.Ranks, s.DType, s.RedOp, s.InPlace}][s.Bytes]
	return ok
}

// remark says what the reader has to know of the table.
func (t *Table) remark(p *pool) {
	if t.simulated > 0 {
		t.note("%s simulated, not measured", count(t.simulated, "time"))
	}
	var doubts []string
	for _, c := range circumstances {
		for _, d := range t.Differences {
			if d.What == c.what && !c.reason {
				doubts = append(doubts, d.What)
			}
		}
	}
	if len(doubts) > 0 {
		t.note("the sides differ in %s: that may be all of the difference", strings.Join(doubts, " and "))
	}
	unknown, all := t.Count(Unknown)
	bySizes, paired := false, false
	for _, g := range t.Groups {
		bySizes, paired = bySizes || g.Mean.BySizes, paired || g.Paired
	}
	few := min(t.Sides[0].Runs, t.Sides[1].Runs)
	switch {
	case all == 0:
		return
	case unknown == all:
		t.note("1 repetition: nothing tells the noise at one size (measure both sides 3 times or more, in turns)")
	case unknown > 0:
		t.note("1 repetition at %d of %d sizes: nothing tells the noise there", unknown, all)
	}
	switch {
	case bySizes:
		t.note("the mean takes sizes for repetitions: what shifts a run as a whole, as clocks or neighbours do, counts as a change")
	case few == 1 && unknown < all:
		t.note("one run on a side: what differs from one start to the next counts as a change (measure several runs, in turns)")
	}
	switch {
	case paired:
		t.note("the runs were made in turns and are compared pair by pair: slow drift does not count")
	case few > 1 && oneAfterTheOther(p.times):
		t.note("all runs of one side began before those of the other: drift between them counts as a change (measure in turns)")
	}
}

func (t *Table) note(text string, args ...any) { t.Notes = append(t.Notes, fmt.Sprintf(text, args...)) }
