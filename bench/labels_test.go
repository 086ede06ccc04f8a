package bench

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// What a text says of settings besides NCCL's own lines is a mention: it makes the setting unknown, and forces nothing.
func TestMentions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"$ NCCL_ALGO=Ring NCCL_PROTO=LL128 ./build/all_reduce_perf -b 8", "NCCL_ALGO=Ring? NCCL_PROTO=LL128?"},
		{`me@node7:~$ mpirun -x NCCL_PROTO=LL128 -x "NCCL_ALGO=Ring" ./all_reduce_perf`, "NCCL_ALGO=Ring? NCCL_PROTO=LL128?"},
		{"mpiexec -genv NCCL_ALGO Ring ./all_reduce_perf", "NCCL_ALGO=Ring?"},
		{"/usr/bin/srun --export=ALL,NCCL_ALGO=Ring,NCCL_PROTO='LL',X=1 ./all_reduce_perf", "NCCL_ALGO=Ring? NCCL_PROTO=LL?"},
		{"mpirun -np 2 \\\n  -x NCCL_ALGO=Ring \\\n  ./all_reduce_perf -b 8", "NCCL_ALGO=Ring?"},
		{"mpirun -x NCCL_ALGO ./all_reduce_perf", "NCCL_ALGO=?"},
		{"mpirun -x NCCL_IB_HCA=mlx5_0,mlx5_1 -x NCCL_ALGO=$A ./all_reduce_perf", "NCCL_ALGO=? NCCL_IB_HCA=mlx5_0,mlx5_1?"},
		{"+ export NCCL_CROSS_NIC=1\n+ NCCL_CROSS_NIC=1", "NCCL_CROSS_NIC=1?"},
		{"env:\n- name: NCCL_ALGO\n  value: \"Tree\"", "NCCL_ALGO=Tree?"},
		{"env:\n- name: NCCL_ALGO\n  valueFrom:", "NCCL_ALGO=?"},
		{"\"env\": [{\n\"name\": \"NCCL_IB_TC\",\n\"value\": \"106\"\n}],", "NCCL_IB_TC=106?"},
		{`- {name: NCCL_ALGO, value: Tree}`, "NCCL_ALGO=Tree?"},
		{`"env": [{"name": "NCCL_ALGO", "value": "Tree"}]`, "NCCL_ALGO=Tree?"},
		{"      NCCL_ALGO:   Tree\n      FI_PROVIDER:  efa", "FI_PROVIDER=efa? NCCL_ALGO=Tree?"},
		{"ENV NCCL_ALGO Tree\nsetenv UCX_TLS rc", "NCCL_ALGO=Tree? UCX_TLS=rc?"},
		{"We ran with NCCL_ALGO=Ring before", "NCCL_ALGO=Ring?"},
		{"### NCCL_ALGO=Ring NCCL_PROTO=LL128", "NCCL_ALGO=Ring? NCCL_PROTO=LL128?"},
		{"=== nvls tree, sharp ===", "nvls_tree+sharp?"},
		{"# ring", "ring?"},
		{"// Ring", "ring?"},
		{"Ring, LL128:", "ring+ll128?"},
		{"as `NCCL_CROSS_NIC=1` says", "NCCL_CROSS_NIC=1?"},
		{"export OFI_NCCL_PROTOCOL=RDMA CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=0,1? OFI_NCCL_PROTOCOL=RDMA?"},

		{"$ ./all_reduce_perf -b 8 -g 8", ""},
		{"MY_NCCL_ALGO=Ring ./all_reduce_perf", ""},
		{"export NCCL_DEBUG=INFO NCCL_TUNER_PLUGIN=none NCCL_P2P_DISABLE=0", ""},
		{"unset NCCL_ALGO", ""},
		{"env -u NCCL_ALGO ./all_reduce_perf", ""},
		{"# A simple benchmark of our cluster", ""},
		{"=== CUDA graphs ===", ""},                                                             // the header tells
		{"NCCL_ALGO=Ring ./all_reduce_perf\nNCCL_ALGO set by environment to Ring", "NCCL_ALGO"}, // NCCL confirms it
	} {
		r, err := Read(strings.NewReader(c.text+"\n"+oneRun()), "x.log", Options{})
		if err != nil || len(r.Samples) != 2 {
			t.Errorf("%s: %v %+v", c.text, err, r)
			continue
		}
		s := r.Samples[0]
		if c.want == "NCCL_ALGO" {
			if s.Setup.Variables != "" || s.Selection != SelectionForced || s.Algo != nccl.AlgoRing || len(r.Notes) > 0 {
				t.Errorf("%s: %+v under %q, %v", c.text, s, s.Setup.Variables, r.Notes)
			}
			continue
		}
		if s.Setup.Variables != c.want || s.Known() || (len(r.Notes) == 0) != (c.want == "") ||
			(s.Selection == SelectionUnknown) != (strings.Contains(c.want, "NCCL_ALGO") || strings.Contains(c.want, "ring") ||
				strings.Contains(c.want, "nvls")) {
			t.Errorf("%s: %q, %s, %v; want %q", c.text, s.Setup.Variables, selections[s.Selection], r.Notes, c.want)
		}
	}
}

