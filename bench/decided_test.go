package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// plannedLog is what a run of tunefit sweep prints: NCCL's log, with what our tuner decided, and one row.
const plannedLog = `host:1:1 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to libnccl-tuner-go.so
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
TUNER
     1048576        262144     float     sum      -1    61.90   16.94   29.65      0    61.80   16.96   29.68      0
# Out of bounds values : 0 OK
`

// planned reads such a log of a run that was for what is asked for.
func planned(t *testing.T, asked, tuner string) *Result {
	t.Helper()
	r, err := Read(strings.NewReader("# tunefit sweep x: allreduce 2x8, "+asked+"\n"+
		strings.Replace(plannedLog, "TUNER\n", tuner, 1)), "x.log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What our tuner says that it decided is what ran, whatever it was asked for.
func TestTunerDecisions(t *testing.T) {
	const begun = "host:1:1 [0] NCCL INFO TUNER/Go: start library=1.0 ranks=16 nodes=2 policy=x.csv rows=1\n"
	decided := func(what string) string {
		return begun + "host:1:1 [0] NCCL INFO TUNER/Go: decision coll=allreduce size=1MiB " + what + " pipe_ops=1\n"
	}
	ran := func(what string) string {
		return strings.Repeat("host:1:1 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo "+what+"\n", 25)
	}
	for name, test := range map[string]struct {
		asked, tuner string
		config       nccl.Config
		rejected     string
		failed       bool
	}{
		"as asked": {"measure ring/ll/8",
			decided("choice=ring/ll channels=8 default=tree/ll by=x.csv:1"),
			nccl.Config{Cell: nccl.Cell{Algo: 1, Proto: 0}, Channels: 8}, "", false},
		"several": {"verify",
			decided("choice=tree/simple channels=16 by=x.csv:3"), nccl.Config{Cell: nccl.Cell{Algo: 0, Proto: 2},
				Channels: 16}, "", false},
		"not available": {"measure ring/ll/8", decided("choice=tree/ll by=NCCL"),
			noLabel, rejectNotOffered, true},
		"fewer ran": {"verify", decided("choice=ring/ll channels=8 by=x.csv:1") +
			ran("RING proto LL channel{Lo..Hi}={0..1}"), nccl.Config{Cell: nccl.Cell{Algo: 1, Proto: 0}, Channels: 8},
			"", false},
		"another ran": {"verify", decided("choice=ring/ll channels=8 by=x.csv:1") +
			ran("TREE proto LL channel{Lo..Hi}={0..1}"), nccl.Config{Cell: nccl.Cell{Algo: 0, Proto: 0}, Channels: 2},
			"", true},
		"not loaded":      {"measure ring/ll/8", "", noLabel, rejectNotLoaded, false},
		"nothing decided": {"measure ring/ll/8", begun, noLabel, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := planned(t, test.asked, test.tuner)
			if test.rejected != "" {
				if len(r.Samples) > 0 || len(r.Rejected) != 1 || r.Rejected[0].Reason != test.rejected {
					t.Errorf("kept %+v, rejected %+v", r.Samples, r.Rejected)
				}
			} else if len(r.Samples) != 2 {
				t.Fatalf("%+v", r)
			} else if s := r.Samples[0]; (s.Config) != test.config || s.Selection != SelectionForced ||
				s.Verify != strings.Contains(test.asked, "verify") {
				t.Errorf("read as %+v", s)
			}
			if (len(r.Failed) > 0) != test.failed {
				t.Errorf("failed %+v", r.Failed)
			}
		})
	}
}

// Runs of simulated nccl-tests are known as such.
func TestSimulatedRuns(t *testing.T) {
	for gpu, simulated := range map[string]bool{FakePerf: true, "NVIDIA H100": false} {
		log := strings.Replace(oneRun(), "Some GPU", gpu, -1)
		r, err := Read(strings.NewReader(log), "x.log", Options{})
		if err != nil || len(r.Samples) == 0 || r.Samples[0].Simulated != simulated {
			t.Errorf("%s: %v, %+v", gpu, err, r)
		}
	}
}

// A sweep keeps what failed and what verifies.
func TestSweepKeepsFailuresAndVerification(t *testing.T) {
	failed, err := Read(strings.NewReader(Mark("x", nccl.CollAllReduce, nccl.Comm{Nodes: 1, Ranks: 8},
		"measure", []nccl.Config{{Cell: nccl.Cell{Algo: nccl.AlgoNVLS, Proto: nccl.ProtoSimple}, Channels: 16}}, "")+
		"\nNCCL WARN no such algorithm\nall_reduce.cu:1: Test NCCL failure\n"), "x.log", Options{})
	if err != nil || len(failed.Failed) != 1 || failed.Failed[0].Ranks != 8 || failed.Failed[0].Channels != 16 {
		t.Fatalf("%v %+v", err, failed)
	}
	_, untuned, _ := strings.Cut(strings.Replace(plannedLog, "TUNER\n", "", 1), "\n")
	verified, err := Read(strings.NewReader("# tunefit sweep x: allreduce 1x8, verify\n"+untuned), "x.log", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteTidy(&out, verified.Samples, failed.Failed); err != nil {
		t.Fatal(err)
	}
	back, err := Read(&out, "sweep.csv", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(back.Failed) != 1 || back.Failed[0].Algo != failed.Failed[0].Algo || back.Failed[0].Channels != 16 ||
		len(back.Rejected) > 0 {
		t.Errorf("%+v", back)
	}
	if len(back.Samples) != len(verified.Samples) || !back.Samples[0].Verify ||
		back.Samples[0].Selection != SelectionDefault {
		t.Errorf("%+v, want %+v", back.Samples, verified.Samples)
	}
}
