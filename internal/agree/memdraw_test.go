package agree

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"
)

// draw chooses an operation's fate by its name alone, so that a seed gives the same run in
// whatever order goroutines ask.
func (h *memHandle) draw(op memOp) memFate {
	r := h.chance(op.Kind + " " + op.Key + " " + strconv.Itoa(op.Nth))
	f := memFate{Request: upTo(r, h.faults.Delay), Reply: upTo(r, h.faults.Delay)}
	f.Lost = r.Float64() < h.faults.LoseRequest
	f.ReplyLost = r.Float64() < h.faults.LoseReply
	return f
}

// lag is how long a record of another rank stays unseen.
func (h *memHandle) lag(key string) time.Duration {
	if h.faults.Stale == 0 {
		return 0
	}
	return upTo(h.chance("lag "+key), h.faults.Stale)
}

// chance returns random numbers that depend on the seed, the handle and what they are for, and on nothing else.
func (h *memHandle) chance(what string) *rand.Rand {
	sum := fnv.New64a()
	sum.Write([]byte(h.Name))
	sum.Write([]byte{0})
	sum.Write([]byte(what))
	return rand.New(rand.NewPCG(h.seed, sum.Sum64()))
}

// upTo draws a delay up to most. Most delays are short and few are long, because a store that is slow now and then
// finds more faults than one that is always slow. Up to 200 microseconds come on top: two events seldom coincide.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	x := r.Float64()
	return 1 + time.Duration(r.Int64N(int64(200*time.Microsecond))) + time.Duration(x*x*x*float64(most))
}
