package sweep_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// The first run has NCCL write the machine that it found, and model, report and show take it from there. Where nodes
// differ, both are named and nothing is said of a machine. Nor is it where runs use a part of a node.
func TestSweepKnowsTheMachine(t *testing.T) {
	const other = "../../../../configs/topo/dgx-a100.xml"
	unlike, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	file := testlib.File(t, "other.xml", string(unlike))
	script := fmt.Sprintf("#!/bin/sh\n%s/all_reduce_perf \"$@\"\ncode=$?\ncase $NCCL_TOPO_DUMP_FILE in\n*/$OTHER.xml) "+
		"cp %s \"$NCCL_TOPO_DUMP_FILE\" ;;\nesac\nexit $code\n", testlib.FakePerf(t), file)
	perf := t.TempDir()
	if err := os.WriteFile(filepath.Join(perf, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"--coll", "allreduce", "--sizes", "64K-1M", "--algos", "ring", "--protos", "ll,simple", "--channels",
		"4,32", "--launch", playedRanks}
	for name, test := range map[string]struct {
		comm, other string
		files       string
		says        string // of the nodes
		known       bool
	}{
		"alike":        {"2x8", "nobody", "node1.xml node2.xml", "", true},
		"unlike":       {"2x8", "node2", "node1.xml node2.xml", "NCCL found another topology on node2 than on node1 (", false},
		"a broken one": {"1x8", "node1", "node1.xml", "", true},
		"a part":       {"1x4", "nobody", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.perf, c.env = perf, []string{"FAKEPERF_NOISE=0", "OTHER=" + test.other} // simulated: the grid has no 1x4
			_, errs := c.done(append(args, "--comm", test.comm)...)
			var files []string
			all, _ := filepath.Glob(filepath.Join(c.dir, "topology", "*"))
			for _, f := range all {
				files = append(files, filepath.Base(f))
			}
			if strings.Join(files, " ") != test.files || !strings.Contains(errs, test.says) ||
				test.says == "" && strings.Contains(errs, "topology") {
				t.Errorf("%q, want %q, and to hear %q:\n%s", files, test.files, test.says, errs)
			}
			beside := filepath.Join(c.dir, "topology.xml")
			_, err := os.Stat(beside)
			model, report := c.file("model.json"), c.file("report.html")
			_, said := tunefit(t, cli.ExitOK, "show", "--model", filepath.Join(c.dir, "model.json"))
			for what, is := range map[string]bool{"topology.xml": err == nil, "model.json": strings.Contains(model, `"fingerprint"`),
				"report.html": strings.Contains(report, ">machine<"),
				"show":        strings.Contains(said, "the machine is the measured one, "+beside)} {
				if is != test.known {
					t.Errorf("%s knows the machine: %t", what, is)
				}
			}
			_, said = tunefit(t, cli.ExitOK, "show", "--model", filepath.Join(c.dir, "model.json"), "--topo", other)
			if strings.Contains(said, "the machine is the measured one") {
				t.Errorf("show --topo says\n%s", said)
			}
		})
	}
}
