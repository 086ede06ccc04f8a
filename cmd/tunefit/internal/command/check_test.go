package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

const faulty = `# faulty on purpose
collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks_per_node,chunk_bytes
AllReduce,0,64K,tree,ll,96,2,8,
allreduce,65537,4294967295,ring,simple,,2,8,500
allreduce,1M,2M,nvls,simple,8,4,8,
allreduce,0,65536,Tree,LL,64,2,8,-1
allgather,0,1M,tree,,,2,8,
`

// The report is the same on every run, and a reader finds each finding's place.
func TestCheck(t *testing.T) {
	file := testlib.File(t, "p.csv", faulty)
	got, _ := tunefit(t, cli.ExitFailed, "check", file)
	want := strings.ReplaceAll(`
FILE:3:6: warning: channels 96 is read as 64, the most that NCCL has [channels-above-64]
FILE:4:3: warning: max_bytes 4294967295 is where the row ends; was inf meant? [4gib-bound]
FILE:4:9: warning: chunk_bytes 500 is raised to simple's grain of 512 bytes [chunk-below-grain]
FILE:5:6: warning: channels 8 has no effect with nvls/simple over 4 nodes, 32 ranks: NCCL does not check the number there, so it is left alone [channels-left-alone]
FILE:6: warning: the row is never reached: line 3 matches all that it matches, and comes first [shadowed]
FILE:7:4: warning: tree is never available in NCCL for allgather (it has ring, collnet_direct/simple, nvls/simple, pat/simple) [never-offered]
0 errors, 6 warnings, 0 notes
`[1:], "FILE", file)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	out, _ := tunefit(t, cli.ExitFailed, "check", file, "--json")
	var findings []struct {
		Rule, Severity, File, Text string
		Line, Column               int
	}
	if err := json.Unmarshal([]byte(out), &findings); err != nil || len(findings) != 6 {
		t.Fatalf("%v: %s", err, out)
	}
	if f := findings[0]; f.Rule != "channels-above-64" || f.Severity != "warning" || f.File != file || f.Line != 3 ||
		f.Column != 6 {
		t.Errorf("%+v", f)
	}
	clean := testlib.File(t, "clean.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	if out, _ := tunefit(t, cli.ExitOK, "check", clean); out != "no problems found\n" {
		t.Errorf("%q", out)
	}
	if out, _ := tunefit(t, cli.ExitOK, "check", clean, "--json"); out != "[]\n" {
		t.Errorf("%q", out)
	}
}

// --invariant names the rows that NCCL_TUNER_DETERMINISTIC=1 refuses, and fails only on these.
func TestCheckInvariant(t *testing.T) {
	file := testlib.File(t, "p.csv", "allreduce,0,65536,tree,ll,1,-1,-1\nbroadcast,0,65536,tree,ll,-1,-1,-1\n")
	out, _ := tunefit(t, cli.ExitFailed, "check", file, "--invariant")
	if !strings.Contains(out, "p.csv:1:3: error: the row is for 0 - 64KiB only") || !strings.Contains(out, "1 error, ") {
		t.Error(out)
	}
	one := testlib.File(t, "one.csv", "allreduce,0,inf,ring,simple,8,-1,-1\n")
	out, _ = tunefit(t, cli.ExitOK, "check", one, "--invariant")
	if !strings.Contains(out, "one.csv:1:4: note: ring/simple 8 ch: ") || !strings.Contains(out, "0 warnings, 1 note") {
		t.Error(out)
	}
	policy := filepath.Join(testlib.Root, "configs/policies/invariant.csv")
	if out, _ = tunefit(t, cli.ExitOK, "check", policy, "--invariant"); out != "no problems found\n" {
		t.Error(out)
	}
	tunefit(t, cli.ExitUsage, "check", "--invariant")
	if _, said := tunefit(t, cli.ExitUsage, "check", "--invariant", "--rules"); !strings.Contains(said,
		"--rules takes no --invariant") {
		t.Error(said)
	}
	_, said := tunefit(t, cli.ExitUsage, "check", one, "m.json", "--invariant")
	if !strings.Contains(said, "takes no model") {
		t.Error(said)
	}
}

