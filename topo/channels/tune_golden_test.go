package channels

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func TestTuneAgreesWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range nccltest.Files(t, "tuning.json") {
		var answers struct{ Nodes map[string]goldenNode }
		nccltest.LoadJSON(t, file, &answers)
		var set tuning.Set
		if err := set.UnmarshalJSON(nccltest.Read(t, file)); err != nil {
			t.Fatal(err)
		}
		for name, want := range answers.Nodes {
			hosts, err := strconv.Atoi(name)
			if err != nil {
				t.Fatal(err)
			}
			where := nccltest.System(file) + " " + name
			comms, err := Tune(readGolden(t, file), TuneOptions{}, hosts)
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			c := comms[0]
			for name, g := range map[string][2]Graph{"ring": {c.Graphs.Ring, want.Graphs.Ring},
				"tree": {c.Graphs.Tree, want.Graphs.Tree}, "NVLS": {c.Graphs.NVLS, want.Graphs.NVLS}} {
				if diff := nccltest.Compare(&total, nccltest.AsJSON(t, summary(g[0])),
					nccltest.AsJSON(t, g[1])); diff != "" {
					t.Errorf("%s: %s: %s", where, name, diff)
				}
			}
			f := want.facts()
			nccltest.Same(t, &total, "communicator", where, f.Comm, c.facts.Comm)
			nccltest.Same(t, &total, "capabilities", where, [2]int{f.MinCompCap, f.MaxCompCap},
				[2]int{c.facts.MinCompCap, c.facts.MaxCompCap})
			nccltest.Same(t, &total, "CPU", where, [2]int{f.CPUArch, int(f.CPUVendor)},
				[2]int{c.facts.CPUArch, int(c.facts.CPUVendor)})
			nccltest.Same(t, &total, "network", where, f.MinNetBW, c.facts.MinNetBW)
			nccltest.Same(t, &total, "NVLS", where, f.NVLS, c.Tuning.NVLS)
			c.facts.MaxTreePattern = "" // the answers were made without the exchange of patterns between ranks
			compareTuning(t, &total, where, set.For(f.Comm), deriveTuning(c.Graphs, c.facts))
		}
	}
	t.Logf("tuning: %s values agree with NCCL", total)
}

// compareTuning compares all that NCCL's estimates and choices follow from, and these themselves. Package tuning
// compares what follows from NCCL's own numbers with NCCL's answers.
func compareTuning(t *testing.T, total *nccltest.Score, where string, want, got *tuning.Tuning) {
	t.Helper()
	nccltest.Same(t, total, "channels", where, [2]int{want.NChannels, want.NVLSChannels},
		[2]int{got.NChannels, got.NVLSChannels})
	nccltest.Same(t, total, "threads", where, want.MaxThreads, got.MaxThreads)
	nccltest.Same(t, total, "thread thresholds", where, want.ThreadThresholds, got.ThreadThresholds)
	for coll := range nccl.Coll(nccl.NumColls) {
		at := fmt.Sprintf("%s %s", where, coll)
		for a, p := range nccl.Cells {
			at := fmt.Sprintf("%s %s/%s", at, a, p)
			nccltest.Same(t, total, "latency", at, want.Latencies[coll][a][p], got.Latencies[coll][a][p])
			nccltest.Same(t, total, "bandwidth", at, want.Bandwidths[coll][a][p], got.Bandwidths[coll][a][p])
		}
		for bytes := int64(8); bytes <= 1<<34; bytes *= 2 {
			for _, pipeOps := range []int{1, 4} {
				at := fmt.Sprintf("%s %d B x%d", at, bytes, pipeOps)
				nccltest.Same(t, total, "estimates", at, want.Table(coll, bytes, pipeOps),
					got.Table(coll, bytes, pipeOps))
				nccltest.Same(t, total, "choice", at, want.Choose(coll, bytes, pipeOps),
					got.Choose(coll, bytes, pipeOps))
			}
		}
	}
}

// What tunefit topo tuning prints is what it was printed from.
func TestTuningIsReadBack(t *testing.T) {
	for _, collNet := range []bool{false, true} {
		comms, err := Tune(hgxH100.document(), TuneOptions{Settings: topo.Settings{NCCL: nccl.Reference},
			CollNet: collNet}, 1, 2, 4)
		if err != nil {
			t.Fatal(err)
		}
		printed := &tuning.Set{NCCL: nccl.Reference}
		for _, c := range comms {
			printed.Tunings = append(printed.Tunings, c.Tuning)
		}
		text, err := json.Marshal(printed)
		if err != nil {
			t.Fatal(err)
		}
		var set tuning.Set
		if err := set.UnmarshalJSON(text); err != nil {
			t.Fatal(err)
		}
		var total nccltest.Score
		for _, c := range comms {
			want, got := c.Tuning, set.For(c.Tuning.Comm)
			if got == nil || collNet && c.Hosts == 4 && !got.CollNet {
				t.Fatalf("%d hosts: %+v", c.Hosts, got)
			}
			compareTuning(t, &total, strconv.Itoa(c.Hosts), want, got)
		}
	}
}
