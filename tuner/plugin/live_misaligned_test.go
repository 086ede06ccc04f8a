//go:build cgo

package main

import "testing"

// A rank that has made a call of its own counts otherwise than the others: the change is
// refused for good, and nobody decides by it. The other communicator changes.
func TestLiveMisaligned(t *testing.T) {
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built.programs, 3, args("ranks=3 comms=2 rate=500"), env)
	j.tell("go")
	waitCalls(0, 500, j.ranks...)
	j.ranks[1].tell("alone 0")
	write(t, file, policyText(2))
	for _, r := range j.ranks {
		r.hears("misaligned", "keeps version")
	}
	j.decided(1, 2)
	j.tell("stop")
	j.checkVersions(j.compare(0), []int{1}, outcome.byPolicy, allGather, reduceScatter)
	j.checkVersions(j.compare(1), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	j.end()
}
