package agree

import "testing"

// What a rank does at a call follows from its change and the call alone: it promises at c, arrives at the first call after
// S that differs from the call before it, and withdraws where it has come too late, or finds no such call.
func TestVote(t *testing.T) {
	const check, at = 100, 200
	in := func(s state, passed uint64) change {
		return change{k: 1, state: s, Proposal: Proposal{Check: check, Switch: at}, lastPassed: lastPassed{call: passed}}
	}
	for name, c := range map[string]struct {
		change  change
		n, call uint64
		uniform bool
		want    state
		why     Reason
	}{
		"at c":                             {in(armed, 0), check, 7, false, promised, ""},
		"behind c":                         {in(armed, 0), check + 1, 7, false, withdrawn, Late},
		"before c":                         {in(armed, 0), check - 1, 7, false, armed, ""},
		"before S":                         {in(promised, 0), at - 1, 7, false, promised, ""},
		"at S":                             {in(promised, 0), at, 7, false, promised, ""},
		"like the call before it":          {in(promised, 7), at + 1, 7, false, promised, ""},
		"another one":                      {in(promised, 7), at + 1, 8, false, arrived, ""},
		"alike, and told so":               {in(promised, 7), at + 1, 7, true, arrived, ""},
		"alike for too long":               {in(promised, 7), at + barrierWithin, 7, false, withdrawn, Alike},
		"another one, as late as possible": {in(promised, 7), at + barrierWithin, 8, false, arrived, ""},
		"waits already":                    {in(arrived, 7), at + 1, 8, false, arrived, ""},
		"has nothing to vote on":           {in(idle, 0), at, 8, false, idle, ""},
	} {
		got := c.change.vote(reached{n: c.n, call: c.call, before: 3, tick: 4, thread: 5, now: 6}, c.uniform)
		if got.state != c.want || got.why != c.why {
			t.Errorf("%s: %s (%s), want %s (%s)", name, got.state, got.why, c.want, c.why)
		}
		if got.state == arrived && c.change.state == promised && (got.arrival.at != c.n || got.arrival.since != 6) {
			t.Errorf("%s: %+v", name, got.arrival)
		}
		if got.state == promised && c.n >= at && got.lastPassed != (lastPassed{c.n + 1, c.call, 4, 5}) {
			t.Errorf("%s: %+v", name, got.lastPassed)
		}
	}
}
