package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

const domainRows = `collective,algorithm,protocol,when
allreduce,ring,simple,nvl_domains == 1
allreduce,tree,simple,nvl_domains == 2
allreduce,ring,ll128,nvl_domains == 0
`

// Conditions hear of the NVLink domains that NCCL would tell of: one for each node,
// unless another number is asked for.
func TestNVLDomains(t *testing.T) {
	testlib.NoJob(t)
	file := testlib.File(t, "p.csv", domainRows)
	for _, c := range []struct {
		comm, flag, by string
		told           int
	}{
		{"1x8", "", "p.csv:2", 1},
		{"2x8", "", "p.csv:3", 2},
		{"2x8", "1", "p.csv:2", 1},
		{"2x8", "0", "p.csv:4", 0},
		{"1x8", "2", "p.csv:3", 2},
		{"2x8", "16", "NCCL", 16},
	} {
		args := []string{file, "--coll", "allreduce", "--comm", c.comm, "--sizes", "1M"}
		explain := []string{"explain", "allreduce", "1M", "--policy", file, "--comm", c.comm}
		if c.flag != "" {
			args, explain = append(args, "--nvl-domains", c.flag), append(explain, "--nvl-domains", c.flag)
		}
		shown, _ := tunefit(t, cli.ExitOK, append([]string{"show"}, args...)...)
		if !strings.HasSuffix(shown, "  "+c.by+"\n") {
			t.Errorf("%s, %q domains: want %s\n%s", c.comm, c.flag, c.by, shown)
		}
		explained, _ := tunefit(t, cli.ExitOK, explain...)
		head, _, _ := strings.Cut(explained, "\n")
		if !strings.Contains(explained, c.by) || strings.Contains(head, "nvl_domains "+c.flag) != (c.flag != "") {
			t.Errorf("%s, %q domains: want %s\n%s", c.comm, c.flag, c.by, explained)
		}
		var all []ask.OutcomeJSON
		text, _ := tunefit(t, cli.ExitOK, append([]string{"show", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(text), &all); err != nil || len(all) != 1 || all[0].NVLDomains != c.told {
			t.Errorf("%s, %q domains: %v\n%s", c.comm, c.flag, err, text)
		}
	}
	without := testlib.File(t, "q.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	if out, _ := tunefit(t, cli.ExitOK, "diff", file, without, "--coll", "allreduce", "--comm", "2x8", "--nvl-domains",
		"1"); !strings.HasPrefix(out, "no difference\n") {
		t.Errorf("%s", out)
	}
	tunefit(t, cli.ExitFailed, "diff", file, without, "--coll", "allreduce", "--comm", "2x8")
}

func TestNVLDomainsInPolicyTests(t *testing.T) {
	rows := testlib.File(t, "p.csv", domainRows)
	write := func(tests string) string {
		return testlib.File(t, "p_test.yaml", "policy: "+rows+"\ntests:\n"+tests)
	}
	const call = "collective: allreduce, nodes: 2, ranks: 16, size: 1M"
	file := write("  - {name: as NCCL counts, " + call + ", expect: {row: 3}}\n" +
		"  - {name: one, " + call + ", nvl_domains: 1, expect: {row: 2}}\n" +
		"  - {name: not told, " + call + ", nvl_domains: 0, expect: {row: 4}}\n")
	if out, _ := tunefit(t, cli.ExitOK, "test", file); out != "ok: 3 tests\n" {
		t.Errorf("%s", out)
	}
	file = write("  - {name: x, " + call + ", nvl_domains: 1, expect: {row: 3}}\n")
	if out, _ := tunefit(t, cli.ExitFailed, "test", file); !strings.Contains(out,
		"allreduce 1MiB on 2 nodes, 16 ranks, nvl_domains 1:") {
		t.Errorf("%s", out)
	}
	for value, want := range map[string]string{
		"17": ":3:82: nvl_domains: 17 NVLink domains in a communicator of 16 ranks (allowed: 1 to 16, 0: NCCL does " +
			"not say)",
		"-1":  `:3:82: nvl_domains: "-1" (allowed: 0 to 16777216)`,
		"two": `:3:82: nvl_domains: "two" (allowed: 0 to 16777216)`,
	} {
		file := write("  - {name: x, " + call + ", nvl_domains: " + value + ", expect: {row: 3}}\n")
		if _, errs := tunefit(t, cli.ExitCannot, "test", file); !strings.Contains(errs, file+want) {
			t.Errorf("%s: %swant %s", value, errs, want)
		}
	}
}

func TestBadNVLDomains(t *testing.T) {
	testlib.NoJob(t)
	file := testlib.File(t, "p.csv", domainRows)
	show := []string{"show", file, "--comm", "2x8,1x8", "--nvl-domains"}
	explain := []string{"explain", "allreduce", "1M", "--policy", file, "--comm", "1x8", "--nvl-domains"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(show, "12"),
			"--nvl-domains: 12 NVLink domains in a communicator of 8 ranks (allowed: 1 to 8, 0: NCCL does not say)"},
		{append(explain, "9"),
			"--nvl-domains: 9 NVLink domains in a communicator of 8 ranks (allowed: 1 to 8, 0: NCCL does not say)"},
		{append(show, "many"),
			`invalid argument "many" for "--nvl-domains" flag: allowed: 1 up to the number of ranks, or 0`},
		{append(show, "-2"), "allowed: 1 up to the number of ranks, or 0"},
	} {
		if _, errs := tunefit(t, cli.ExitUsage, c.args...); !strings.Contains(errs, c.want) {
			t.Errorf("%v: %swant %s", c.args, errs, c.want)
		}
	}

	// A release with ABI v4 does not tell, so that a number asked for would say nothing.
	old := []string{"show", file, "--comm", "2x8", "--nccl", "2.27.7"}
	const says = "NCCL 2.27.7 has tuner ABI v4, which does not tell of NVLink domains (needed: v5, NCCL 2.28.3)"
	if _, errs := tunefit(t, cli.ExitFailed, append(old, "--nvl-domains", "2")...); !strings.Contains(errs, says) {
		t.Errorf("%s", errs)
	}
	tunefit(t, cli.ExitOK, old...)
}
