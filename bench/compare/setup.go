package compare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// circumstance is one thing that a log may say about where and with what it was measured.
type circumstance struct {
	what string
	of   func(*bench.Setup) string
	none string // its value in a log that has a setup and does not name it; empty: that is not known
}

var circumstances = []circumstance{
	{"NCCL", func(s *bench.Setup) string { return s.NCCL }, ""},
	{"tuner", func(s *bench.Setup) string { return s.Tuner }, "none"},
	{"driver", func(s *bench.Setup) string { return s.Driver }, ""},
	{"GPU", func(s *bench.Setup) string { return s.GPU }, ""},
	{"hosts", func(s *bench.Setup) string { return s.Hosts }, ""},
	{"NCCL_MIN_NCHANNELS", func(s *bench.Setup) string { return s.MinChannels }, "unset"},
	{"NCCL_MIN_CTAS", func(s *bench.Setup) string { return s.MinCTAs }, "unset"},
	{"options of nccl-tests", func(s *bench.Setup) string { return s.Options }, ""},
	{"variables", func(s *bench.Setup) string { return s.Variables }, "none"},
}

// reasons counts the first circumstances, which people compare on purpose. A difference in the others is a doubt.
const reasons = 3

// describe fills in the sides and what they were measured with.
func (t *Table) describe(p *pool) {
	t.Before.Name, t.After.Name = p.names[0], p.names[1]
	sides := [2]*Side{&t.Before, &t.After}
	runs, setups := [2]map[int]bool{{}, {}}, [2]map[*bench.Setup]bool{{}, {}}
	for _, sizes := range p.readings {
		for _, at := range sizes {
			for _, r := range at {
				side := sides[r.side]
				side.Readings++
				runs[r.side][r.run] = true
				side.Runs = len(runs[r.side])
				if r.Simulated {
					t.Simulated++
				}
				if r.Setup != nil {
					setups[r.side][r.Setup] = true
				}
			}
		}
	}
	for _, c := range circumstances {
		var values [2]string
		for side := range sides {
			found := map[string]bool{}
			for s := range setups[side] {
				found[c.of(s)] = true
			}
			delete(found, "")
			values[side] = joined(slices.Collect(maps.Keys(found)))
			if values[side] == "" && len(setups[side]) > 0 {
				values[side] = c.none
			}
		}
		if values[0] != c.none || values[1] != c.none {
			t.differ(c.what, values[0], values[1])
		}
	}
}

// differ adds a value that both sides have to Common or to Differences.
func (t *Table) differ(what, before, after string) {
	switch {
	case before == "" || after == "":
	case before == after:
		t.Common = append(t.Common, what+" "+before)
	default:
		t.Differences = append(t.Differences, Difference{what, before, after})
	}
}

func joined(values []string) string {
	return strings.Join(slices.Sorted(slices.Values(values)), " and ")
}

// remark says what the reader has to know of the table.
func (t *Table) remark(p *pool, opts Options) {
	if t.Simulated > 0 {
		t.note("%s simulated, not measured", wording.Plural(t.Simulated, "time"))
	}
	var doubts []string
	for _, d := range t.Differences {
		if !slices.ContainsFunc(circumstances[:reasons], func(c circumstance) bool { return c.what == d.What }) {
			doubts = append(doubts, d.What)
		}
	}
	if len(doubts) > 0 {
		t.note("the sides differ in %s: that may be all of the difference", strings.Join(doubts, " and "))
	}
	paired, unpaired := false, false
	for _, g := range t.Sections {
		paired, unpaired = paired || g.Paired, unpaired || !g.Paired
	}
	few := min(t.Before.Runs, t.After.Runs)
	switch {
	case t.Sizes == 0:
		return
	case t.unknown == t.Sizes:
		t.note("1 repetition: the run-to-run variation is not known (measure both sides 3 times or more, in turns)")
	case t.unknown > 0:
		t.note("1 repetition at %d of %d sizes: the run-to-run variation there is not known", t.unknown,
			t.Sizes)
	}
	switch {
	case few == 2:
		t.note("2 runs on a side say little about how much runs differ (measure 3 or more)")
	case few == 1 && t.unknown < t.Sizes:
		t.note("1 run on a side: another one is taken to differ by %.0f %% (measure several, in turns)",
			100*stats.QuietNoise)
	}
	switch {
	case unpaired && opts.Alternating:
		t.note("made in turns, but not compared pair by pair (needed: as many runs of a size before as after, %d "+
			"or more)", leastPairs)
	case paired:
		t.note("the runs were made in turns and are compared pair by pair: slow drift does not count")
	case few > 1 && oneAfterTheOther(p.times):
		t.note("all runs of one side began before those of the other: drift between them counts as a change (measure " +
			"in turns)")
	}
}

func (t *Table) note(text string, args ...any) { t.Notes = append(t.Notes, fmt.Sprintf(text, args...)) }
