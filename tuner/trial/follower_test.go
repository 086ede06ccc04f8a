package trial

import (
	"testing"
	"time"
)

// A comparison that goes on when the others of the job have ended theirs would find too little: it ends with them,
// unless they make no calls, or change late.
func TestComparisonFollows(t *testing.T) {
	for _, c := range []struct {
		name  string
		other func(j *playedJob) (on string, calls int)
		ends  bool
	}{
		{"takes turns as long", func(j *playedJob) (string, int) { return j.inForce.EffectDigest(), int(j.call) }, false},
		{"ends", func(j *playedJob) (string, int) {
			if j.turns > 3 {
				return j.versions[""].EffectDigest(), int(j.call)
			}
			return j.inForce.EffectDigest(), int(j.call)
		}, true},
		{"makes no calls", func(j *playedJob) (string, int) {
			if j.turns > 3 {
				return j.versions[""].EffectDigest(), 3
			}
			return j.inForce.EffectDigest(), j.turns
		}, false},
		{"changes at each sixth turn", func(j *playedJob) (string, int) {
			return j.versions[[]string{fastRows, ""}[j.turns/6%2]].EffectDigest(), j.turns
		}, false},
		{"is edited, then never changes", func(j *playedJob) (string, int) {
			return []string{"one", "another", j.versions[fastRows].EffectDigest()}[min(2, j.turns)], int(j.call)
		}, false},
		{"never changes", func(j *playedJob) (string, int) { return j.versions[fastRows].EffectDigest(), int(j.call) },
			false},
	} {
		j := play(t, false, true, fastRows, "")
		j.byVersion(map[string]float64{fastRows: 10000, "": 10000})
		j.peers.Add(func() (string, uint64) {
			on, calls := c.other(j)
			return on, uint64(calls)
		})
		j.run(5 * time.Minute)
		last := j.last()
		if ended := last.State == Followed; ended != c.ends ||
			ended && (last.Known() || last.Stays != "B" || j.inForce != j.versions[""]) {
			t.Errorf("%s: %v is in force after %+v", c.name, j.inForce, last)
		}
	}
}
