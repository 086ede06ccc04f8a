package agree

import (
	"testing"
	"time"
)

func TestScenario20MisalignedBeforeC(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.phantom = once(1, 10)
		p.saved(time.Second, "B")
		p.saved(4*time.Second, "C")
		return p
	}, refused(1, Misaligned, "A"))
}

// Ranks that have made the same calls again, if in another order, change again.
func TestScenario20AlignedAgain(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 2500
		p.phantom = func(r *rank, call int) bool { return r.phantoms == 0 && call >= 10+200*(r.id%2) }
		p.saved(time.Second, "B")
		return p
	}, refused(1, Misaligned, "B"))
}

// One rank has made calls of its own, as many as the period of the stream, and so many calls
// ago that its last ones are those of the others. It is behind the others all the same, until
// they have made such calls, too.
func TestScenario20MisalignedLongAgo(t *testing.T) {
	t.Parallel()
	for period := 1; period <= 3; period++ {
		for _, others := range []bool{false, true} {
			try(t, 10, func(seed uint64) plan {
				p := usual(seed)
				p.calls = 1500
				p.repeat(1, period, 2, 10)
				one := p.phantom
				p.phantom = func(r *rank, call int) bool {
					return one(r, call) || others && r.id != 1 && call >= 400 && r.phantoms < 2*period
				}
				p.saved(3*time.Second, "B") // some 150 calls
				return p
			}, refused(1, Misaligned, map[bool]string{false: "A", true: "B"}[others]))
		}
	}
}

func TestScenario21MisalignedInsideWindow(t *testing.T) {
	t.Parallel()
	inWindow := func(r *rank, _ int) bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		return r.id == 1 && r.phantoms == 0 && r.m.change.k == 1 && r.m.change.state == promised
	}
	for _, c := range []struct {
		name  string
		shape func(call int) (int, uint64)
		like  bool
		calls int // after the window's first until the phantom
	}{
		{"any", nil, false, 0},
		{"like the next", nil, true, 0},
		{"late", nil, true, 25},
		{"in a run of calls that are alike", func(call int) (int, uint64) { return 4, uint64(call/70) << 20 }, true, 0},
		{"where all calls are alike", func(int) (int, uint64) { return 4, 1 << 20 }, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			try(t, 50, func(seed uint64) plan {
				p := usual(seed)
				p.calls = 1000
				p.shape, p.like = c.shape, c.like
				after := 0
				p.phantom = func(r *rank, call int) bool {
					if !inWindow(r, call) {
						return false
					}
					after++
					return after > c.calls
				}
				p.saved(time.Second, "B")
				p.saved(4*time.Second, "C")
				return p
			}, func(t *testing.T, w *world) {
				endsOn("A")(t, w)
				if w.rank(1).phantoms != 1 {
					t.Errorf("%d phantom calls", w.rank(1).phantoms)
				}
			})
		})
	}
}

func TestScenario31PhantomCalls(t *testing.T) {
	t.Parallel()
	t.Run("uncounted", func(t *testing.T) {
		// A call without an available cell takes time and touches no counter.
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.before = func(w *world, r *rank, call int) {
				if r.id == 1 && call%7 == 0 {
					time.Sleep(time.Millisecond) // simulated
				}
			}
			p.saved(time.Second, "B")
			return p
		}, endsOn("B"))
	})
	t.Run("counted by one rank", func(t *testing.T) {
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.phantom = once(2, 3)
			p.saved(time.Second, "B")
			return p
		}, refused(1, Misaligned, "A"))
	})
}
