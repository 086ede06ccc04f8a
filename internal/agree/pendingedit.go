package agree

import "time"

// A pendingEdit is a version that this rank wants in force and that is not yet. It is a new state of the
// rank's own file (Offer), or a side of a comparison (Propose). A file that merely differs from the version
// in force makes no pending edit. Otherwise nodes that still see an old file would switch back for ever.
type pendingEdit struct {
	// These are constant.
	VersionName
	content  []byte
	since    time.Duration // when it was offered or proposed
	proposed bool          // by Propose: nobody has saved a file

	// These are the background's alone.
	stored    uint64        // the change for which its content was put
	attempts  int           // proposals of this version that were aborted, or could not be put
	tooEarly  int           // of them, because a rank needed more time
	vetoes    int           // of them, because a rank could not stage it
	notBefore time.Duration // of the next attempt
	alike     bool          // the last attempt found all calls alike: the next waits for another one
	last      uint64        // alike: Counter.Last then, which calls like those do not change
	floor     uint64        // the checkpoint must lie above this call
}

const (
	maxVetoes     = 5
	maxRetryDelay = 60 * time.Second
	maxLeadFactor = 64
)

// aborted counts one more aborted proposal of this version, whoever made it: ranks that see
// the same file have the same edit pending.
func (e *pendingEdit) aborted(d Decision, now time.Duration, c *Counter) (giveUp bool) {
	e.delay(now)
	e.alike, e.last = d.Abort == Alike, c.Last.Load()
	switch d.Abort {
	case Late:
		e.floor = max(e.floor, d.Calls)
		e.tooEarly++
	case Slow:
		e.tooEarly++
	case CannotStage, OtherBuild:
		e.vetoes++
	}
	return e.vetoes >= maxVetoes
}

// waitsForOther reports that calls were alike when the last attempt was aborted, and still are.
// Another attempt would end as that has.
func (e *pendingEdit) waitsForOther(c *Counter) bool {
	e.alike = e.alike && c.Last.Load() == e.last
	return e.alike
}

// delay makes the next attempt wait.
func (e *pendingEdit) delay(now time.Duration) {
	e.attempts++
	wait := maxRetryDelay
	if e.attempts <= 6 {
		wait = min(wait, time.Second<<(e.attempts-1))
	}
	e.notBefore = now + wait
}

// leadFactor doubles the lead with each proposal that came too early.
func (e *pendingEdit) leadFactor() uint64 {
	return uint64(min(maxLeadFactor, 1<<min(e.tooEarly, 16)))
}
