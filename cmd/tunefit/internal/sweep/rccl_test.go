package sweep_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// A sweep with RCCL measures the default without the library, says what loading it changes, and asks for no more
// channels than RCCL takes itself.
func TestSweepOfRCCL(t *testing.T) {
	c := newCluster(t, "FAKEPERF_NCCL=RCCL 2.27.7")
	args := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "4K-1M", "--algos", "ring,tree", "--protos",
		"ll,simple"}
	_, said := c.done(args...)
	if !strings.Contains(said, "changes RCCL's default at 4KiB (1.07 times as long), 8KiB (") || strings.Contains(said, "FAILED") {
		t.Error(said)
	}
	before := len(c.runs())
	c.done(args...)
	for _, r := range c.runs() { // RCCL's default comes from starts without the library
		if !strings.Contains(r.Command, "NCCL_TUNER_PLUGIN=") && regexp.MustCompile(` -[Ns] ([3-9]|\d\d)`).MatchString(r.Command) {
			t.Errorf("run %d: %s", r.ID, r.Command)
		}
	}
	if after := len(c.runs()); before != after || before > 16 {
		t.Errorf("%d runs in all, then %d", before, after)
	}
	learnt, err := testlib.Measurements(filepath.Join(c.dir, "sweep.csv"))
	if err != nil {
		t.Fatal(err)
	}
	own := map[uint64]int{}
	for _, s := range learnt.Samples {
		if s.Selection == bench.SelectionDefault && s.Setup != nil && s.Setup.Tuner != "" {
			t.Errorf("%+v is learnt from", s)
		}
		if s.Selection == bench.SelectionDefault && s.Channels > 0 {
			own[s.Bytes] = s.Channels
		}
	}
	file := filepath.Join(c.dir, "policy.csv")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.ReadCSV(file, text)
	if err != nil || len(p.Rules) < 3 {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, r := range p.Rules {
		for bytes, most := range own {
			if r.Bytes.Contains(bytes) && (int(r.Channels) > most || r.Channels == 0) {
				t.Errorf("line %d asks for %d channels at %d, where RCCL takes %d\n%s", r.Line, r.Channels, bytes, most, text)
			}
		}
	}
}

// Where RCCL's direct access is ready, no row may change anything: the sweep says so, and what to set.
func TestSweepUnderDirectAccess(t *testing.T) {
	c := newCluster(t, "FAKEPERF_NCCL=RCCL 2.30.4")
	perf := t.TempDir()
	script := "#!/bin/sh\n[ \"$RCCL_DDA_ENABLE\" = 0 ] || " +
		"echo 'a:1:1 [0] NCCL INFO ncclDdaIpcCommInit: scratch 67108864 bytes, IpcGpuBarrier nBlocks=24'\n" +
		"exec " + filepath.Join(c.perf, "all_reduce_perf") + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(perf, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c.perf = perf
	for variable, said := range map[string]bool{"": true, "RCCL_DDA_ENABLE=0": false} {
		c.dir = filepath.Join(t.TempDir(), "sweep")
		c.env = append(c.env, variable)
		_, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8", "--sizes", "4K-8K", "--algos", "ring", "--protos", "ll")
		if strings.Contains(errs, "allreduce 1x8: RCCL's direct access (DDA)") != said ||
			strings.Contains(errs, "RCCL_DDA_ENABLE=0") != said {
			t.Errorf("%q: %s", variable, errs)
		}
		c.env = c.env[:len(c.env)-1]
	}
}
