package bench

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

func TestEnvironmentInLogs(t *testing.T) {
	for _, c := range []struct {
		line string
		coll string
		want nccl.Config
	}{
		{"export NCCL_ALGO=Ring", "allreduce", nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: Unknown}}},
		{"+ NCCL_ALGO='NVLSTree'", "allreduce", nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoNVLSTree, Proto: Unknown}}},
		{`mpirun -x NCCL_PROTO=LL128 -x "NCCL_ALGO=CollnetChain" ./all_reduce_perf -b 8`, "allreduce",
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoCollNetChain, Proto: nccl.ProtoLL128}}},
		{"mpiexec -genv NCCL_ALGO Tree -genv NCCL_PROTO Simple ./all_reduce_perf", "allreduce",
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}}},
		{"srun --export=ALL,NCCL_ALGO=PAT,NCCL_PROTO=Simple,X=1 ./all_gather_perf", "allgather",
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoPAT, Proto: nccl.ProtoSimple}}},
		{"export NCCL_MIN_NCHANNELS=8 NCCL_MAX_NCHANNELS=8", "allreduce", nccl.Config{Cell: nccl.NoCell, Channels: 8}},
		{"export NCCL_MIN_CTAS=4 NCCL_MAX_CTAS=8", "allreduce", noLabel},
		{"NCCL_MIN_NCHANNELS set by environment to 8. NCCL_MAX_NCHANNELS set by environment to 8.", "allreduce",
			nccl.Config{Cell: nccl.NoCell, Channels: 8}},
		{"export NCCL_ALGO=^Tree", "allreduce", noLabel},
		{"export NCCL_ALGO=Ring,Tree", "allreduce", noLabel},
		{`export NCCL_ALGO="ring;allreduce:tree"`, "allreduce",
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: Unknown}}},
		{`export NCCL_ALGO="ring;allreduce:tree"`, "broadcast",
			nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: Unknown}}},
		{"### ALGO=Tree size=1024", "allreduce", nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: Unknown}}},
		{"NCCL_PROTO set by environment to LL", "allreduce",
			nccl.Config{Cell: nccl.Cell{Algo: Unknown, Proto: nccl.ProtoLL}}},
		{"MY_ALGO=Tree", "allreduce", noLabel},
		{"export NCCL_ALGO=$1", "allreduce", noLabel},
	} {
		e := environment{from: originExport}
		if readsEnv([]byte(c.line)) {
			e.read([]byte(c.line), func() {})
		}
		if got := merge([]claim{e.claim(c.coll)}).Config; got != c.want {
			t.Errorf("%s for %s: %+v, want %+v", c.line, c.coll, got, c.want)
		}
	}
}

func TestLabelsInFileNames(t *testing.T) {
	for _, c := range []struct {
		path string
		want named
	}{
		{"logs/all_reduce_ring_ll128_16ch_4n.txt",
			named{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128}, Channels: 16},
				coll: "allreduce", Comm: nccl.Comm{Nodes: 4}}},
		{"reduce-scatter.nvls_tree.simple.ranks16.log",
			named{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoNVLSTree, Proto: nccl.ProtoSimple}},
				coll: "reducescatter", Comm: nccl.Comm{Ranks: 16}}},
		{"AllGather-Tree-nch8.json",
			named{Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: Unknown}, Channels: 8},
				coll: "allgather"}},
		{"fat_tree_cluster_ring.txt", named{Config: noLabel}},
		{"ring/run1.txt", named{Config: noLabel}},
		{"default_allreduce.txt", named{Config: noLabel, coll: "allreduce", isDefault: true}},
		{"string_bench2023.txt", named{Config: noLabel}},
	} {
		if got := labelsInName(c.path); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.path, got, c.want)
		}
	}
}

// A later version's AllGather logs one rank's bytes, an earlier one's all: which
// it is shows in what sizes the run has.
func TestLoggedBytesAreOfOneRankOrOfAll(t *testing.T) {
	for _, ranks := range []uint64{1, 8} {
		var text strings.Builder
		text.WriteString(head("all_gather_perf", 1, 8))
		for i, size := range []int{1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24} {
			fmt.Fprintf(&text,
				"node0:7:7 [0] NCCL INFO AllGather: %d Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..%d}\n",
				uint64(size)/ranks, i)
			text.WriteString(strings.Replace(line(size, "none", -1, 50, 51, 0.875), fmt.Sprintf(" %d ", size/4),
				fmt.Sprintf(" %d ", size/32), 1))
		}
		text.WriteString(tail(0))
		r, err := Read(strings.NewReader(text.String()), "x.txt", Options{})
		if err != nil || len(r.Samples) != 10 {
			t.Fatal(err, r)
		}
		for i, s := range r.Samples {
			if s.Channels != i/2+1 || s.Algo != nccl.AlgoRing {
				t.Errorf("1/%d: sample %d has %d channels", ranks, i, s.Channels)
			}
		}
	}
}

