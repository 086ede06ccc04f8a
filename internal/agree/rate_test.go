package agree

import (
	"testing"
	"time"
)

// The rate is the highest of the last 5 to 10 minutes, and a burst of an instant is none.
func TestRate(t *testing.T) {
	var r rate
	now, calls := time.Hour, uint64(1000)
	r.sample(now, calls)
	for _, c := range []struct {
		until     time.Duration
		perSecond uint64
		want      uint64 // calls in 10 s
	}{
		{time.Minute, 100, 1000},
		{4 * time.Minute, 10, 1000},
		{9 * time.Minute, 10, 1000},
		{11 * time.Minute, 10, 100},
		{12 * time.Minute, 20, 200},
	} {
		for now < time.Hour+c.until {
			now, calls = now+time.Second, calls+c.perSecond
			r.sample(now, calls)
			r.sample(now+rateSample-1, calls+1000)
		}
		if got := r.during(10 * time.Second); got != c.want {
			t.Errorf("after %v: %d calls in 10 s, want %d", c.until, got, c.want)
		}
	}
}
