package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

// The sweeps that come with the project are what their README says.
func TestShippedSweeps(t *testing.T) {
	sweeps := filepath.Join(testlib.Root, "configs/sweeps")
	text, err := os.ReadFile(filepath.Join(sweeps, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for line := range strings.Lines(string(text)) {
		args := strings.Fields(line)
		if len(args) < 2 || args[0] != "tunefit" || args[1] != "simulate" {
			continue
		}
		made++
		shipped := args[len(args)-1]
		file := filepath.Join(t.TempDir(), shipped)
		args[len(args)-1] = file
		out, said := tunefit(t, cli.ExitOK, args[1:]...)
		if out != "" || !strings.HasSuffix(said, " rows, all simulated\n") {
			t.Errorf("it printed %q and said %q", out, said)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(sweeps, shipped))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its command makes", shipped)
		}
		r, err := bench.ReadFile(file, bench.Options{})
		if err != nil || r.NumRejected() != 0 {
			t.Fatalf("%v, rejected %v", err, r.Rejected)
		}
		defaults := 0
		for _, m := range r.Samples {
			if !m.Simulated {
				t.Fatalf("not marked: %+v", m)
			}
			if m.Selection == bench.SelectionDefault {
				defaults++
			}
		}
		if defaults != 2*3*21 {
			t.Errorf("%s has %d rows of the default", shipped, defaults)
		}
	}
	if made != 2 {
		t.Errorf("%d commands in the README", made)
	}
}

// tuningFile is NCCL 2.30.7's estimates of an HGX H100 as a user gets it for --tuning.
func tuningFile(t *testing.T) string {
	t.Helper()
	text, _ := tunefit(t, cli.ExitOK, "topo", "tuning", "../../configs/topo/dgx-h100.xml", "--nccl", "2.30.7",
		"--nodes", "1,2", "--json")
	return testlib.File(t, "hgx-h100.json", text)
}

func TestSimulate(t *testing.T) {
	args := []string{"simulate", "--nodes", "2,1,2", "--coll", "allreduce,allreduce", "--sizes", "64K,1M",
		"--channels", "24,8,32", "--reps", "1"}
	out, said := tunefit(t, cli.ExitOK, args...)
	// 1x8: {ring, tree} x 3 x {8, 24}, nvls 8; 2x8: {ring, tree} x 3 x {8}, nvls_tree 16.
	if rows := strings.Count(out, "\n") - 1; rows != 2*(13+1)+2*(7+1) ||
		strings.Count(out, ",simulated:hgx-h100/seed1\n") != rows {
		t.Errorf("%d rows:\n%s", rows, out)
	}
	if said != "44 rows, all simulated\n" {
		t.Errorf("%s", said)
	}
	if again, _ := tunefit(t, cli.ExitOK, args...); again != out {
		t.Error("the second time it is different")
	}
	if other, _ := tunefit(t, cli.ExitOK, append(args, "--seed", "2")...); other == out {
		t.Error("another seed makes no difference")
	}
	if same, _ := tunefit(t, cli.ExitOK, append(args, "--tuning", tuningFile(t))...); same != out {
		t.Error("the default is not what topo tuning prints of the machine that it is said to be")
	}
}

// A file that is there is not touched, and nothing is left beside it.
func TestSimulateOutput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sweep.csv")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "--coll", "allreduce", "--sizes", "1M", "-o", file}
	if _, said := tunefit(t, cli.ExitFailed, args...); !strings.Contains(said,
		"is there already (--force overwrites it)") {
		t.Errorf("%q", said)
	}
	if text, _ := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("overwritten: %q", text)
	}
	tunefit(t, cli.ExitOK, append(args, "--force")...)
	if r, err := bench.ReadFile(file, bench.Options{}); err != nil || len(r.Samples) == 0 {
		t.Errorf("%v", err)
	}
	tunefit(t, cli.ExitFailed, "simulate", "--sizes", "1M", "-o", filepath.Join(dir, "absent", "x.csv"))
	tunefit(t, cli.ExitFailed, "simulate", "--sizes", "1M", "--force", "-o", dir)
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestBadSimulate(t *testing.T) {
	notTuning := testlib.File(t, "p.csv", sample)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"sweep.csv", cli.ExitUsage, `unexpected argument "sweep.csv"`},
		{"--nodes 3 --ranks-per-node 4", cli.ExitFailed, "there are no estimates of NCCL for 3x4 "},
		{"--nodes 0", cli.ExitUsage, "--nodes 0 (allowed: 1 or more"},
		{"--nodes two", cli.ExitUsage, "--nodes=two: wrong value (allowed: whole numbers, as 8,16)"},
		{"--ranks-per-node 1", cli.ExitUsage, "--nodes 1 (allowed: 1 or more, and 2 ranks or more in all)"},
		{"--ranks-per-node 0", cli.ExitUsage, "--ranks-per-node 0"},
		{"--ranks-per-node 4", cli.ExitFailed, "there are no estimates of NCCL for 1x4"},
		{"--coll allredcue", cli.ExitUsage, `did you mean "allreduce"`},
		{"--sizes 1MB", cli.ExitUsage, `"1MB" is ambiguous`},
		{"--sizes 0", cli.ExitUsage, "--sizes 0: not all from 1 to 1TiB"},
		{"--sizes 2T", cli.ExitUsage, "--sizes 2T: not all from 1 to 1TiB"},
		{"--channels 65", cli.ExitUsage, "--channels 65 (allowed: 1 to 64)"},
		{"--channels -1", cli.ExitUsage, "--channels -1 (allowed: 1 to 64)"},
		{"--reps 0", cli.ExitUsage, "--reps 0 (allowed: 1 to 100)"},
		{"--noise 2", cli.ExitUsage, "--noise 2 (allowed: 0 to 0.2)"},
		{"--noise NaN", cli.ExitUsage, "--noise NaN (allowed: 0 to 0.2)"},
		{"--seed -1", cli.ExitUsage, "--seed=-1: wrong value (allowed: a whole number, 0 or more)"},
		{"--tuning " + notTuning, cli.ExitFailed, "p.csv"},
		{"--tuning " + notTuning + ".absent", cli.ExitFailed, "no such file"},
	} {
		out, said := tunefit(t, c.code, append([]string{"simulate"}, strings.Fields(c.args)...)...)
		if out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: printed %q and said %q, want %q", c.args, out, said, c.says)
		}
	}
}