// What a file does not tell, the caller may.
func TestOptionsFillGaps(t *testing.T) {
	text := line(1<<20, "none", -1, 50, 51, 0.5)
	coll := nccl.CollAllGather
	r, err := Read(strings.NewReader(text), "x.txt", Options{Coll: &coll, Comm: nccl.Comm{Nodes: 3, Ranks: 24}})
	if err != nil || len(r.Samples) != 2 || r.Samples[0].Coll != coll || r.Samples[0].Nodes != 3 ||
		r.Samples[0].Ranks != 24 {
		t.Errorf("%v %+v", err, r)
	}
}

// A CSV file without columns for them takes labels from its name.
func TestFileNameLabelsCSV(t *testing.T) {
	for _, header := range []string{"collective,size_bytes,time_us\nallreduce,1024,12.5\n",
		"size_bytes,time_us\n1024,12.5\n"} {
		r, err := Read(strings.NewReader(header), "all_reduce_tree_ll.csv", Options{})
		want := Sample{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1024},
			Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}}, Selection: SelectionForced,
			Micros: 12.5, Source: "all_reduce_tree_ll.csv:2"}
		if err != nil || len(r.Samples) != 1 || r.Samples[0] != want || r.Labels[originFileName] != 1 {
			t.Errorf("%v %+v, want %+v", err, r, want)
		}
	}
}

// A row that never ends and a flood of numbers cost no more than their length.
func TestFloodOfNumbers(t *testing.T) {
	flood := head("all_reduce_perf", 1, 2) + "  1024  256  float  sum  -1  12.5" +
		strings.Repeat("\n 1 2 3", 200_000) + "\n" + line(2048, "sum", -1, 20, 21, 1) + tail(0)
	r, err := Read(strings.NewReader(flood), "x.txt", Options{})
	if err != nil || len(r.Samples)+r.NumRejected() != 4 {
		t.Errorf("%v %+v", err, r)
	}
}

func TestTidyRoundTrip(t *testing.T) {
	want := []Sample{
		{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 8}, DType: "float", RedOp: "sum",
			Config: nccl.Config{Cell: nccl.NoCell}, Selection: SelectionDefault, Micros: 7.125, Source: `a, "b"`},
		{Call: nccl.Call{Coll: nccl.CollReduceScatter, Bytes: 1 << 40},
			Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoPAT, Proto: nccl.ProtoSimple}, Channels: 24},
			Comm:   nccl.Comm{Nodes: 2, Ranks: 16}, InPlace: true, Selection: SelectionForced, Micros: 1e9, AlgBW: 1.1,
			BusBW: 1.05, Source: "simulated:x", Simulated: true},
		{Call: nccl.Call{Coll: nccl.CollBroadcast, Bytes: 1},
			Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: Unknown}}, Micros: 0.5, Source: "#x"},
	}
	var b bytes.Buffer
	if err := WriteTidy(&b, want[:1], want[1:]); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&b, "x.csv", Options{})
	if err != nil || !reflect.DeepEqual(got.Samples, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got.Samples, want)
	}
}

func TestNotASweep(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "x: no measurements in it"},
		{"hello\n", "x: no measurements in it"},
		{"{}", "x: no measurements in it"},
		{`{"results": 3}`, "x: at byte 13: results is 3 instead of a list"},
		{"\xff\xfea\x00", "x:1: the file is UTF-16 (allowed: UTF-8)"},
		{"collective,min_bytes,max_bytes,algorithm,protocol\n", "x:1: no column size_bytes ("},
		{"collective,size_byte,algorithm,time_us\n",
			`x:1: no column size_bytes (did you mean "size_byte"; allowed: `},
		{"size_bytes,time_us,bytes\n1,2,3\n", "x:1:3: column size_bytes is named twice"},
		{"size_bytes,time_us\n", "x: no row after the header"},
	} {
		_, err := Read(strings.NewReader(c.text), "x", Options{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

// Older logs have numbers instead of names. One that is beyond the last is no label.
func TestCellNamed(t *testing.T) {
	unknown := nccl.Cell{Algo: Unknown, Proto: Unknown}
	for names, want := range map[[2]string]nccl.Cell{
		{"RING", "LL128"}: {Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128},
		{"0", "0"}:        {Algo: nccl.AlgoTree, Proto: nccl.ProtoLL},
		{"6", "2"}:        {Algo: nccl.AlgoPAT, Proto: nccl.ProtoSimple},
		{"7", "3"}:        unknown,
		{"-1", "-1"}:      unknown,
		{"", ""}:          unknown,
	} {
		if got := CellNamed(names[0], names[1]); got != want {
			t.Errorf("%q: %v, want %v", names, got, want)
		}
	}
}

// What is no bandwidth is not known.
func TestBandwidth(t *testing.T) {
	for text, want := range map[string]float64{"29.65": 29.65, "0.00": 0, "-1": 0, "nan": 0, "inf": 0, "-inf": 0, "N/A": 0} {
		if got := bandwidth(text); got != want {
			t.Errorf("%s: %g", text, got)
		}
	}
}
