package policytest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/policytest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

const rows = `collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks_per_node,chunk_bytes,comment
allreduce,0,32K,tree,ll,,,8,,
allreduce,1000000,4M,ring,simple,12,2,8,64K,"large, for ""all"""
allreduce,,,default,,,1,,,
`

// testFiles writes a policy and its tests beside each other, and returns what check takes.
func testFiles(t *testing.T, tests string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"p.csv":       rows,
		"p_test.yaml": "policy: p.csv\ntests:\n" + tests} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"check", filepath.Join(dir, "p.csv"), "--tests", filepath.Join(dir, "p_test.yaml")}
}

const onTwoNodes = "collective: allreduce, nodes: 2, ranks: 16"

// Each field of a test, fulfilled and not.
func TestPolicyTests(t *testing.T) {
	for _, c := range []struct{ test, fails string }{
		{"size: 2M, expect: {algorithm: Ring, protocol: simple, channels: 12, chunk: 64KiB, row: 3, comment: 'for " +
			"\"all\"', decided_by: row}", ""},
		{"size: [1K, 32K], expect: {algorithm: tree, protocol: ll, channels: nccl, chunk: nccl, row: 2}", ""},
		{"size: 1K-32K, expect: {row: 2}", ""},
		{"size: 8M, expect: {decided_by: nccl}", ""},
		{"size: 2M, unavailable: ring, expect: {decided_by: nccl}", ""},
		{"size: 2M, unavailable: [any/simple], expect: {decided_by: nccl}", ""},
		{"size: 8M, costs: {tree/ll: 4, ring/ll128: 3}, expect: {algorithm: ring, protocol: ll128}", ""},
		{"size: 2M, expect: {algorithm: tree}", "algorithm  expected tree  got ring"},
		{"size: 2M, expect: {protocol: ll}", "protocol  expected ll  got simple"},
		{"size: 2M, expect: {channels: nccl}", "channels  expected nccl  got 12"},
		{"size: 2M, expect: {chunk: 1M}", "chunk  expected 1MiB  got 64KiB"},
		{"size: 2M, expect: {row: 2}", "p.csv:2  got "},
		{"size: 2M, expect: {comment: small}", `p.csv:3 (large, for "all")`},
		{"size: 2M, expect: {decided_by: nccl}", `decided_by  expected nccl  got `},
		{"size: 8M, expect: {decided_by: row}", "decided_by  expected row  got NCCL"},
		{"size: 16K-64K, expect: {row: 2}", "allreduce 32769 on 2 nodes, 16 ranks, and 1 more sizes:"},
		{"size: 2M, unavailable: any, expect: {algorithm: ring}", "algorithm  expected ring  got none"},
		// The plugin makes the decision once, and is asked about it twice.
		{"size: 2M, expect: {row: 3}}\n  - {name: again, " + onTwoNodes + ", size: 2M, expect: {row: 3}", ""},
	} {
		args := testFiles(t, "  - {name: a test, "+onTwoNodes+", "+c.test+"}\n")
		if c.fails == "" {
			if out, _ := tunefit(t, cli.ExitOK, args...); !strings.HasPrefix(out, "ok: ") {
				t.Errorf("%s: %s", c.test, out)
			}
			continue
		}
		out, _ := tunefit(t, cli.ExitFailed, args...)
		if !strings.HasPrefix(out, "FAIL "+args[3]+":3: a test\n") || !strings.Contains(out, c.fails) ||
			!strings.HasSuffix(out, "FAIL: 1 of 1 test\n") {
			t.Errorf("%s: %swant %q", c.test, out, c.fails)
		}
	}
}

func TestPolicyTestsOfExample(t *testing.T) {
	file := filepath.Join(testlib.Root, "configs/policies/example_test.yaml")
	policy := filepath.Join(testlib.Root, "configs/policies/example.csv")
	if out, _ := tunefit(t, cli.ExitOK, "check", policy, "--tests", file, "--tests", file); out != "ok: 14 tests\n" {
		t.Errorf("%q", out)
	}
	out, _ := tunefit(t, cli.ExitOK, "check", policy, "--tests", file, "--json")
	var got []policytest.Result
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 7 || !got[0].Passed || got[0].Line == 0 ||
		got[0].File != file {
		t.Errorf("%v: %s", err, out)
	}
	// What is checked is tested, not what the file of tests names.
	other := testlib.File(t, "other.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	if out, _ := tunefit(t, cli.ExitFailed, "check", other, "--tests", file); !strings.Contains(out,
		"got "+other+":1\n") {
		t.Error(out)
	}
}

