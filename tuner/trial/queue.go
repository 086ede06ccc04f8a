package trial

import "math"

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
	explainsAll = 0.92 // at most, of what is left as things are, where steps are said to be of earlier calls
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

// left is by how much steps are off the median of their version's, if calls are made so far ahead.
func (q *queue) left(ahead, calls uint64, history []period) float64 {
	by := make([][]float64, len(history))
	for _, s := range q.recent {
		if in := indexOf(history, ahead, s.first, s.first+calls); in >= 0 {
			by[in] = append(by[in], s.log)
		}
	}
	left, free := 0.0, 0
	for _, logs := range by {
		middle := median(logs)
		for _, log := range logs {
			left += math.Abs(log - middle)
		}
		free += max(0, len(logs)-1)
	}
	if free < lookEvery/2 {
		return math.Inf(1)
	}
	return left / float64(free)
}
