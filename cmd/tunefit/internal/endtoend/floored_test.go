package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// A sweep of nccl-tests under NCCL_MIN_NCHANNELS = NCCL_MAX_NCHANNELS shows what a job can have only with that
// variable: fit, the policy and the model say so. One log of a run that had as many channels by itself, and
// nobody says anything.
func TestChannelsOnlyUnderAFloor(t *testing.T) {
	const info = "host0:500:500 [0] NCCL INFO "
	log := func(micros func(mib float64) float64, channels int, lines ...string) string {
		var b strings.Builder
		b.WriteString("# nccl-tests version 2.18.3 nccl-headers=22902 nccl-library=22902\n# Collective test " +
			"starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 4096 maxBytes 67108864 step: 2(factor) warmup " +
			"iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n")
		for rank := range 8 {
			fmt.Fprintf(&b, "#  Rank %2d Group  0 Pid    500 on      host0 device %2d [0000:1%d:00] Example GPU\n",
				rank, rank, rank)
		}
		for _, l := range lines {
			b.WriteString(info + l + "\n")
		}
		b.WriteString("#\n#                                                              out-of-place                " +
			"       in-place\n#       size         count      type   redop    root     time   algbw   busbw  #wrong  " +
			"   time   algbw   busbw  #wrong\n#        (B)    (elements)                               (us)  (GB/s)  " +
			"(GB/s)             (us)  (GB/s)  (GB/s)\n")
		for bytes := uint64(4096); bytes <= 64<<20; bytes *= 2 {
			us := micros(float64(bytes) / (1 << 20))
			gbps := float64(bytes) / us / 1000
			fmt.Fprintf(&b, "%12d %13d     float     sum      -1", bytes, bytes/4)
			if channels > 0 {
				fmt.Fprintf(&b, "%sAllReduce: %d Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..%d}\n", info,
					bytes, channels-1)
			}
			fmt.Fprintf(&b, " %8.2f %7.2f %7.2f       0 %8.2f %7.2f %7.2f       0\n", us, gbps, gbps*14/8, us,
				gbps, gbps*14/8)
		}
		b.WriteString("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.25\n#\n")
		return b.String()
	}
	line := func(latency, perMiB float64) func(float64) float64 {
		return func(mib float64) float64 { return latency + perMiB*mib }
	}
	forced := func(channels int) []string {
		return []string{"NCCL_ALGO set by environment to Ring", "NCCL_PROTO set by environment to Simple",
			fmt.Sprintf("NCCL_MIN_NCHANNELS set by environment to %d.", channels),
			fmt.Sprintf("NCCL_MAX_NCHANNELS set by environment to %d.", channels)}
	}
	const needs = "needs NCCL_MIN_NCHANNELS=32"
	// channels that the default's log tells; 0: nothing
	for own, want := range map[int]bool{0: true, 16: true, 32: false} {
		logs, dir := t.TempDir(), t.TempDir()
		for name, text := range map[string]string{
			"default": log(line(40, 20), own), "8": log(line(30, 30), 0, forced(8)...),
			"32": log(line(50, 8), 0, forced(32)...),
		} {
			if err := os.WriteFile(filepath.Join(logs, name+".txt"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		sweep, policy, modelFile := filepath.Join(dir, "sweep.csv"), filepath.Join(dir, "p.csv"),
			filepath.Join(dir, "m.json")
		tunefit(t, cli.ExitOK, "import", logs, "-o", sweep)
		out, _ := tunefit(t, cli.ExitOK, "fit", sweep, "--csv", policy, "-o", modelFile)
		if strings.Contains(out, "a job "+needs) != want {
			t.Errorf("the default has %d channels: fit says\n%s", own, out)
		}
		text, err := os.ReadFile(policy)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), ",ring,simple,32,") || strings.Contains(string(text), "# tunefit:"+needs) != want {
			t.Errorf("the default has %d channels: the policy is\n%s", own, text)
		}
		written, err := os.ReadFile(modelFile)
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Read(modelFile, written)
		if err != nil {
			t.Fatal(err)
		}
		floors := nccl.Floors{}
		if want {
			floors.Channels = 32
		}
		if rows, model := nccl.ReadRemarks(text).Floors, m.Floors(); rows != floors || model != floors {
			t.Errorf("the default has %d channels: the rows need %v, the model %v, want %v", own, rows, model, floors)
		}
	}
}
