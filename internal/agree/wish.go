package agree

import "time"

// A wish is the version that this rank's own file has come to, until it is in
// force. It is born by a change of the file, never by a difference between file
// and version in force: nodes that see an old file would else switch back for
// ever.
type wish struct {
	version
	content    []byte
	since      time.Duration // the save
	blobStored bool
	attempts   int           // aborted so far
	late       int           // of them, because a rank needed more time
	vetoes     int           // of them, because a rank could not stage it
	notBefore  time.Duration // of the next attempt
	floor      uint64        // the checkpoint must lie above this call
}

const (
	maxVetoes     = 5
	maxRetryDelay = 60 * time.Second
	maxLeadFactor = 64
)

// aborted counts one more failure of this version, whoever proposed it: ranks
// that see the same file wish the same.
func (w *wish) aborted(d Decision, now time.Duration) (giveUp bool) {
	w.attempts++
	delay := maxRetryDelay
	if w.attempts <= 6 {
		delay = min(delay, time.Second<<(w.attempts-1))
	}
	w.notBefore = now + delay
	switch d.Abort {
	case Late:
		w.floor = max(w.floor, d.Calls)
		w.late++
	case Slow:
		w.late++
	case CannotStage, OtherBuild:
		w.vetoes++
	}
	return w.vetoes >= maxVetoes
}

func (w *wish) leadFactor() uint64 {
	return uint64(min(maxLeadFactor, 1<<min(w.late, 16)))
}
