package agree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// records are those that are left, without the contents of versions.
func records(s *memStore) []string {
	left := slices.DeleteFunc(s.Keys(""), func(key string) bool { return strings.HasPrefix(key, VersionDir+"/") })
	slices.Sort(left)
	return left
}

// The last rank to leave removes what its communicator has recorded, but for one record.
func TestScenario53LastRankRemovesRecords(t *testing.T) {
	t.Parallel()
	for _, node := range []int{0, 2} {
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.node, p.longest, p.calls = node, 0, 1500
			p.stage = func(rank int, content string) error {
				if rank == 1 && content == "X" {
					return fmt.Errorf("no room")
				}
				return nil
			}
			p.saved(time.Second, "B", 1)
			p.saved(8*time.Second, "X")
			p.saved(9*time.Second, "C")
			p.saved(25*time.Second, "D") // may be under way at the end
			return p
		}, func(t *testing.T, w *world) {
			if left := records(w.store); !slices.Equal(left, []string{keys("comm").ended()}) {
				t.Errorf("left behind: %q", left)
			}
			for i, node := range w.nodes {
				if left := records(node); len(left) > 0 {
					t.Errorf("node %d: left behind: %q", i, left)
				}
			}
		})
	}
}

// A rank that crashes never leaves, and one of a duplicate may still be about to join: so nothing
// is removed.
func TestScenario53RecordsStay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *plan){
		"crash":     func(p *plan) { p.events = []event{{3 * time.Second, func(w *world) { w.crash(1) }}} },
		"duplicate": func(p *plan) { p.comms = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			try(t, 5, func(seed uint64) plan {
				p := usual(seed)
				p.saved(time.Second, "B", 1)
				change(&p)
				return p
			}, func(t *testing.T, w *world) {
				if left := records(w.store); !slices.Contains(left, keys("comm").dir(kindInit)) ||
					slices.Contains(left, keys("comm").ended()) {
					t.Errorf("left behind: %q", left)
				}
			})
		})
	}
}

// A communicator begins under the id of one that is just ending: each of its ranks comes before,
// during or after the removal of the records, and all start on one version.
func TestScenario54JoinDuringRemoval(t *testing.T) {
	t.Parallel()
	anew, refused := 0, 0
	try(t, 400, func(seed uint64) plan {
		p := usual(seed)
		p.comms, p.ranks, p.calls, p.ahead = 2, 2, 60, 0
		p.own = func(rank int) string { return string(rune('A' + rank)) }
		chance := rand.New(rand.NewPCG(seed, 53))
		at := [2]time.Duration{}
		for i := range at {
			at[i] = 1100*time.Millisecond + time.Duration(chance.Int64N(int64(400*time.Millisecond)))
		}
		p.joinAt = func(rank int) time.Duration { return max(0, at[rank%2]*time.Duration(rank/2)) }
		p.tamper = func(rank int, op memOp, f memFate) memFate {
			if op.Kind == "remove" || op.Kind == "put" && strings.HasPrefix(op.Key, EndedDir) {
				f.Request *= 20 // the last rank is slow
			}
			return f
		}
		return p
	}, func(t *testing.T, w *world) {
		for _, r := range w.ranks[2:] {
			switch {
			case r.joinErr != nil:
				refused++
			case strings.HasPrefix(string(r.joined.keys), "comm-1"):
				anew++
			}
		}
	})
	t.Logf("%d ranks begin anew, %d fail", anew, refused)
	if anew == 0 {
		t.Error("no rank came after the end")
	}
}

