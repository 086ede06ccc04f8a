package bench

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// askedLog is a run over three sizes, 1 to 4 MiB, as a script of tunefit sweep starts it. LOG is where NCCL and the tuner
// speak.
const askedLog = `# nThread 1 nGpus 8 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
host:1:1 [0] NCCL INFO NCCL_TUNER_PLUGIN set by environment to libnccl-tuner-go.so
host:1:1 [0] NCCL INFO TUNER/Go: 1.0 1 node, 8 ranks: 1 row
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
LOG
     1048576        262144     float    none      -1    61.90   16.94   14.82      0    61.80   16.96   14.84      0
     2097152        524288     float    none      -1    99.90   20.99   18.37      0    99.80   21.01   18.39      0
`

const (
	askedRow = "     4194304       1048576     float    none      -1   150.90   27.80   24.32      0   150.80   " +
		"27.81   24.33      0\n"
	askedEnd = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5\n"
)

// What a run was to measure and did not is known from its log, and from the sweep made of it.
func TestAskedInVain(t *testing.T) {
	decides := func(what string) (log string) {
		for _, size := range []string{"1MiB", "2MiB", "4MiB"} {
			log += "host:1:1 [0] NCCL INFO TUNER/Go: decision coll=allgather size=" + size + " " + what +
				" by=x.csv:1 pipe_ops=1\n"
		}
		return log
	}
	ran := func(what string) (log string) {
		for _, n := range []int{1 << 17, 1 << 18, 1 << 19} {
			log += strings.Repeat(fmt.Sprintf("host:1:1 [0] NCCL INFO AllGather: %d Bytes -> Algo %s\n", n, what), 25)
		}
		return log
	}
	mib := func(n ...uint64) (sizes []uint64) {
		for _, n := range n {
			sizes = append(sizes, n<<20)
		}
		return sizes
	}
	const named, mixed = "allgather-1n-8r-ring-ll-32ch.log", "allgather-1n-8r-mixed-0a1b2c.log"
	for name, test := range map[string]struct {
		file, log, end string
		channels       int // of what ran
		selection      Selection
		vain           []uint64 // of ring/ll with 32 channels
	}{
		"as asked": {named, decides("choice=ring/ll channels=32"), askedRow + askedEnd, 32,
			SelectionForced, nil},
		"left to NCCL": {named, decides("choice=ring/ll"), askedRow + askedEnd, 0, SelectionForced, nil},
		"left to NCCL and told": {named, decides("choice=ring/ll") + ran("RING proto LL channel{Lo..Hi}={0..31}"),
			askedRow + askedEnd, 32, SelectionOwnChannels, nil},
		"left to NCCL in a pass": {mixed, "host:1:1 [0] NCCL INFO TUNER/Go: pass n=1 of=1 policy=x.csv version=1\n" +
			decides("pass=1 asks=ring/ll/32 available=yes choice=ring/ll") + ran("RING proto LL channel{Lo..Hi}={0..31}"),
			askedRow + askedEnd, 32, SelectionOwnChannels, mib(1, 2, 4)},
		"more than there are": {named, "host:1:1 [0] NCCL INFO 8 coll channels, 8 collnet channels, 16 nvls channels, 8 p2p\n" +
			decides("choice=ring/ll channels=32"), askedRow + askedEnd, 8, SelectionForced, mib(1, 2, 4)},
		"another ran": {named, decides("choice=ring/ll channels=32") + ran("RING proto SIMPLE channel{Lo..Hi}={0..31}"),
			askedRow + askedEnd, 32, SelectionForced, mib(1, 2, 4)},
		"fewer ran": {named, decides("choice=ring/ll channels=32") + ran("RING proto LL channel{Lo..Hi}={0..7}"),
			askedRow + askedEnd, 32, SelectionForced, nil},
		"2.31 keeps its own": {named,
			"host:1:1 [0] NCCL INFO NCCL version 2.31.2+cuda12.4\n" + decides("choice=ring/ll channels=32") +
				ran("RING proto LL channel{Lo..Hi}={0..7}"),
			askedRow + askedEnd, 8, SelectionOwnChannels, mib(1, 2, 4)},
		"2.31 lowers": {named,
			"host:1:1 [0] NCCL INFO NCCL version 2.31.2+cuda12.4\n" + decides("choice=ring/ll channels=32") +
				ran("RING proto LL channel{Lo..Hi}={0..31}"),
			askedRow + askedEnd, 32, SelectionForced, nil},
		"wrong results": {named, decides("choice=ring/ll channels=32"),
			strings.ReplaceAll(askedRow, "      0", "      7") + askedEnd, 32, SelectionForced, mib(4)},
		"cut off": {named, decides("choice=ring/ll channels=32"), "", 32, SelectionForced, mib(4)},
		"crashed": {named, decides("choice=ring/ll channels=32"),
			"host: Test CUDA failure x.cu:1 'an illegal memory access'\n", 32, SelectionForced, mib(4)},
		"crashed among others": {mixed, decides("choice=ring/ll channels=32"), "", 32, SelectionForced, mib(4)},
		"variables bound it": {named,
			"host:1:1 [0] NCCL INFO NCCL_MIN_NCHANNELS set by environment to 32.\nhost:1:1 [0] NCCL INFO " +
				"NCCL_MAX_NCHANNELS set by environment to 32.\n" + decides("choice=ring/ll") +
				ran("RING proto LL channel{Lo..Hi}={0..31}"), askedRow + askedEnd, 32, SelectionForced, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Read(strings.NewReader(strings.Replace(askedLog, "LOG\n", test.log, 1)+test.end), test.file,
				Options{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
			if err != nil || len(r.Samples) == 0 {
				t.Fatalf("%v %+v", err, r)
			}
			if s := r.Samples[0]; s.Channels != test.channels || s.Selection != test.selection {
				t.Errorf("it ran with %d channels, selection %v", s.Channels, s.Selection)
			}
			check := func(r *Result) {
				t.Helper()
				var sizes []uint64
				for _, f := range r.Failed {
					if sizes = append(sizes,
						f.Bytes); f.Algo != nccl.AlgoRing || f.Proto != nccl.ProtoLL || f.Channels != 32 ||
						f.Coll != nccl.CollAllGather || f.Nodes != 1 || f.Ranks != 8 {
						t.Errorf("asked for was %+v", f)
					}
				}
				if !slices.Equal(sizes, test.vain) {
					t.Errorf("in vain at %v, want %v", sizes, test.vain)
				}
			}
			check(r)
			var sweep bytes.Buffer
			if err := WriteTidy(&sweep, r.Samples, r.Failed); err != nil {
				t.Fatal(err)
			}
			if back, err := Read(&sweep, "sweep.csv", Options{}); err != nil || len(back.Samples) != len(r.Samples) ||
				len(back.Rejected) > 0 {
				t.Errorf("%v %+v", err, back)
			} else {
				check(back)
			}
		})
	}
}

// The sizes of a run are those that nccl-tests steps through, whatever its options say.
func TestStepsOf(t *testing.T) {
	for _, c := range []struct {
		first, last, step uint64
		isFactor          bool
		want              string
	}{
		{1, 8, 2, true, "[1 2 4 8]"},
		{1, 8, 3, false, "[1 4 7]"},
		{0, 8, 2, true, "[0]"},
		{0, 8, 4, false, "[0 4 8]"},
		{8, 64, 1, true, "[8]"},
		{8, 64, 0, false, "[8]"},
		{math.MaxUint64 / 2, math.MaxUint64, 2, true, "[9223372036854775807 18446744073709551614]"},
		{math.MaxUint64 - 3, math.MaxUint64, 2, false, "[18446744073709551612 18446744073709551614]"},
	} {
		if got := fmt.Sprint(stepsOf(c.first, c.last, c.step, c.isFactor)); got != c.want {
			t.Errorf("%d to %d by %d: %s, want %s", c.first, c.last, c.step, got, c.want)
		}
	}
}
