package agree

import (
	"testing"
	"time"
)

// turns makes slot 0 of the first communicator bring version T and its own file's into force by
// turns, as a comparison does.
func (p *plan) turns(each time.Duration, times int) {
	for i := range times {
		content := []string{"T", "A"}[i%2]
		p.events = append(p.events, event{time.Duration(i+1) * each, func(w *world) {
			r := w.rank(0)
			if r == nil {
				return
			}
			r.mu.Lock()
			m := r.m
			r.mu.Unlock()
			if m != nil {
				w.check.trace("rank 0 proposes %q", content)
				m.InForce()
				m.Propose(r.version(content), []byte(content))
			}
		}})
	}
}

// Whatever happens to a job while versions take turns, its ranks decide each call alike: edits,
// calls of one rank alone, crashes, lost stores, records that vanish.
func TestTurns(t *testing.T) {
	const seeds = 400
	var all tally
	for seed := uint64(1); seed <= seeds; seed += uint64(thin) {
		p := randomPlan(seed)
		p.calls *= 4 // at the same pace
		p.turns(time.Duration(4+seed%8)*(p.timing.Settle+2*time.Second), 20)
		w := simulate(t, p)
		all.add(w)
		if w.report(t, false); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%+v", all)
	if all.Switches < seeds/thin/2 {
		t.Errorf("too few changes to tell: %+v", all)
	}
}

// In a healthy job each turn comes, and an edit of the file comes between them; its version then
// takes turns with T, not the one before.
func TestTurnsAndEdit(t *testing.T) {
	try(t, 40, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 2000
		p.turns(4*time.Second, 4)
		p.saved(18*time.Second, "B")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("B")(t, w)
		for _, r := range w.ranks {
			if len(r.switches) != 5 {
				t.Errorf("rank %d has changed at calls %v, want 5 changes", r.id, r.switches)
			}
		}
	})
}

// A turn does not push out an edit that only its own rank has seen.
func TestTurnAfterEdit(t *testing.T) {
	try(t, 40, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 2000
		p.saved(8*time.Second-time.Duration(1+seed)*time.Millisecond, "B", 0)
		p.turns(4*time.Second, 2)
		return p
	}, endsOn("B"))
}

// A turn that waits does not push out an edit that another rank has proposed meanwhile.
func TestEditBeforeTurn(t *testing.T) {
	try(t, 40, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 1000
		p.saved(4*time.Second-time.Duration(1+5*seed)*time.Millisecond, "B", 1)
		p.turns(4*time.Second, 1)
		return p
	}, endsOn("B"))
}

// Nor does one that is proposed by somebody who does not know of the edit yet.
func TestTurnUnawareOfEdit(t *testing.T) {
	try(t, 40, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 1000
		p.saved(2*time.Second, "B", 1)
		p.events = append(p.events, event{8 * time.Second, func(w *world) {
			r := w.rank(0)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.m.Propose(r.version("T"), []byte("T"))
		}})
		return p
	}, endsOn("B"))
}

// What is in force is told with what has brought it, and with what the latest edit means, even one that
// need not come into force because a turn has brought its version.
func TestInForce(t *testing.T) {
	try(t, 10, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 1000
		p.turns(4*time.Second, 1)
		p.saved(8*time.Second, "T", 0)
		p.saved(12*time.Second, "B", 1)
		for at, want := range map[time.Duration]InForce{3: {}, 7: {Proposed: true}, 9: {Proposed: true, LatestEdit: "T"},
			16: {LatestEdit: "B"}} {
			p.events = append(p.events, event{at * time.Second, func(w *world) {
				r := w.rank(0)
				r.mu.Lock()
				defer r.mu.Unlock()
				if got := r.m.InForce(); got.Proposed != want.Proposed || got.LatestEdit != want.LatestEdit ||
					(got.From > 0) != (at > 4) {
					t.Errorf("seed %d, after %d s: %+v, want %+v", seed, at, got, want)
				}
			}})
		}
		return p
	}, endsOn("B"))
}
