// Package policyfile makes versions of the policy from a policy file and a model file: it reads,
// checks and compiles them, and watches them for edits.
//
// A process has one Loader for its life. The Loader owns what the files held when they were
// read last and the latest versions, so that each file and each version is compiled once for all
// communicators. A Version never changes; whoever uses it keeps it. Watch runs goroutines while
// there is a file to watch, and its stop ends them.
//
// The package knows no communicator and no other rank. A version travels between ranks as a
// Bundle of the files' texts.
package policyfile
