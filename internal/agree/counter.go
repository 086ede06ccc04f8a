package agree

import (
	"math"
	"sync/atomic"
)

// A Counter counts a communicator's calls for its fast path. It may lie in C memory, laid
// out as here. For each question with at least one available cell and pipe ops above 0,
// the main thread does
//
//	n = Seq; if (n >= Trigger && !TryPromise(n)) AtTrigger(n, HashCall(call));
//	Hash = Mix(Hash, HashCall(call)); decide; Seq = n+1
//
// Relaxed loads and stores are enough. The background lowers Trigger to announce a
// checkpoint. A main thread that sees this too late passes the checkpoint, finds that out
// in AtTrigger under the mutex, and makes no promise. A promise is the main thread's own
// store to Trigger, which it sees itself in program order. Others read Seq and Hash to
// choose a checkpoint, to notice that it has passed, and, once the promise is made, to
// compare the ranks of one process.
type Counter struct {
	Seq     atomic.Uint64 // calls decided; written by the main thread only
	Trigger atomic.Uint64 // first call that needs TryPromise or AtTrigger
	Hash    atomic.Uint64 // of the last calls before Seq; written by the main thread only
	Promise Promise
}

// Never is the trigger while no change needs the main thread.
const Never = math.MaxUint64

// HashCall returns a number that is equal for one call on all ranks. Its C twin is call_hash
// in tuner/plugin, by which the cache finds answers, too.
func HashCall(coll int, bytes uint64, pipeOps int) uint64 {
	call := uint64(uint32(coll) + uint32(pipeOps)*8)
	return (bytes + call<<40) * 0x9e3779b97f4a7c15
}

// Mix adds a call to the rolling hash, which covers the last 64 calls: each shifts
// those before it by one bit. So ranks whose calls differed once agree again when they
// have made the same 64 calls at the same counts. Its C twin is comm_count.
func Mix(hash, call uint64) uint64 { return hash<<1 + (call ^ call>>32) }