// A mention counts for the next table, an export or a manifest for all below. What the user says ends the doubt.
func TestMentionsHold(t *testing.T) {
	const command, export = "$ NCCL_ALGO=Ring ./all_reduce_perf\n", "export NCCL_ALGO=Ring\n"
	nvls := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoNVLS, Proto: Unknown}}
	for _, c := range []struct {
		text    string
		opts    Options
		unknown int
		label   string
	}{
		{command + oneRun() + oneRun(), Options{}, 2, "-"},
		{oneRun() + command + oneRun(), Options{}, 2, "-"},
		{export + oneRun() + oneRun(), Options{}, 4, "-"},
		{oneRun() + "### ring\n" + line(1<<20, "sum", -1, 41, 40, 1), Options{}, 2, "-"},
		{oneRun() + "### ring\n" + line(1<<20, "sum", -1, 41, 40, 1) + "### tree\n" + line(1<<20, "sum", -1, 41, 40, 1), Options{}, 4, "-"},
		{command + oneRun(), Options{Default: true}, 0, "-"},
		{command + oneRun(), Options{Config: &nvls}, 0, "nvls/simple"},
		{command + oneRun(), Options{With: map[string]string{"NCCL_ALGO": "NVLSTree"}}, 0, "nvls_tree/simple"},
		{command + oneRun(), Options{With: map[string]string{"NCCL_ALGO": ""}}, 0, "-"},
		{"export NCCL_IB_TC=1\n" + oneRun(), Options{With: map[string]string{"NCCL_IB_TC": ""}}, 0, "-"},
		{oneRun("node0:7:9 [0] NCCL INFO NCCL_ALGO set by environment to Ring") + oneRun(), Options{}, 0, "ring/-"},
	} {
		r, err := Read(strings.NewReader(c.text), "x.txt", c.opts)
		unknown := 0
		for _, s := range r.Samples {
			if s.Selection == SelectionUnknown {
				unknown++
			}
		}
		label := r.Samples[0].Config.String()
		if err != nil || unknown != c.unknown || (len(r.Notes) == 0) != (unknown == 0) || len(r.Samples)%2 > 0 ||
			c.label != label && c.label != "ring/-" {
			t.Errorf("%v: %d unknown, %s, %v in\n%s", err, unknown, label, r.Notes, c.text)
		}
	}
}

// A word in a file's name makes unknown what ran, until the caller says it.
func TestHintsInFileNames(t *testing.T) {
	ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: Unknown}}
	const logged = "node0:7:9 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..7}"
	const csv = "collective,size_bytes,time_us\nallreduce,1024,12.5\nallreduce,2048,12.5\n"
	for _, c := range []struct {
		name, text string
		opts       Options
		kept       int
		selection  Selection
		algo       nccl.Algo
		notes      string
	}{
		{"no-nvls.log", oneRun(), Options{}, 2, 0, Unknown, "\"nvls\""},
		{"all_reduce_ll128_16ch.log", oneRun(), Options{}, 2, 0, Unknown, "\"ll128+16ch\""},
		{"collnet_sharp.log", oneRun(), Options{}, 2, 0, Unknown, "\"collnet+sharp\""},
		{"allreduce-8ch.csv", csv, Options{}, 2, 0, Unknown, "\"8ch\""},
		{"tree.csv", csv, Options{}, 2, 0, Unknown, "\"tree\""},
		{"ring/run1.log", oneRun(), Options{}, 2, SelectionDefault, Unknown, ""},
		{"string_default_bench2023.log", oneRun(), Options{}, 2, SelectionDefault, Unknown, ""},
		{"no-nvls.log", oneRun(), Options{Default: true}, 2, SelectionDefault, Unknown, ""},
		{"no-nvls.log", oneRun(), Options{Config: &ring}, 2, SelectionForced, nccl.AlgoRing, ""},
		{"tree.csv", csv, Options{Config: &ring}, 2, SelectionForced, nccl.AlgoRing, ""},
		{"tree.csv", csv, Options{Default: true}, 2, SelectionDefault, Unknown, ""},
		{"ring.log", oneRun(logged), Options{}, 2, SelectionUnknown, nccl.AlgoTree, ""},
		{"x.log", oneRun(logged), Options{}, 2, SelectionDefault, nccl.AlgoTree, ""},
		{"x.log", oneRun(logged), Options{Config: &ring}, 2, SelectionOwnChannels, nccl.AlgoRing,
			"the algorithm is ring by options, but tree by measured"},
	} {
		r, err := Read(strings.NewReader(c.text), c.name, c.opts)
		if err != nil || len(r.Samples) != c.kept || r.NumRejected() != 2-c.kept {
			t.Errorf("%s: %v, kept %d, rejected %+v", c.name, err, len(r.Samples), r.Rejected)
		} else if c.kept > 0 && (r.Samples[0].Selection != c.selection || r.Samples[0].Algo != c.algo) {
			t.Errorf("%s: %+v", c.name, r.Samples[0])
		}
		if c.notes != "" && (len(r.Notes) == 0 || !strings.Contains(r.Notes[0].Text, c.notes)) {
			t.Errorf("%s: notes %v, want %s", c.name, r.Notes, c.notes)
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
	text := line(1<<20, "none", -1, 50, 51, 0.9583333)
	coll := nccl.CollAllGather
	r, err := Read(strings.NewReader(text), "x.txt", Options{Coll: &coll, Comm: nccl.Comm{Nodes: 3, Ranks: 24}})
	if err != nil || len(r.Samples) != 2 || r.Samples[0].Coll != coll || r.Samples[0].Nodes != 3 ||
		r.Samples[0].Ranks != 24 {
		t.Errorf("%v %+v", err, r)
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
			Config: nccl.Config{Cell: nccl.NoCell}, Selection: SelectionDefault, Micros: 7.125, Source: `a, "b"`, Start: 1, Pass: 1},
		{Call: nccl.Call{Coll: nccl.CollReduceScatter, Bytes: 1 << 40},
			Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoPAT, Proto: nccl.ProtoSimple}, Channels: 24},
			Comm:   nccl.Comm{Nodes: 2, Ranks: 16}, InPlace: true, Selection: SelectionForced, Micros: 1e9, AlgBW: 1.1,
			BusBW: 1.05, Source: "simulated:x", Start: 7, Pass: 2, Simulated: true},
		{Call: nccl.Call{Coll: nccl.CollBroadcast, Bytes: 1},
			Config: nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: Unknown}}, Micros: 0.5, Source: "#x", Start: 1, Pass: 3},
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
		{`{"results": 3}`, "x: at byte 13: 3 instead of a list"},
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

