package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

// withConstants is a model that replaces constants of NCCL's: LL on rings gets so dear
// that NCCL takes trees.
func withConstants(t *testing.T, topology ...string) string {
	t.Helper()
	return withTheseConstants(t, map[string]any{
		"base_latencies":           []any{map[string]any{"algorithm": "ring", "protocol": "ll", "us": 300}},
		"per_ch_max_nvls_tree_bws": []any{map[string]any{"gpu": "blackwell", "nodes": "more", "gbps": 70}},
	}, topology...)
}

func withTheseConstants(t *testing.T, constants map[string]any, topology ...string) string {
	t.Helper()
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, append([]string{"fit", smallSweep, "-o", model}, topology...)...)
	text, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	file["constants"] = constants
	if text, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(model, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return model
}

// What NCCL chooses by itself it chooses with the constants that a model gives it.
func TestConstantsCount(t *testing.T) {
	testlib.NeedPlugin(t)
	testlib.NoJob(t)
	model := withConstants(t)
	show := func(args ...string) (o ask.OutcomeJSON, notes string) {
		t.Helper()
		out, notes := tunefit(t, cli.ExitOK, append([]string{"show", "--coll", "allreduce", "--comm", "1x8", "--sizes", "4K", "--json"}, args...)...)
		var all []ask.OutcomeJSON
		if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
			t.Fatalf("%v\n%s", err, out)
		}
		return all[0], notes
	}
	const h100 = "../../configs/topo/dgx-h100.xml"
	file := tuningFile(t)
	for _, args := range [][]string{{"--model", model}, {"--model", model, "--topo", h100}} {
		o, notes := show(args...)
		if o.NCCL.Algorithm != "ring" || o.NCCL.Protocol != "ll" || o.Policy.Algorithm != "tree" || !o.Constants || strings.Contains(notes, "constant") {
			t.Errorf("%v: %+v\n%s", args, o, notes)
		}
	}
	// A file of latencies does not say what other constants would make of them.
	if o, notes := show("--model", model, "--tuning", file); o.Policy.Algorithm != "ring" || o.Constants || !strings.Contains(notes, "note: the tuner replaces 2 constants of NCCL's; ") {
		t.Errorf("%+v\n%s", o, notes)
	}
	// A row decides all the same.
	rows := testlib.File(t, "p.csv", "allreduce,0,inf,ring,ll,2,1,8\n")
	if o, _ := show(rows, "--model", model); o.Policy.Algorithm != "ring" || o.Row != 1 || o.Constants {
		t.Errorf("%+v", o)
	}

	text, _ := tunefit(t, cli.ExitOK, "show", "--coll", "allreduce", "--comm", "1x8", "--sizes", "4K", "--model", model)
	if !strings.HasSuffix(text, "  NCCL with the constants of model.json\n") {
		t.Errorf("%s", text)
	}
	explained, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", "4K", "--comm", "1x8", "--model", model)
	for _, want := range []string{
		"\n  it replaces 2 constants of NCCL's\n",
		"\nNCCL's own estimates (NCCL 2.30.7's cost model for HGX H100, with the model's constants; without, it chooses ring/ll)\n  tree/ll      15.33 us  NCCL's choice, with 1 channel\n",
		"\n  ring/ll      308.5 us\n",
		"\ndecision: tree/ll instead of ring/ll, by NCCL with the constants of " + model + "\n",
	} {
		if !strings.Contains(explained, want) {
			t.Errorf("%q is missing in\n%s", want, explained)
		}
	}
	explained, _ = tunefit(t, cli.ExitOK, "explain", "allreduce", "4K", "--comm", "1x8", "--model", model, "--tuning", file)
	if !strings.Contains(explained, "\n  it replaces 2 constants of NCCL's; the estimates below are without\n") || !strings.Contains(explained, "\nNCCL's own estimates (NCCL 2.30.7's cost model for "+file+")\n  ring/ll ") {
		t.Errorf("%s", explained)
	}
	tests := testlib.File(t, "m_test.yaml", "model: "+model+"\ntests:\n  - {name: x, collective: allreduce, nodes: 1, ranks: 8, size: 4K, expect: {algorithm: tree, decided_by: nccl}}\n")
	tunefit(t, cli.ExitOK, "test", tests)
}

// What counts is what the library writes, whatever it is.
func TestConstantsOfThePlugin(t *testing.T) {
	testlib.NeedPlugin(t)
	testlib.NoJob(t)
	other := filepath.Join(t.TempDir(), "libother.so")
	cc := exec.Command("gcc", "-I", testlib.Root, "-shared", "-fPIC", "-x", "c", "-o", other, "-")
	cc.Stdin = strings.NewReader(`#include "tuner/plugin/abi.h"
static int init(void **ctx, uint64_t id, size_t ranks, size_t nodes, abi_logger logger, struct abi_nvl_domain_info *nvl, struct abi_constants_v5 *c) {
	c->base_latencies[ALGO_RING][PROTO_LL] = 300;
	c->per_ch_max_nvls_tree_bws[3][2] = 70;
	*ctx = 0;
	return 0;
}
static int ask(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int algos, int protos, int reg_buff, int *channels) { return 0; }
static int finalize(void *ctx) { return 0; }
const struct abi_tuner_v5 ncclTunerPlugin_v5 = {"Other", init, ask, finalize};
`)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows := testlib.File(t, "p.csv", "allgather,0,inf,ring,ll,2,1,8\n")
	code, out, errs := runAlone("show", rows, "--coll", "allreduce", "--comm", "1x8", "--sizes", "4K", "--plugin", other)
	if code != cli.ExitOK || !strings.HasSuffix(out, "  ring/ll            tree/ll      -         NCCL with the plugin's constants\n") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// They are for the machine that they were measured on.
func TestConstantsOfAnotherMachine(t *testing.T) {
	testlib.NeedPlugin(t)
	testlib.NoJob(t)
	const home, other = "../../configs/topo/dgx-h100.xml", "../../configs/topo/dgx-a100.xml"
	model := withConstants(t, "--topo", home)
	for machine, count := range map[string]bool{home: true, other: false} {
		out, _ := tunefit(t, cli.ExitOK, "show", "--coll", "allreduce", "--comm", "1x8", "--sizes", "4K", "--model", model, "--topo", machine)
		if strings.Contains(out, "with the constants of") != count {
			t.Errorf("on %s:\n%s", machine, out)
		}
	}
}
