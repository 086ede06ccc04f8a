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

// lag is how long another's record stays unseen.
func (h *memHandle) lag(key string) time.Duration {
	if h.faults.Stale == 0 {
		return 0
	}
	return upTo(h.chance("lag "+key), h.faults.Stale)
}

func (h *memHandle) chance(what string) *rand.Rand {
	sum := fnv.New64a()
	sum.Write([]byte(h.Name))
	sum.Write([]byte{0})
	sum.Write([]byte(what))
	return rand.New(rand.NewPCG(h.seed, sum.Sum64()))
}

// upTo is mostly much less than most: what is slow now and then is worse than
// what is always slow. Some microseconds come on top, so that two events seldom
// coincide.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	x := r.Float64()
	return 1 + time.Duration(r.Int64N(int64(200*time.Microsecond))) + time.Duration(x*x*x*float64(most))
}
