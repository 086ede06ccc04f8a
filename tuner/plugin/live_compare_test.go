//go:build cgo

package main

import (
	"slices"
	"testing"
)

// A job compares its policy with NCCL alone while it runs, and finds that the policy's steps are
// shorter; all ranks have been on the same side at each call.
func TestLiveCompare(t *testing.T) {
	long(t)
	t.Parallel()
	_, env := policyFile(t, 1)
	j := startJob(t, built, 4, args("ranks=4 comms=2 rate=250 haste=4 step=40 slow=500"), append(env, "NCCL_TUNER_COMPARE=nccl"))
	j.tell("go")
	for comm := range 2 {
		j.anyHears(j.about(comm), "against NCCL alone: step time -", ": faster (")
		j.decided(comm, 1)
	}
	j.tell("stop")
	for context := range 2 {
		calls := slices.DeleteFunc(j.compare(context), func(c call) bool { return c.Coll == allReduce })
		sides := 0
		for i := range calls[1:] {
			if calls[i].byPolicy() != calls[i+1].byPolicy() {
				sides++
			}
		}
		if sides < 2 {
			t.Errorf("communicator %d: %d changes of side in %d calls", context, sides, len(calls))
		}
	}
	j.end()
}

// An edit that makes steps slower is taken back, if asked for.
func TestLiveCanary(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 4, args("ranks=4 rate=250 haste=4 step=40 slow=500 slower=%d", channelsOf(2)), append(env, "NCCL_TUNER_CANARY=1"))
	j.tell("go")
	waitCalls(0, 100, j.ranks...)
	write(t, file, policyText(2))
	j.decided(0, 2)
	j.anyHears("slower, so it was taken back")
	j.decided(0, 1)
	write(t, file, policyText(3)) // is tried, too
	j.anyHears("comparing "+file, "with "+file, "by turns")
	j.decided(0, 3)
	j.tell("stop")
	j.compare(0)
	j.end()
}
