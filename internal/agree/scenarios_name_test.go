package agree

import (
	"errors"
	"testing"
	"time"
)

// All ranks take the same name for their communicator, whatever each was told, in each version that they stage.
func TestScenarioNames(t *testing.T) {
	t.Parallel()
	together := func(int) time.Duration { return 0 }
	for _, c := range []struct {
		about  string
		name   func(rank int) string
		joinAt func(rank int) time.Duration
		comms  int
		want   string
	}{
		{"all alike", func(int) string { return "dp" }, together, 1, "dp"},
		{"with blanks and more lines", func(int) string { return "a b\nc" }, together, 1, "a b\nc"},
		{"none", func(int) string { return "" }, together, 1, ""},
		{"the last differs", func(rank int) string { return []string{"dp", "dp", "tp"}[rank] }, together, 1, ""},
		{"one was told none", func(rank int) string { return []string{"dp", "", "dp"}[rank] }, together, 1, ""},
		{"one after the other", func(int) string { return "dp" },
			func(rank int) time.Duration { return time.Duration(2-rank) * time.Second }, 1, "dp"},
		{"one too late", func(int) string { return "dp" },
			func(rank int) time.Duration { return time.Duration(rank/2) * 2 * nameLimit }, 1, ""},
	} {
		try(t, 5, func(seed uint64) plan {
			p := usual(seed)
			p.name, p.joinAt, p.comms = c.name, c.joinAt, c.comms
			p.calls = 2000
			p.saved(30*time.Second, "B")
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if r.joinErr != nil || r.last() != "B" {
					t.Errorf("%s: rank %d: %v, the last call by %q", c.about, r.id, r.joinErr, r.last())
				}
				for _, got := range r.named {
					if got != c.want {
						t.Errorf("%s: rank %d: %q, want %q", c.about, r.id, got, c.want)
					}
				}
			}
		})
	}
}

// Two communicators share the id: their ranks take the same name, too, whichever slots they hold.
func TestScenarioNamesOfDuplicates(t *testing.T) {
	t.Parallel()
	try(t, 20, func(seed uint64) plan {
		p := usual(seed)
		p.comms, p.calls = 2, 200
		p.name = func(rank int) string { return []string{"dp", "tp"}[rank/p.ranks] }
		p.joinAt = func(rank int) time.Duration { return time.Duration(rank*int(seed)%7) * 300 * time.Millisecond }
		return p
	}, func(t *testing.T, w *world) {
		for _, r := range w.ranks {
			for _, got := range r.named {
				if got != w.ranks[0].named[0] {
					w.check.violation(1, "rank %d takes the name %q, rank 0 %q", r.id, got, w.ranks[0].named[0])
				}
			}
		}
	})
}

// A rank that never joins keeps the others from knowing a name, not from joining.
func TestScenarioNameOfFewer(t *testing.T) {
	t.Parallel()
	try(t, 5, func(seed uint64) plan {
		p := usual(seed)
		p.calls, p.absent = 200, map[int]bool{1: true}
		p.name = func(int) string { return "dp" }
		return p
	}, func(t *testing.T, w *world) {
		for _, r := range w.ranks {
			if r.joinErr != nil || len(r.named) != 1 || r.named[0] != "" {
				t.Errorf("rank %d: %v, %q", r.id, r.joinErr, r.named)
			}
		}
	})
}

// A rank that knows something else of the communicator than the first one does not join.
func TestScenarioMixedKnowledge(t *testing.T) {
	t.Parallel()
	try(t, 5, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 200
		p.known = func(rank int) string { return []string{"2.30.7", "2.30.3-2.30", "2.30.7"}[rank] }
		p.joinAt = func(rank int) time.Duration { return time.Duration(rank) * time.Second }
		return p
	}, func(t *testing.T, w *world) {
		for _, r := range w.ranks {
			if errors.Is(r.joinErr, ErrMixedKnowledge) != (r.id == 1) || r.ended == (r.id == 1) {
				t.Errorf("rank %d: %v, ended: %v", r.id, r.joinErr, r.ended)
			}
		}
	})
}
