// Package agree lets the ranks of one communicator change their policy at the
// same call, or not at all.
//
// Ranks share nothing but a Store of write-once records. The rank whose policy
// file changed proposes a version together with a checkpoint call c and a switch
// call S. Every rank stages the version; at call c its own main thread promises to
// come to Slow before each call from S on, and the rank says that it is ready. From
// S on each rank looks for the first call that differs from the one before it, and
// stands there: its main thread waits, and it says so with a hash of its last calls.
// If all ranks stand with equal hashes, the proposer commits. Anyone may abort at
// any time. Commit and abort are made of the same record, the proposal's token, so
// there is one of them, whatever becomes of other records. A rank that has said that
// it stands obeys only that; one that has not needs nobody's decision. docs/PROTOCOL.md
// has the whole, a diagram of a member's states, its proofs and its limits.
//
// A Member is one rank of one communicator. Its main thread runs the fast path
// on a Counter. When the Counter's trigger is reached it makes the promise that lies
// ready, or calls Slow; a goroutine of its own talks to the store. Join starts it, Close
// stops it, and nothing is left running then. The members of one process share a Poller.
//
// Inspect shows the communicators of a store to people who take no part.
//
// Not guaranteed: that a change comes; that a rank is found out which makes two calls more
// than the others that look like the next two of the stream. And if two communicators
// share an id, which NCCL does not let happen, while
// some of their ranks cannot reach the store at init and others can, the former are not
// missed: they keep their version while the others change. Config.Strict excludes that.
//
// Policy is opaque here: content is bytes, its meaning is a digest, and the
// caller's Stage turns the one into a Snapshot. Store and clock come from
// outside too, so that all of it runs under a simulated store and clock.
package agree