// NCCL's nodes are not hosts: its log tells, then the caller, then hosts, and where those mislead a note says so.
func TestNodesAreNCCLs(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	const logged = info + "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 1"
	run := func(gpu string, lines ...string) string {
		return strings.ReplaceAll(head("all_reduce_perf", 2, 4), "Some GPU", gpu) + strings.Join(lines, "\n") + "\n" +
			line(1<<20, "sum", -1, 41.5, 40.25, 1.75) + tail(0)
	}
	mixed := run("NVIDIA GB200")
	for i := range 8 {
		mixed = strings.Replace(mixed, "NVIDIA GB200\n", fmt.Sprintf("NVIDIA GB200 %d\n", 7-i), 1)
	}
	for _, c := range []struct {
		text string
		comm nccl.Comm // of the caller
		want nccl.Comm
		note string // empty: none
	}{
		{run("NVIDIA H100"), nccl.Comm{}, nccl.Comm{Nodes: 2, Ranks: 8}, ""},
		{run("NVIDIA GB200"), nccl.Comm{}, nccl.Comm{Nodes: 2, Ranks: 8}, "NCCL counts otherwise in an NVL72 (NVIDIA GB200)"},
		{mixed, nccl.Comm{}, nccl.Comm{Nodes: 2, Ranks: 8}, "NCCL counts otherwise in an NVL72 (NVIDIA GB200 0)"},
		{run("NVIDIA GB300", logged), nccl.Comm{}, nccl.Comm{Nodes: 1, Ranks: 8}, ""},
		{run("NVIDIA GB300"), nccl.Comm{Nodes: 1, Ranks: 8}, nccl.Comm{Nodes: 1, Ranks: 8}, ""},
		{run("NVIDIA GB300", logged), nccl.Comm{Nodes: 1, Ranks: 8}, nccl.Comm{Nodes: 1, Ranks: 8}, ""},
		{run("NVIDIA GB300", logged), nccl.Comm{Nodes: 2, Ranks: 8}, nccl.Comm{Nodes: 1, Ranks: 8},
			"1x8 is used: these differ: NCCL's log 1x8, --comm 2x4, the list of devices 2x4"},
		{run("NVIDIA H100"), nccl.Comm{Nodes: 1, Ranks: 4}, nccl.Comm{Nodes: 2, Ranks: 8},
			"2x4 is used: these differ: --comm 1x4"},
		{run("NVIDIA A10", info+"NCCL_P2P_DISABLE set by environment to 1.", info+"NCCL_SHM_DISABLE set by environment to 1."),
			nccl.Comm{}, nccl.Comm{Nodes: 2, Ranks: 8}, "NCCL counts otherwise without P2P and SHM"},
	} {
		r, err := Read(strings.NewReader(c.text), "x.log", Options{Comm: c.comm})
		if err != nil || len(r.Samples) != 2 {
			t.Fatal(err, r)
		}
		said := ""
		if len(r.Notes) > 0 {
			said = r.Notes[0].Text
		}
		if r.Samples[0].Comm != c.want || !strings.Contains(said, c.note) || (said == "") != (c.note == "") {
			t.Errorf("%s, and it says %q; want %s and %q of\n%s", r.Samples[0].Comm, said, c.want, c.note, c.text)
		}
	}
}
