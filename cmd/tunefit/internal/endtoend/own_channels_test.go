package endtoend

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// What NCCL's log tells of the channels that it chose by itself changes nothing in the
// policy: the same runs give the same rows with NCCL_DEBUG=INFO and without, from their
// logs and from the sweep that import makes of them.
func TestOwnChannelsOfLogs(t *testing.T) {
	type family struct {
		algo, proto           string
		latency, usPerMiB     float64
		smallChannels, factor int // NCCL's own: so many at 4 KiB, and so many more for each quadrupling
	}
	treeLL, ringLL, ringSimple := family{"Tree", "LL", 9, 40, 1, 2}, family{"Ring", "LL", 12, 24, 2, 2}, family{"Ring",
		"Simple", 40, 6, 1, 3}
	run := func(bytes uint64, choice family, info bool) string {
		micros := choice.latency + choice.usPerMiB*float64(bytes)/(1<<20)
		channels := min(32, choice.smallChannels+choice.factor*int(math.Log2(float64(bytes)/4096))/2)
		line := fmt.Sprintf("%12d %13d     float     sum      -1", bytes, bytes/4)
		if info {
			line += fmt.Sprintf("host0:500:500 [0] NCCL INFO AllReduce: %d Bytes -> Algo %s proto %s "+
				"channel{Lo..Hi}={0..%d}\n", bytes, strings.ToUpper(choice.algo),
				strings.ToUpper(choice.proto), channels-1)
		}
		gbps := float64(bytes) / micros / 1000
		return line + fmt.Sprintf(" %8.2f %7.2f %7.2f       0 %8.2f %7.2f %7.2f       0\n", micros, gbps, gbps*14/8,
			micros, gbps, gbps*14/8)
	}
	log := func(name string, f family, choose func(bytes uint64) family, info bool) string {
		var b strings.Builder
		b.WriteString("# nccl-tests version 2.18.3 nccl-headers=22902 nccl-library=22902\n# Collective test " +
			"starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes 4096 maxBytes 67108864 step: 2(factor) warmup " +
			"iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n")
		for rank := range 8 {
			fmt.Fprintf(&b, "#  Rank %2d Group  0 Pid    500 on      host0 device %2d [0000:1%d:00] Example GPU\n",
				rank, rank, rank)
		}
		if name != "default" {
			fmt.Fprintf(&b,
				"host0:500:500 [0] NCCL INFO NCCL_ALGO set by environment to %s\nhost0:500:500 [0] NCCL INFO "+
					"NCCL_PROTO set by environment to %s\n", f.algo, f.proto)
		}
		b.WriteString("#\n#                                                              out-of-place                " +
			"       in-place\n#       size         count      type   redop    root     time   algbw   busbw  #wrong  " +
			"   time   algbw   busbw  #wrong\n#        (B)    (elements)                               (us)  (GB/s)  " +
			"(GB/s)             (us)  (GB/s)  (GB/s)\n")
		for bytes := uint64(4096); bytes <= 64<<20; bytes *= 2 {
			b.WriteString(run(bytes, choose(bytes), info))
		}
		b.WriteString("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.25\n#\n")
		return b.String()
	}
	rows := map[string]string{}
	for _, info := range []bool{false, true} {
		dir := t.TempDir()
		logs := filepath.Join(dir, "logs")
		if err := os.Mkdir(logs, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]family{"default": {}, "a": treeLL, "b": ringLL, "c": ringSimple} {
			choose := func(uint64) family { return f }
			if name == "default" { // never the best
				choose = func(bytes uint64) family {
					if bytes <= 256<<10 {
						return ringSimple
					}
					return treeLL
				}
			}
			if err := os.WriteFile(filepath.Join(logs, name+".txt"), []byte(log(name, f, choose, info)),
				0o644); err != nil {
				t.Fatal(err)
			}
		}
		sweep := filepath.Join(dir, "sweep.csv")
		tunefit(t, cli.ExitOK, "import", logs, "-o", sweep)
		var all []string
		for _, name := range []string{"default", "a", "b", "c"} {
			all = append(all, filepath.Join(logs, name+".txt"))
		}
		for from, sources := range map[string][]string{"logs": all, "sweep": {sweep}} {
			policy := filepath.Join(dir, from+".rows.csv")
			tunefit(t, cli.ExitOK, append([]string{"fit", "--csv", policy}, sources...)...)
			text, err := os.ReadFile(policy)
			if err != nil {
				t.Fatal(err)
			}
			rows[fmt.Sprintf("%s, told %t", from, info)] = string(text)
		}
	}
	want := rows["logs, told false"]
	if !strings.Contains(want, "ring,ll,-1,") || !strings.Contains(want, "tree,ll,-1,") {
		t.Errorf("the rows are not as expected:\n%s", want)
	}
	for name, got := range rows {
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}
