// Package policy decides what NCCL should use for a collective: algorithm, protocol, number of
// channels and chunk size.
//
// A Policy is read from a file of rules, checked as a whole and compiled once. It is immutable from
// then on and safe for any number of goroutines. For one communicator, Policy.For narrows it to a
// View; View.Decide answers one Query.
//
// A rule may have a condition of package when. Those that all calls of a communicator have alike are
// evaluated in Policy.For, the others in Decide, for the rules that cover the call.
//
// Package model is what was learnt from measurements. An Engine puts both together: rows first, then
// the model, then NCCL.
//
// Decide is a pure function of the policy and the query: it reads no clock, no environment and no
// memory of earlier calls. Every rank of a communicator must get the same answer for the same
// collective, or the job hangs, and this is what guarantees it.
//
// docs/POLICY.md describes the file of rules, docs/dev/MODEL.md the model, docs/dev/ARCHITECTURE.md the life
// of a decision.
package policy