// A file that is wrong is not run, and each mistake has its place.
func TestBadPolicyTests(t *testing.T) {
	good := "{name: a, " + onTwoNodes + ", size: 1M, expect: {row: 2}}"
	for tests, says := range map[string]string{
		"  - {nam: a}\n":                                `p_test.yaml:3:6: unknown field "nam" (did you mean "name"; allowed: collective, `,
		"  - {name: a, name: b}\n":                      `p_test.yaml:3:15: mapping key "name" already defined at line 3`,
		"  - {name: a, size: 1MB}\n":                    `p_test.yaml:3:21: "1MB" is ambiguous`,
		"  - {name: a, unavailable: [ring, nvsl/ll]}\n": `p_test.yaml:3:35: unknown algorithm "nvsl" (did you mean "nvls"`,
		"  - {name: a, expect: {decided_by: me}}\n":     `p_test.yaml:3:36: decided_by: "me" (allowed: nccl, row, model)`,
		"  - {name: a, expect: {channels: 65}}\n":       `p_test.yaml:3:34: channels: "65" (allowed: nccl, 1 to 64)`,
		"  - " + strings.Replace(good, "size", "costs: {ring: 1}, size", 1) +
			"\n": `p_test.yaml:3:5: costs are of cells (`,
		"  - {name: a, costs: {ring/ll: 0}}\n":            `p_test.yaml:3:32: "0" is no time`,
		"  - {name: a, collective: allreduce, size: 1}\n": "p_test.yaml:3:5: the test names no communicator",
		"  - {name: a, collective: allreduce, size: 1, nodes: 3, ranks: 2, expect: {row: 1}}\n": "p_test.yaml:3:5: " +
			"no communicator that NCCL asks about has 2 ranks on 3 nodes",
		"  - " + good + "\n  - 7\n": "p_test.yaml:4:5: cannot construct !!int `7` into policytest.test",
		"  - " + good +
			"\npolicies: x\n": `p_test.yaml:4:1: unknown field "policies" (did you mean "policy"`,
		"  - " + good + "\ntopology: none.xml\n": "none.xml: no such file",
		"  - " + good + "\n---\n":                "p_test.yaml:1: expected single document, found multiple",
		"  - {name: [}\n":                        "p_test.yaml:3:13: not YAML: did not find expected node content",
		"  []\n":                                 "p_test.yaml: the file has no tests",
	} {
		out, said := tunefit(t, cli.ExitFailed, testFiles(t, tests)...)
		if out != "" || !strings.Contains(said, says) {
			t.Errorf("%q: printed %q and said %q, want %q", tests, out, said, says)
		}
	}
	args := testFiles(t, "  - "+good+"\n")
	for _, c := range []struct {
		code int
		more []string
		says string
	}{
		{cli.ExitUsage, []string{args[1]}, "2 arguments given (needed: the policy or the model)"},
		{cli.ExitUsage, []string{"--measured", args[1]}, "--measured takes no --tests"},
		{cli.ExitUsage, []string{"--topo", args[1]}, "--tests takes no --topo"},
		{cli.ExitFailed, []string{"--tests", args[3] + ".absent"}, "no such file or directory"},
		{cli.ExitFailed, []string{"--tests", args[1]}, "p.csv is a policy (needed: tests of a policy)"},
	} {
		if out, said := tunefit(t, c.code, append(args[:4:4], c.more...)...); out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q printed %q and said %q, want %q", c.more, out, said, c.says)
		}
	}
	if out, said := tunefit(t, cli.ExitFailed, "check", args[3]); out != "" ||
		!strings.Contains(said, "; tunefit check POLICY --tests "+args[3]+" runs them\n") {
		t.Errorf("%s%s", out, said)
	}
}

// Tests may be of a model too.
func TestPolicyTestsOfModel(t *testing.T) {
	dir := t.TempDir()
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", filepath.Join(dir, "model.json"))
	file := filepath.Join(dir, "m_test.yaml")
	const tests = `model: model.json
tests:
  - {name: gain, collective: allreduce, nodes: 2, ranks: 16, size: 4K, expect: {decided_by: model, channels: 4}}
  - {name: unknown size, collective: allreduce, nodes: 2, ranks: 16, size: 1T, expect: {decided_by: nccl}}
`
	if err := os.WriteFile(file, []byte(tests), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{filepath.Join(dir, "model.json"), testlib.File(t, "p.csv", "broadcast,0,1,ring,ll,1,1,2\n")} {
		if out, _ := tunefit(t, cli.ExitOK, "check", of, "--tests", file); out != "ok: 2 tests\n" {
			t.Errorf("%s: %q", of, out)
		}
	}
}
