package trial

import (
	"math"
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

// minRepeats is how often a step must have been seen.
const minRepeats = 3

// periodOf returns the number of calls in a step: the least number after which the calls repeat. calls holds
// a hash of each. It returns 0 if they do not repeat, or not often enough. The first half of the calls need
// not belong to steps.
func periodOf(calls []uint64) int {
	for _, of := range [][]uint64{calls, calls[len(calls)/2:]} {
		if p := len(of) - longestBorder(of); p > 0 && minRepeats*p <= len(of) {
			return p
		}
	}
	return 0
}

// Chunks of calls take about the same time if two ratios are small. alike bounds the ratio of the slow
// chunks' time to that of the fast ones, a tenth left out at each end. alikeWaits bounds the ratio of mean to
// median, because a few long waits may be most of the time.
const (
	alike      = 1.5
	alikeWaits = 1.25
)

// steady returns how many periods of calls make a step that takes about the same time each time. nanos says
// when each call was made. One period may be too short: if calls repeat with each layer, their times only
// show how fast the host launches. 0 means that no number of periods is steady. A few slow steps at the beginning also
// make several periods look steadier than one. patient asks for more of those, by which time the beginning no longer
// counts.
//
// took is the median time of a step, since the first ones may have waited for connections. noise is the standard
// deviation of the logarithms of the latest ones.
func steady(nanos []uint64, period int, patient bool) (periods int, took time.Duration, noise float64) {
	nanos = nanos[len(nanos)/2:]
	for m := 1; steadyChunks*m*period < len(nanos); m *= 2 {
		var chunks []float64
		mean := 0.
		for i := m * period; i < len(nanos); i += m * period {
			chunks = append(chunks, float64(nanos[i]-nanos[i-m*period]))
			mean += chunks[len(chunks)-1]
		}
		mean /= float64(len(chunks))
		last := slices.Sorted(slices.Values(chunks[max(0, len(chunks)-latestChunks):]))
		slices.Sort(chunks)
		median := chunks[len(chunks)/2]
		tenth := len(chunks) / 10
		if chunks[len(chunks)-1-tenth] > alike*chunks[tenth] || mean > alikeWaits*median {
			continue
		}
		if m > 1 && patient && len(chunks) < patientChunks {
			break
		}
		const normal = 1.349 // standard deviations between the quarters
		return m, time.Duration(median), math.Log(last[len(last)*3/4]/last[len(last)/4]) / normal
	}
	return 0, 0, 0
}

// steadyChunks is the least number of chunks that tell whether they are alike. patientChunks is that of several periods
// each, while there is time to wait for them.
const (
	steadyChunks  = 4
	patientChunks = 16
	latestChunks  = 20 // that tell the noise
)

// longestBorder returns the length of the longest proper prefix that is also a suffix
// (Knuth, Morris and Pratt).
func longestBorder(s []uint64) int {
	if len(s) == 0 {
		return 0
	}
	border := make([]int, len(s))
	for i := 1; i < len(s); i++ {
		b := border[i-1]
		for b > 0 && s[i] != s[b] {
			b = border[b-1]
		}
		if s[i] == s[b] {
			b++
		}
		border[i] = b
	}
	return border[len(s)-1]
}

// Stamps are of the host's calls, and a host may be far ahead of the GPU. It waits in a full queue, so that its pace is
// the GPU's, but of calls that it made that many calls before. Steps tell by themselves how many: that number by which
// the times of a version's steps vary least.

// queue finds how many calls the host is ahead of the GPU.
type queue struct {
	recent []pacedStep
	ahead  uint64
}

type pacedStep struct {
	first uint64
	log   float64 // of its time
}

const (
	deepest     = 1 << 10 // calls of a launch queue
	recentSteps = 400
	lookEvery   = 100  // steps
	explainsAll = 0.85 // of the variance, at most, that is left where steps are said to be of earlier calls
)

// add adds a step. changed reports that the host is found to be another number of calls ahead.
func (q *queue) add(first, calls uint64, log float64, history []period) (changed bool) {
	if q.recent = append(q.recent, pacedStep{first, log}); len(q.recent)%lookEvery != 0 {
		return false
	}
	q.recent = q.recent[max(0, len(q.recent)-recentSteps):]
	now := q.left(q.ahead, calls, history)
	best, least := q.ahead, explainsAll*now
	for ahead := uint64(0); ahead <= deepest; ahead += calls {
		if left := q.left(ahead, calls, history); left < least {
			best, least = ahead, left
		}
	}
	changed = best != q.ahead
	q.ahead = best
	return changed
}

// left is the variance of steps within the times of versions, if calls are made so far ahead.
func (q *queue) left(ahead, calls uint64, history []period) float64 {
	var logs []float64
	for _, s := range q.recent {
		logs = append(logs, s.log)
	}
	middle := median(logs)
	for i := range logs {
		logs[i] = math.Abs(logs[i] - middle)
	}
	most := 5 * median(logs) // a pause tells nothing
	type sums struct{ n, sum, squares float64 }
	by := make([]sums, len(history))
	for _, s := range q.recent {
		in := indexOf(history, ahead, s.first, s.first+calls)
		if off := s.log - middle; in >= 0 && math.Abs(off) <= most {
			by[in].n++
			by[in].sum += off
			by[in].squares += off * off
		}
	}
	left, free := 0.0, 0.0
	for _, b := range by {
		if b.n > 1 {
			left += b.squares - b.sum*b.sum/b.n
			free += b.n - 1
		}
	}
	if free < lookEvery/2 {
		return math.Inf(1)
	}
	return left / free
}
