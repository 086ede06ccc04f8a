//go:build cgo

package main

import "testing"

// NCCL 2.31 asks several times about one collective, and on some ranks once more with
// nothing available. Those are not counted: the ranks stay aligned, and edits come.
func TestLiveAsksOf231(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 3, args("ranks=3 comms=2 rate=500 asks231=1"), env)
	j.tell("go")
	for version := 2; version <= 4; version++ {
		write(t, file, policyText(version))
		j.decided(0, version)
		j.decided(1, version)
	}
	j.tell("stop")
	for comm := range 2 {
		j.checkVersions(j.compare(comm), []int{1, 2, 3, 4}, outcome.byPolicy, allGather, reduceScatter)
	}
	j.end()
}
