// Package agree lets the ranks of one communicator change their policy at the same call,
// or not at all.
//
// A Member is one rank of one communicator. Members share nothing but a Store of
// write-once records. A change takes these steps:
//
//   - Proposal. The rank whose policy file was edited proposes a version, a checkpoint
//     (call c) and a switch (call S). Every rank stages the version.
//   - Promise. At call c each main thread promises to stop at its trigger before each call
//     from S on. The rank then puts an ack.
//   - Barrier. The first call after S that differs from the call before it is the barrier.
//     There each main thread waits, and the rank puts its arrival with a hash of its last
//     calls.
//   - Decision. If all ranks have arrived with equal hashes, the proposer commits. Anyone
//     may abort at any time. A decision is made by moving the proposal's token, so there
//     is only one, whatever becomes of other records.
//
// A rank that has put its arrival obeys nothing but the decision. A rank that has not may
// go on by itself, since no commit is possible without its arrival. docs/PROTOCOL.md is the
// specification, with the states of a member, proofs and limits.
//
// The main thread runs its fast path on a Counter. When the Counter's trigger is reached,
// it calls AtTrigger. It never touches the store: a goroutine of the member does. Join starts
// that goroutine and Close ends it. The members of one process share a Poller.
//
// An Inspector shows the communicators of a store to tools that take no part.
//
// Not guaranteed: that a change comes, and that a rank is found out which makes two calls
// more than the others that look like the next two of the stream.
//
// Policy is opaque here: content is bytes, its meaning is a digest, and Config.Stage turns
// the one into a Snapshot. Store and clock are injected, so that tests simulate both.
package agree
