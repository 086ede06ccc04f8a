// Package tuner is the life of communicators in an NCCL process: their init, their decisions,
// the edits of their policy, and their end.
//
// A Plugin is what the process's communicators share; there is one for the life of a process.
// Its Open reads the settings when NCCL creates a communicator, joins the ranks' agreement and
// returns a Comm. A Comm lives until Close, which NCCL's destruction of the communicator calls.
// It owns its part in the agreement, its metrics and the comparison that it may run.
//
// The version in force has one owner. Where the ranks agree on versions, the owner is the Comm's
// agree.Member. Elsewhere the Comm has one version for good. The snapshot in force, its counts and the
// decisions in C's cache all follow from that version.
//
// Three packages do parts of the work: tuner/policyfile makes versions from files, tuner/trial compares
// versions, and tuner/telemetry reports. This package knows nothing of C. The ABI around it is package main
// in tuner/plugin.
//
// docs/ARCHITECTURE.md follows a decision and an edit through it, docs/LIVE.md describes
// edits for users, docs/NCCL.md what NCCL does with a tuner.
package tuner
