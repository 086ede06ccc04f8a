//go:build cgo

package main

import "testing"

// A rank that has made a call of its own counts otherwise than the others: the change is
// aborted, and nobody decides by it. The other communicator changes. When the other ranks
// have made such a call, too, all count alike again, and the change comes. NCCL 2.31's
// ncclGroupSimulateEnd on one rank makes such a call.
func TestLiveMisaligned(t *testing.T) {
	t.Parallel()
	for _, asks := range []string{"asks231=0", "asks231=1"} {
		t.Run(asks, func(t *testing.T) {
			t.Parallel()
			misalign(t, asks)
		})
	}
}

func misalign(t *testing.T, asks string) {
	file, env := policyFile(t, 1)
	j := startJob(t, built, 3, args("ranks=3 comms=2 rate=500 %s", asks), env)
	j.tell("go")
	waitCalls(0, 500, j.ranks...)
	j.ranks[1].tell("alone 0")
	write(t, file, policyText(2))
	for _, r := range j.ranks {
		r.hears("aborted, misaligned", "once all have made the same")
	}
	j.decided(1, 2)
	for _, r := range j.ranks {
		if v := r.latest(0); v != 1 {
			t.Errorf("rank %d decides by version %d", r.id, v)
		}
	}
	j.ranks[0].tell("alone 0")
	j.ranks[2].tell("alone 0")
	j.decided(0, 2)
	j.tell("stop")
	for context := range 2 {
		j.checkVersions(j.compare(context), []int{1, 2}, outcome.byPolicy, allGather, reduceScatter)
	}
	j.end()
}
