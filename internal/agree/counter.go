package agree

import (
	"math"
	"sync/atomic"
)

// A Counter counts a communicator's calls for its fast path. It may lie in C memory, laid
// out as here. For each question with at least one available cell and pipe ops above 0,
// the main thread does
//
//	n = Seq; if (n >= Trigger) AtTrigger(n, HashCall(call));
//	Add(HashCall(call)); decide; Seq = n+1
//
// Relaxed loads and stores are enough. The background lowers Trigger to announce a
// checkpoint. A main thread that sees this too late passes the checkpoint, finds that out
// in AtTrigger under the mutex, and makes no promise. By a promise the main thread itself
// stores the switch in Trigger, which it sees in program order. Others read Seq, Last and All to
// choose a checkpoint, to notice that it has passed, and, once the promise is made, to
// compare the ranks of one process.
type Counter struct {
	Seq     atomic.Uint64 // calls decided; written by the main thread only
	Trigger atomic.Uint64 // first call that needs AtTrigger
	Last    atomic.Uint64 // hash of the last 64 calls before Seq, in their order; written by the main thread only
	// hash of all calls before Seq, in any order; 1 if there is none; written by the main thread only
	All atomic.Uint64
}

// Never is the trigger while no change needs the main thread.
const Never = math.MaxUint64

// HashCall returns a number that is equal for one call on all ranks. Its C twin is call_hash
// in tuner/plugin, by which the cache finds answers, too.
func HashCall(coll int, bytes uint64, pipeOps int) uint64 {
	call := uint64(uint32(coll) + uint32(pipeOps)*8)
	return (bytes + call<<40) * 0x9e3779b97f4a7c15
}

// Add adds a call to both hashes. Its C twin is comm_count.
//
// Last shifts the calls before by one bit, so it forgets a call after 64 others. All forgets
// none, whatever their order: if one rank makes a call that the others do not, the ranks
// differ until the others make it, too. It is a product, which does not depend on the order,
// of odd numbers, so that it never becomes 0. It is no sum: sizes and collectives are small
// or round numbers, of which different calls often have the same sum.
func (c *Counter) Add(call uint64) {
	x := call ^ call>>32
	c.Last.Store(c.Last.Load()<<1 + x)
	c.All.Store(c.All.Load() * (2*x + 1))
}

// Hash is equal for ranks that have made the same calls since init, in any order, and the last 64 in the same
// order.
func (c *Counter) Hash() uint64 {
	return c.Last.Load() + c.All.Load()
}
