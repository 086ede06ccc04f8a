package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// An AllGather's channels are left to NCCL 2.30.7, and show, explain and check say so of
// the rows that ask for them, and of no others.
func TestUncheckedAllGather(t *testing.T) {
	needPlugin(t)
	const said = "unchecked for a group of broadcasts"
	policy := policyFile(t, "p.csv", "allreduce,0,inf,ring,simple,12,-1,-1\nallgather,0,inf,ring,simple,12,-1,-1\n")
	out, notes := tunefit(t, exitOK, "show", policy, "--coll", "allgather", "--comm", "1x8", "--sizes", "1M", "--plugin", library)
	if !strings.Contains(notes, policy+":2: the channel count is left to NCCL for allgather") || !strings.Contains(notes, said) || strings.Contains(out, " 12 ") {
		t.Errorf("show:\n%s%s", out, notes)
	}
	out, notes = tunefit(t, exitOK, "show", policy, "--coll", "allreduce", "--comm", "1x8", "--sizes", "1M", "--plugin", library)
	if strings.Contains(notes, said) || !strings.Contains(out, " 12 ") {
		t.Errorf("show of allreduce:\n%s%s", out, notes)
	}
	for coll, left := range map[string]bool{"allgather": true, "allreduce": false} {
		out, _ = tunefit(t, exitOK, "explain", coll, "1M", "--comm", "1x8", "--policy", policy, "--plugin", library)
		if strings.Contains(out, "its channel count is left to NCCL") != left || strings.Contains(out, "ring/simple, 12 ch ") == left {
			t.Errorf("explain %s:\n%s", coll, out)
		}
	}
	out, _ = tunefit(t, exitOK, "check", policy)
	if strings.Count(out, "[channels-unchecked]") != 1 || !strings.Contains(out, filepath.Base(policy)+":2:6: note:") {
		t.Errorf("check:\n%s", out)
	}
}
