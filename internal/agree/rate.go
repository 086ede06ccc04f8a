package agree

import "time"

// rate keeps the highest number of calls per second of the last minutes. A lead that is computed from it
// lasts at least as long as planned.
type rate struct {
	at      time.Duration
	calls   uint64
	started bool
	// highest calls per second of each slice of the window, newest first.
	highest [10]float64
	turn    time.Duration // when the newest slice began
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
	slice := rateWindow / time.Duration(len(r.highest))
	for ; now-r.turn >= slice; r.turn += slice {
		copy(r.highest[1:], r.highest[:])
		r.highest[0] = 0
	}
	r.highest[0] = max(r.highest[0], float64(calls-r.calls)/elapsed.Seconds())
	r.at, r.calls = now, calls
}

// during returns the most calls to expect in d.
func (r *rate) during(d time.Duration) uint64 {
	var highest float64
	for _, h := range r.highest {
		highest = max(highest, h)
	}
	return uint64(highest * d.Seconds())
}
