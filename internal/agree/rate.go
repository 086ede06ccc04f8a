package agree

import "time"

// rate keeps the highest number of calls per second of the last 5 to 10 minutes. A lead that is computed from it
// lasts at least as long as planned.
type rate struct {
	at      time.Duration
	calls   uint64
	started bool
	highest float64       // calls per second, in this window
	before  float64       // the same, in the window before
	turn    time.Duration // when this window began
}

const (
	rateWindow = 5 * time.Minute
	// rateSample is the least time over which a rate is measured.
	rateSample = 200 * time.Millisecond
)

func (r *rate) sample(now time.Duration, calls uint64) {
	if !r.started {
		*r = rate{at: now, calls: calls, started: true, turn: now}
		return
	}
	elapsed := now - r.at
	if elapsed < rateSample {
		return
	}
	if now-r.turn >= rateWindow {
		r.highest, r.before, r.turn = 0, r.highest, now
	}
	r.highest = max(r.highest, float64(calls-r.calls)/elapsed.Seconds())
	r.at, r.calls = now, calls
}

// during returns the most calls to expect in d.
func (r *rate) during(d time.Duration) uint64 {
	return uint64(max(r.highest, r.before) * d.Seconds())
}
