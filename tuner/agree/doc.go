// Package agree lets the ranks of one communicator change their policy at the
// same call, or not at all.
//
// Ranks share nothing but a Store of write-once records. The rank whose policy
// file changed proposes a version together with a checkpoint call c and a switch
// call S. Every rank stages the version; at call c its own main thread promises
// to decide no call from S on before the fate of the change is known; then the
// rank acknowledges, with a hash of the calls it has made so far. If all ranks
// acknowledged with equal hashes, the proposer writes commit. Anyone may write
// abort at any time, the first decision stands, and all obey it. A rank that
// reaches S undecided writes abort itself: no time-out takes part in safety.
//
// A Member is one rank of one communicator. Its main thread runs the fast path
// on a Counter. When the Counter's trigger is reached it makes the Move that lies
// ready, the promise or the switch, and calls Slow where there is none; a
// goroutine of its own talks to the store. Join starts it, Close stops it, and
// nothing is left running then. The members of one process share a Poller.
//
// Inspect shows the communicators of a store to people who take no part.
//
// Not guaranteed: that a change comes; that ranks whose counts begin to differ between
// c and S are found out before the next change; that a shift in a stream of identical
// calls is. And if two communicators share an id, which NCCL does not let happen, while
// some of their ranks cannot reach the store at init and others can, the former are not
// missed: they keep their version while the others change. Config.Strict excludes that.
//
// Policy is opaque here: content is bytes, its meaning is a digest, and the
// caller's Stage turns the one into a snapshot. Store and clock come from
// outside too, so that all of it runs under a simulated store and clock.
package agree
