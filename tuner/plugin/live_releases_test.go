//go:build cgo

package main

import (
	"fmt"
	"testing"
)

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

// NCCL 2.27 tells tuners no communicator, but profilers: where both halves of the library are loaded,
// an edit reaches its ranks.
func TestLiveNCCL227(t *testing.T) {
	long(t)
	t.Parallel()
	file, env := policyFile(t, 1)
	j := startJob(t, built, 3, args("ranks=3 comms=2 abi=4 profiled=1"), env)
	j.tell("go")
	waitCalls(0, 100, j.ranks...)
	write(t, file, policyText(2))
	for context := range 2 {
		j.decided(context, 2)
	}
	j.tell("stop")
	for context := range 2 {
		j.checkVersions(j.compare(context), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	}
	for i, r := range j.ranks { // the slot that is this rank's own
		r.hears(j.about(0), fmt.Sprintf("rank joined as rank index %d of 3", i))
	}
	j.end()
}
