package agree

import (
	"math"
	"sync/atomic"
)

// A Counter is what a communicator's fast path works on. It may lie in C memory, laid
// out as here. For each call with at least one available cell, the main thread does
//
//	n = Seq; if (n >= Trig && !TryMove(n)) Slow(n, Hash);
//	Hash = Mix(Hash, call); decide; Seq = n+1
//
// Relaxed loads and stores are enough. The background lowers Trig to announce a
// checkpoint; a main thread that sees this too late passes the checkpoint, finds
// that out in Slow under the mutex and makes no promise. A promise is the main
// thread's own store to Trig, which it sees itself in program order. The
// background reads Seq only to choose a checkpoint and to notice lateness, never
// for safety.
type Counter struct {
	Seq  atomic.Uint64 // calls decided; written by the main thread only
	Trig atomic.Uint64 // first call that must go through Slow
	Hash uint64        // of the calls before Seq; the main thread's own
	Move Move
}

// Never is the trigger of a Counter that has nothing to wait for.
const Never = math.MaxUint64

// Mix adds a call to the rolling hash. It depends on the order of calls, and its C
// twin, call_hash and comm_count in tuner/plugin, costs the fast path one
// multiplication: the other one is that of its cache.
func Mix(hash uint64, coll int, bytes uint64, pipeOps int) uint64 {
	call := uint64(uint32(coll) + uint32(pipeOps)*8)
	return hash*0xffffffff9e3779b1 + (bytes+call<<40)*0x9e3779b97f4a7c15
}