// The same finding again and again is counted, unless each is asked for.
func TestCheckCounts(t *testing.T) {
	file := testlib.File(t, "p.csv", strings.Repeat("alltoall,0,inf,ring,simple,-1,-1,-1\n", 100)+
		"allreduce,0,inf,ring,simple,-1,-1,-1\n")
	out, _ := tunefit(t, cli.ExitOK, "check", file)
	if strings.Count(out, "\n") != 5 ||
		!strings.Contains(out, "and 97 more, lines 4 to 100 [never-asked]\n0 errors, 0 warnings, 100 notes\n") {
		t.Errorf("%s", out)
	}
	if out, _ := tunefit(t, cli.ExitOK, "check", file, "--all"); strings.Count(out, "\n") != 101 {
		t.Errorf("%s", out)
	}
}

// With a machine, what it cannot do is found; with a model, what that says of rows.
func TestCheckAgainstMachineAndModel(t *testing.T) {
	file := testlib.File(t, "p.csv",
		"allreduce,0,inf,ring,simple,60,2,16\nallreduce,0,inf,collnet_chain,simple,-1,4,32\n")
	out, _ := tunefit(t, cli.ExitFailed, "check", file, "--topo",
		filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"))
	for _, says := range []string{"p.csv:1:6: warning: channels 60, but with 2 nodes, 16 ranks NCCL has",
		"p.csv:2:4: warning: collnet_chain/simple is not available on this machine"} {
		if !strings.Contains(out, says) {
			t.Errorf("no %q in\n%s", says, out)
		}
	}
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", filepath.Join(testlib.Root, "configs/sweeps/simulated-hgx-h100-2n.csv"), "-o", model)
	slow := testlib.File(t, "slow.csv", "allreduce,1M,1G,ring,ll,8,2,16\n")
	out, _ = tunefit(t, cli.ExitFailed, "check", slow, model)
	for _, says := range []string{"slow.csv:1: warning: allreduce with 2 nodes, 16 ranks: at ", "[model-disagrees]",
		"[model-simulated]"} {
		if !strings.Contains(out, says) {
			t.Errorf("no %q in\n%s", says, out)
		}
	}
	broken := testlib.File(t, "broken.json", "{}")
	if out, _ := tunefit(t, cli.ExitFailed, "check", slow, broken); !strings.Contains(out, "[model-invalid]") {
		t.Errorf("%s", out)
	}
}

func TestCheckRulesAndExplanations(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "check", "--rules")
	if !strings.Contains(out, "\nshadowed ") {
		t.Errorf("%s", out)
	}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		name := strings.Fields(line)[0]
		if out, _ := tunefit(t, cli.ExitOK, "check", "--explain", name); !strings.HasPrefix(out, name+" (") {
			t.Errorf("%s", out)
		}
	}
}

func TestBadCheckCommandLines(t *testing.T) {
	file := testlib.File(t, "p.csv", faulty)
	bad := testlib.File(t, "bad.csv", "allreduce,0,inf,rign,simple,-1,-1,-1\n")
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{cli.ExitUsage, nil, "0 arguments given (needed: the policy file, and a model file if there is one)"},
		{cli.ExitFailed, []string{file + ".absent"}, "no such file or directory"},
		{cli.ExitFailed, []string{"/dev/null"}, "/dev/null: not a regular file"},
		{cli.ExitFailed, []string{file, file + ".absent"}, "no such file or directory"},
		{cli.ExitFailed, []string{file, "--topo", file}, "p.csv"},
		{cli.ExitUsage, []string{file, "--explain", "gap"}, "--rules and --explain take no file"},
		{cli.ExitUsage, []string{"--explain", "shadwed"}, `no rule is called "shadwed" (did you mean "shadowed"`},
	} {
		printed, said := tunefit(t, c.code, append([]string{"check"}, c.args...)...)
		if printed != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q printed %q and said %q, want %q", c.args, printed, said, c.says)
		}
	}
	if printed, _ := tunefit(t, cli.ExitFailed, "check", bad); !strings.Contains(printed,
		"bad.csv:1:4: error: unknown algorithm") {
		t.Errorf("%s", printed)
	}
}
