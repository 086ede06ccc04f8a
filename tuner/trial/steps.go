package trial

import (
	"slices"
	"time"
)

// steps finds a job's steps in one communicator's stamps. It first looks at all calls for the number after
// which they repeat. Then it notes when each step begins.
type steps struct {
	period uint64          // calls in a step; 0: not known yet
	took   time.Duration   // the median of steps, as the period was found,
	noise  float64         // and by how much they vary: the standard deviation of the logarithm
	kind   uint64          // equal for steps of the same calls, wherever they begin and however many periods they have
	unlike []time.Duration // steps in a row that did not take about as long as that
	counts map[uint64]int  // of the calls in a step, by their hashes

	last    Stamp
	started bool // last is a stamp
	first   uint64
	calls   []uint64 // their hashes, and when they were made, while the period is not known
	nanos   []uint64
	since   time.Time
	tried   int // len(calls) when a period was last looked for
}

// The search for the period begins after enoughCalls or enoughTime, whichever comes first. It is given up
// after mostCalls or mostTime.
const (
	enoughCalls = 1 << 10
	enoughTime  = time.Minute
	mostCalls   = 1 << 16
	mostTime    = 10 * time.Minute
)

// step is one step of the job.
type step struct {
	first, end uint64 // its calls: end is the next step's first
	began      time.Time
	took       time.Duration
}

// add takes the next stamp. ok reports that it ends a step. If the calls no longer repeat as they did, the
// search for the period begins again.
func (s *steps) add(stamp Stamp) (done step, ok bool) {
	last, started := s.last, s.started
	s.last, s.started = stamp, true
	if s.period == 0 {
		if !started || stamp.Call != last.Call+1 {
			s.calls, s.nanos, s.since, s.tried = s.calls[:0], s.nanos[:0], at(stamp), 0
		}
		s.calls, s.nanos = append(s.calls, stamp.Hash), append(s.nanos, stamp.Nanos)
		return step{}, false
	}
	switch {
	case !started || stamp.Call != last.Call+s.period: // the first by this period, or one was lost
		s.first = stamp.Hash
		return step{}, false
	case stamp.Hash != s.first:
		*s = steps{}
		return step{}, false
	}
	done = step{last.Call, stamp.Call, at(last), time.Duration(stamp.Nanos - last.Nanos)}
	if float64(done.took) < alike*float64(s.took) && alike*float64(done.took) > float64(s.took) {
		s.unlike = nil
		return done, true
	}
	if s.unlike = append(s.unlike, done.took); len(s.unlike) == wrongSteps {
		if least, most := slices.Min(s.unlike), slices.Max(s.unlike); float64(most) > alike*float64(least) {
			*s = steps{} // it was found while something was in the way, or the job has become another
			return step{}, false
		}
		s.took, s.unlike = done.took, nil // as by a version that is far slower, or faster
	}
	return done, true
}

// wrongSteps is how many steps in a row of another time than that of the step found show that it was found wrong, or
// that steps have changed.
const wrongSteps = 16

// times is a multiple of a duration.
func times(d time.Duration, by float64) time.Duration { return time.Duration(by * float64(d)) }

func at(s Stamp) time.Time { return time.Unix(0, int64(s.Nanos)) }

// find looks for the period. gaveUp reports that there is none in many calls.
func (s *steps) find(now time.Time) (found, gaveUp bool) {
	long := now.Sub(s.since)
	enough := len(s.calls) >= enoughCalls || long >= enoughTime
	if s.period > 0 || !s.started || !enough || len(s.calls) < s.tried+s.tried/8 {
		return false, false
	}
	s.tried = len(s.calls)
	p, times := periodOf(s.calls), 0
	if p > 0 {
		times, s.took, s.noise = steady(s.nanos, p, len(s.calls) < mostCalls/2 && long < mostTime/2)
	}
	if times > 0 {
		s.period = uint64(p * times)
		s.counts = map[uint64]int{}
		for _, hash := range s.calls[len(s.calls)-p:] {
			s.kind += hash
			s.counts[hash] += times
		}
		s.calls, s.nanos, s.started = nil, nil, false
		return true, false
	}
	if len(s.calls) < mostCalls && long < mostTime {
		return false, false
	}
	*s = steps{}
	return false, true
}
