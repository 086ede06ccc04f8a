package ask_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// An AllGather's channels are left to NCCL 2.30.7, and show, explain and check say so of
// the rows that ask for them, and of no others.
func TestUncheckedAllGather(t *testing.T) {
	const said = "unchecked for a group of broadcasts"
	policy := testlib.File(t, "p.csv", "allreduce,0,inf,ring,simple,12,-1,-1\nallgather,0,inf,ring,simple,12,-1,-1\n")
	out, notes := tunefit(t, cli.ExitOK, "show", policy, "--coll", "allgather", "--comm", "1x8", "--sizes", "1M")
	if !strings.Contains(notes, policy+":2: the channel count is left to NCCL for allgather") ||
		!strings.Contains(notes, said) || strings.Contains(out, " 12 ") {
		t.Errorf("show:\n%s%s", out, notes)
	}
	out, notes = tunefit(t, cli.ExitOK, "show", policy, "--coll", "allreduce", "--comm", "1x8", "--sizes", "1M")
	if strings.Contains(notes, said) || !strings.Contains(out, " 12 ") {
		t.Errorf("show of allreduce:\n%s%s", out, notes)
	}
	for coll, left := range map[string]bool{"allgather": true, "allreduce": false} {
		out, _ = tunefit(t, cli.ExitOK, "explain", coll, "1M", "--comm", "1x8", "--policy", policy)
		if strings.Contains(out, "its channel count is left to NCCL") != left ||
			strings.Contains(out, "ring/simple 12 ch ") == left {
			t.Errorf("explain %s:\n%s", coll, out)
		}
	}
	out, _ = tunefit(t, cli.ExitOK, "check", policy)
	if strings.Count(out, "[channels-unchecked]") != 1 || !strings.Contains(out, filepath.Base(policy)+":2:6: note:") {
		t.Errorf("check:\n%s", out)
	}
}

// tunefit and the library agree in every release on whether an AllGather's channels count,
// also by the constant that tells releases apart where a model replaces it by its own value.
func TestUncheckedAllGatherOfReleases(t *testing.T) {
	rows := testlib.File(t, "p.csv", "allgather,0,inf,ring,simple,2,-1,-1\n")
	for nccl, left := range map[string]bool{
		"2.21.5": false, "2.27.7": false, "2.28.3": false, "2.28.9": false, "2.29.0": false,
		"2.29.2": true, "2.29.7": true, "2.30.3": true, "2.30.7": true, "2.31.2": false, "2.32.6": false,
	} {
		o, notes := showOne(t, rows, "--coll", "allgather", "--comm", "1x8", "--sizes", "64M", "--nccl", nccl)
		if want := map[bool]int{true: 0, false: 2}[left]; o.Policy.Channels != want {
			t.Errorf("NCCL %s: %d channels, want %d", nccl, o.Policy.Channels, want)
		}
		if said := strings.Contains(notes,
			"p.csv:1: the channel count is left to NCCL for allgather, as in 1 row in all: NCCL "+nccl+
				" may"); said != left {
			t.Errorf("NCCL %s: %s", nccl, notes)
		}
		out, _ := tunefit(t, cli.ExitOK, "explain", "allgather", "64M", "--comm", "1x8", "--policy", rows,
			"--nccl", nccl)
		if strings.Contains(out, "its channel count is left to NCCL "+nccl+",") != left {
			t.Errorf("NCCL %s:\n%s", nccl, out)
		}
	}
}
