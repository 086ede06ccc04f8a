// Package agree lets the ranks of one communicator change their policy at the same call,
// or not at all.
//
// A Member is one rank of one communicator. It lives from Join to Close. Join starts the
// member's background, a goroutine that makes all its store operations; Close ends it. The
// members of one process share a Poller. Members share nothing else but a Store of
// write-once records, which the caller opens and closes.
//
// A change takes these steps:
//
//   - Proposal. The rank whose policy file was edited proposes a version, a checkpoint
//     (call c) and a switch (call S). Every rank stages the version.
//   - Promise. At call c each main thread promises to stop at its trigger before each call
//     from S on. The rank then puts an ack, which binds nobody.
//   - Vote. The first call after S that differs from the call before it is the barrier.
//     There each main thread waits, and the rank puts its arrival with a hash of its last
//     calls. The arrival is its vote to commit.
//   - Decision. If all ranks have arrived with equal hashes, the proposer commits. Any rank
//     may abort at any time. A decision is made by moving the proposal's token, so there
//     is only one, even if other records vanish.
//
// A rank that has put its arrival obeys nothing but the decision. A rank that has not put it may withdraw
// from the change alone, because no commit is possible without its arrival. docs/dev/PROTOCOL.md is the
// specification, with the states of a member, proofs and limits.
//
// The main thread counts its calls with a Counter. When a call reaches the Counter's
// trigger, it calls AtTrigger, which never touches the store.
//
// An Inspector shows the communicators of a store to tools that are no ranks.
//
// Two things are not guaranteed. A change may never come. And the ranks may not notice that one of them has
// made two extra calls, if these look like the next two of the stream.
//
// This package does not know what a policy is. Content is bytes, its meaning is a digest,
// and Config.Stage turns content into a Snapshot. Store and clock are injected, so that
// tests simulate both.
package agree