// However many changes a communicator makes, what is kept of them, and what a process lists to
// learn of the next one, stays the same; also where proposals find the store full at first.
func TestScenario55ManyChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		node int
		full bool
		most int // records
	}{{0, false, 13}, {0, true, 16}, {2, false, 14}} {
		try(t, 5, func(seed uint64) plan {
			p := usual(seed)
			p.node, p.longest, p.calls = c.node, 0, 4000
			p.tamper = func(_ int, op memOp, f memFate) memFate {
				if c.full && op.Kind == "put" && strings.HasPrefix(op.Key, "p"+"/") && op.Nth == 0 {
					f.Err = ErrRefused
				}
				return f
			}
			for i := range 20 {
				p.saved(time.Duration(1+3*i)*time.Second, string(rune('a'+i)), i%3)
			}
			p.events = []event{{75 * time.Second, func(w *world) {
				if n := w.proposals(); n < 10 {
					w.check.violation(0, "%d changes only", n)
				}
				for _, s := range append(w.nodes, w.store) {
					if open, kept := s.Keys("open/"), records(s); len(open) > 0 || len(kept) > c.most {
						w.check.violation(0, "of %d changes there are %q undecided and %d records: %q", w.proposals(),
							open, len(kept), kept)
					}
				}
			}}}
			return p
		}, endsOn("t"))
	}
}

// Where no call is made nobody acknowledges a change: each edit takes the place of the one before, and its content is
// removed with it.
func TestScenario55EditsWithoutCalls(t *testing.T) {
	t.Parallel()
	try(t, 5, func(seed uint64) plan {
		p := usual(seed)
		p.longest, p.calls, p.pace = 0, 2, every(time.Minute)
		for i := range 20 {
			p.saved(time.Duration(1+i)*time.Second, string(rune('a'+i)), i%3)
		}
		p.events = []event{{20 * time.Second, func(w *world) {
			kept := slices.DeleteFunc(records(w.store), func(key string) bool { return !strings.Contains(key, "/v/") })
			if n := w.proposals(); n < 5 || len(kept) > 1 {
				w.check.violation(0, "of %d changes the contents of %d: %q", n, len(kept), kept)
			}
		}}}
		return p
	}, func(*testing.T, *world) {})
}

// Where all calls are alike a change is tried once, and again only after another call.
func TestScenario56AlikeWaitsForAnotherCall(t *testing.T) {
	t.Parallel()
	const differs = 9000
	try(t, 5, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 15_000
		p.shape = func(call int) (int, uint64) {
			if call > differs && call%100 == 0 {
				return 4, 2 << 20
			}
			return 4, 1 << 20
		}
		p.saved(time.Second, "B", 0)
		tries := 0
		p.before = func(w *world, r *rank, call int) {
			if r.id == 0 && call == differs-100 {
				tries = w.proposals()
			}
			if r.id == 0 && call == differs && (tries == 0 || tries > 2) {
				w.check.violation(0, "%d tries while all calls were alike", tries)
			}
		}
		return p
	}, endsOn("B"))
}

func TestCallsAlike(t *testing.T) {
	const one, other = 3 << 40, 5 << 20
	for _, c := range []struct {
		name  string
		calls []uint64
		ahead bool // the hashes contain the call that comes next
		alike bool
	}{
		{"none", nil, false, true},
		{"one more", []uint64{one}, false, true},
		{"a thousand", slices.Repeat([]uint64{one}, 1000), false, true},
		{"a thousand and the next", slices.Repeat([]uint64{one}, 1000), true, true},
		{"another", []uint64{one, other, one}, false, false},
		{"another of the last 64", append([]uint64{other}, slices.Repeat([]uint64{one}, 60)...), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var counter Counter
			var e pendingEdit
			counter.Add(HashCall(0, other, 1))
			for range 100 {
				counter.Add(HashCall(0, one, 1))
			}
			e.aborted(Decision{Abort: Alike}, 0, &counter)
			for _, bytes := range c.calls {
				counter.Add(HashCall(0, bytes, 1))
			}
			if c.ahead {
				counter.Add(HashCall(0, one, 1))
			}
			if got := e.waitsForOther(&counter); got != c.alike {
				t.Errorf("waits for another call: %v, want %v", got, c.alike)
			}
		})
	}
}
