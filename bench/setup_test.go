package bench

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// oneRun is a whole run of two ranks with some lines of NCCL's log before its rows.
func oneRun(lines ...string) string {
	return head("all_reduce_perf", 1, 2) + strings.Join(lines, "\n") + "\n" + line(1<<20, "sum", -1, 41.5, 40.25, 1) +
		tail(0)
}

// What a log says of the machine, the library, the time and the tuner stays with its
// rows, and with the sweep that is written of them.
func TestSetupIsKept(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	for _, c := range []struct {
		text string
		want Setup
	}{
		{oneRun(), Setup{GPU: "Some GPU", Hosts: "node0", NCCL: "2.29.2"}},
		{oneRun("NCCL version 2.27.5+cuda12.9", info+"cudaDriverVersion 13010"), Setup{GPU: "Some GPU", Hosts: "node0",
			NCCL: "2.27.5", Driver: "CUDA 13.1"}},
		{oneRun(info + "RCCL version : 2.26.6-Unknown\nROCm version : 7.0.2.0-56-9428210"),
			Setup{GPU: "Some GPU", Hosts: "node0", NCCL: "RCCL 2.26.6", Driver: "ROCm 7.0.2.0"}},
		{"| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15      CUDA Version: 12.4     |\n" +
			strings.TrimPrefix(oneRun(), "# nccl-tests version 2.18.3 nccl-headers=22902 nccl-library=22902\n"),
			Setup{GPU: "Some GPU", Hosts: "node0", Driver: "550.54.15"}},
		{oneRun("[2026-10-05 23:38:49] " + info + "comm 0x1 rank 0 nRanks 2 nNodes 1"),
			Setup{GPU: "Some GPU", Hosts: "node0", NCCL: "2.29.2", Time: "2026-10-05 23:38:49"}},
		{
			`{"version":1,"start_time":"2026-07-09 09:15:00","args":["./all_reduce_perf"],"env":["PATH=/bin"],"nccl_version":2808,"config":{"nthreads":1,"ngpus":1,` +
				`"devices":[{"rank":0,"group":0,"hostname":"b","device_info":"GPU B"},{"rank":1,"group":0,"hostname":"a","device_info":"GPU A"}]},` +
				`"results":[{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"-1","out_of_place":{"time":41.2,"alg_bw":25.45,"bus_bw":25.45,"nwrong":0}}]}`,
			Setup{GPU: "GPU A + GPU B", Hosts: "a b", NCCL: "2.8.8", Time: "2026-07-09 09:15:00"}},
	} {
		r, err := Read(strings.NewReader(c.text), "x", Options{})
		if err == nil && len(r.Samples) > 0 && r.Samples[0].Setup != nil {
			c.want.Options = r.Samples[0].Setup.Options
		}
		if err != nil || len(r.Samples) == 0 || r.Samples[0].Setup == nil || *r.Samples[0].Setup != c.want {
			t.Errorf("%v: %+v, want %+v in\n%s", err, r, c.want, c.text)
			continue
		}
		var sweep bytes.Buffer
		if err := WriteTidy(&sweep, r.Samples); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(&sweep, "y.csv", Options{}); err != nil ||
			!reflect.DeepEqual(again.Samples, r.Samples) || len(again.Notes) > 0 {
			t.Errorf("%v: written and read again %+v, want %+v", err, again, r)
		}
	}
}

// Under NCCL_MIN_NCHANNELS and NCCL_MIN_CTAS a communicator may have channels that it has not without: the rows
// of such runs say so.
func TestLeastChannelsAreKept(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	const set = info + "NCCL_MIN_NCHANNELS set by environment to 8.\n" + info +
		"NCCL_MAX_NCHANNELS set by environment to 8."
	for _, c := range []struct {
		text           string
		channels, ctas string
		want           int // channels of the label
	}{
		{oneRun(), "", "", 0},
		{oneRun(set), "8", "", 8},
		{oneRun(info + "NCCL_MIN_CTAS set by environment to 4."), "", "4", 0},
		{oneRun(info + "NCCL_MIN_NCHANNELS set by environment to 0.\n" + info + "NCCL_MIN_CTAS set by environment to many."), "", "", 0},
		{`{"version":1,"args":["./all_reduce_perf"],"env":["NCCL_MIN_NCHANNELS=2"],"config":{"nthreads":1,"ngpus":2},` +
			`"results":[{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"-1","out_of_place":{"time":41.2,"alg_bw":25.45,"bus_bw":25.45,"nwrong":0}}]}`, "2", "", 0},
	} {
		r, err := Read(strings.NewReader(c.text), "x", Options{})
		if err != nil || len(r.Samples) == 0 {
			t.Errorf("%v: %+v", err, r)
			continue
		}
		s := r.Samples[0]
		var said Setup
		if s.Setup != nil {
			said = *s.Setup
		}
		if said.MinChannels != c.channels || said.MinCTAs != c.ctas || s.Channels != c.want {
			t.Errorf("%+v with %d channels, want %q, %q and %d in\n%s", said, s.Channels, c.channels, c.ctas,
				c.want, c.text)
		}
		var sweep bytes.Buffer
		if err := WriteTidy(&sweep, r.Samples); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(sweep.String(), "min_nchannels,min_ctas,variables") != (c.channels+c.ctas != "") {
			t.Errorf("columns of\n%s", &sweep)
		}
		if again, err := Read(&sweep, "y.csv", Options{}); err != nil ||
			!reflect.DeepEqual(again.Samples, r.Samples) || len(again.Notes) > 0 {
			t.Errorf("%v: written and read again %+v, want %+v", err, again, r)
		}
	}
	r, err := Read(strings.NewReader("collective,size_bytes,time_us,min_nchannels\nallreduce,1024,12.5,8\n"+
		"allreduce,1024,12.5,all\n"), "x.csv", Options{})
	if want := `x.csv:3: min_nchannels: "all" (allowed: 1 or more, or empty)`; err != nil || len(r.Samples) != 1 ||
		fmt.Sprint(r.Notes) != "["+want+"]" {
		t.Errorf("%v, %d rows: %v, want %s", err, len(r.Samples), r.Notes, want)
	}
}

// The second run of a log has its own library and not the first one's.
func TestSetupIsOfOneRun(t *testing.T) {
	text := oneRun("NCCL version 2.27.5+cuda12.9", "n:1:1 [0] NCCL INFO TUNER/Plugin: Using Example (v5)") + oneRun()
	r, err := Read(strings.NewReader(text), "x", Options{})
	if err != nil || len(r.Samples) != 4 {
		t.Fatal(err, r)
	}
	first, second := r.Samples[0], r.Samples[2]
	if first.Setup.NCCL != "2.27.5" || first.Setup.Tuner != "Example" || first.Selection != SelectionForced {
		t.Errorf("first run %+v, %+v", first, first.Setup)
	}
	if second.Setup.NCCL != "2.29.2" || second.Setup.Tuner != "" || second.Selection != SelectionDefault {
		t.Errorf("second run %+v, %+v", second, second.Setup)
	}
}

// Where a tuner decided, the times are not those of NCCL's choice, whatever the
// file's name says.
func TestTunerIsNotDefault(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	withEnv := func(env string) string {
		return `{"version":1,"args":["./all_reduce_perf"],"env":["` + env + `"],"config":{"nthreads":1,"ngpus":2},` +
			`"results":[{"size":1048576,"count":262144,"type":"float","redop":"sum","root":"-1","out_of_place":{"time":41.2,"alg_bw":25.45,"bus_bw":25.45,"nwrong":0}}]}`
	}
	for _, c := range []struct{ text, tuner string }{
		{
			oneRun(info + "TUNER/Go: 0.1.0 communicator 0x6f3a of 2 ranks on 1 nodes (ABI v6): policy p.csv, 12 " +
				"rows, version 9f2c01d4a7be"), "nccl-tuner-go 0.1.0"},
		{oneRun(info + "TUNER/Go: start library=0.3.0 comm=0x6f3a ranks=2 nodes=1 abi=6"), "nccl-tuner-go 0.3.0"},
		{oneRun("TUNER/Go: communicator 0x6f3a: no policy, NCCL decides"), "nccl-tuner-go"},
		{oneRun() + info + "TUNER/Go: 7 shapes in all, asked for 90 times\n", "nccl-tuner-go"},
		{oneRun(info + "NCCL_TUNER_PLUGIN set by environment to /opt/libx.so"), "/opt/libx.so"},
		{oneRun(info + "TUNER/Plugin: NCCL_TUNER_PLUGIN set to x"), "x"},
		{oneRun(info + "Using tuner plugin: 'Example'"), "Example"},
		{oneRun(info + "TUNER/Plugin: Using tuner plugin nccl_ofi_tuner"), "nccl_ofi_tuner"},
		{oneRun(info + "TUNER/Plugin: Using nccl_ofi_tuner (v3)"), "nccl_ofi_tuner"},
		{oneRun(info + "Successfully loaded external tuner plugin /opt/libx.so"), "/opt/libx.so"},
		{withEnv("NCCL_TUNER_PLUGIN=libx.so"), "libx.so"},
		{"size_bytes,time_us,collective,selection,tuner\n1024,12.5,allreduce,default,libx.so\n", "libx.so"},

		{oneRun(info + "TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal tuner plugin."), ""},
		{oneRun(info + "External tuner plugin libx.so is unsupported"), ""},
		{"export NCCL_TUNER_PLUGIN=none\n" + oneRun(), ""},
		{withEnv("NCCL_TUNER_CONFIG_FILE=x"), ""},
	} {
		r, err := Read(strings.NewReader(c.text), "default_all_reduce", Options{})
		if err != nil || len(r.Samples) == 0 {
			t.Errorf("%v: %+v", err, r)
			continue
		}
		s := r.Samples[0]
		got := ""
		if s.Setup != nil {
			got = s.Setup.Tuner
		}
		if got != c.tuner || (s.Selection == SelectionDefault) != (c.tuner == "") {
			t.Errorf("tuner %q, selection %d, want %q in\n%s", got, s.Selection, c.tuner, c.text)
		}
	}
}

// Rows do not repeat a thousand names.
func TestManyHostsAreCounted(t *testing.T) {
	r, err := Read(strings.NewReader(head("all_reduce_perf", 40, 1)+line(1<<20, "sum", -1, 41.5, 40.25, 1)+tail(0)),
		"x", Options{})
	if err != nil || len(r.Samples) == 0 {
		t.Fatal(err, r)
	}
	if hosts := strings.Fields(r.Samples[0].Setup.Hosts); len(hosts) != mostNames+3 ||
		!strings.HasSuffix(r.Samples[0].Setup.Hosts, "and 24 more") {
		t.Errorf("hosts %q", r.Samples[0].Setup.Hosts)
	}
}

// A run that failed is quoted, with what to leave out; one that came to its end is not
// called failed for a warning.
func TestFailedRunIsQuoted(t *testing.T) {
	const (
		warn = "[2026-10-05 23:38:49] node0:7:9 [1] enqueue.cc:1828 NCCL WARN Error : no algorithm/protocol " +
			"available for function AllGather with datatype ncclInt8. NCCL_ALGO was set to Tree."
		ended = "node0: Test NCCL failure common.cu:1000 'invalid usage'"
	)
	set := func(name, value string) string {
		return "node0:7:9 [0] NCCL INFO NCCL_" + name + " set by environment to " + value + ".\n"
	}
	for _, c := range []struct {
		name, text string
		want       []string // of the one remark; nil: none
	}{
		{"a.txt", head("all_gather_perf", 1, 2) + warn + "\n" + ended + "\n", []string{"a.txt:13: the run failed: ",
			"Test NCCL failure", "no algorithm/protocol available"}},
		{"a.txt", head("all_gather_perf", 1, 2) + set("ALGO", "NVLS") + set("PROTO", "Simple") +
			set("MIN_NCHANNELS", "16") + set("MAX_NCHANNELS", "16") + ended + "\n",
			[]string{"tunefit sweep --dry-run --from this log or the sweep made of it leaves nvls/simple/16 out"}},
		{"a.txt", head("all_gather_perf", 1, 2) + set("ALGO", "Tree") + set("PROTO", "LL") + warn + "\n",
			[]string{"the run failed: \"Error : no algorithm", "leaves tree/ll out"}},
		{"a.txt", set("ALGO", "Tree") + set("PROTO", "LL") + "srun: error: node0: task 3: Segmentation fault\n",
			[]string{"if tree/ll cannot run here, --skip tree/ll leaves it out"}},
		{"a.txt", "./run.sh: line 3: all_reduce_perf: command not found\n",
			[]string{"a.txt:1: the run failed: ", "command not found"}},
		{"a.txt", "srun: error: node0: task 3: Segmentation fault\n", []string{"Segmentation fault"}},
		{"a.txt",
			"all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n",
			[]string{"libnccl.so.2"}},
		{"a.txt", head("all_reduce_perf", 1, 2) + line(1<<20, "sum", -1, 41.5, 40.25, 1) +
			"slurmstepd: error: *** STEP 1.0 ON node0 CANCELLED AT 2026-10-05T23:38:49 DUE TO TIME LIMIT ***\n",
			[]string{"DUE TO TIME LIMIT"}},
		{"a.txt", oneRun(warn), nil},
		{"a.txt", oneRun(strings.Repeat("x Killed y\n", 3)), nil},
	} {
		r, err := Read(strings.NewReader(c.text), c.name, Options{})
		if err != nil {
			t.Errorf("%v in\n%s", err, c.text)
			continue
		}
		said := fmt.Sprint(r.Notes)
		if len(r.Notes) > 0 != (c.want != nil) {
			t.Errorf("said %q in\n%s", said, c.text)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("said %q, want %q in\n%s", said, want, c.text)
			}
		}
	}
}

// One misspelt word is one remark, however many rows have it.
func TestMisspeltCellIsOneRemark(t *testing.T) {
	const header = "collective,size_bytes,algorithm,protocol,time_us\n"
	good, bad := strings.Repeat("allreduce,1024,ring,ll,12.5\n", 97), strings.Repeat("allreduce,1024,rnig,ll,12.5\n", 3)
	r, err := Read(strings.NewReader(header+good+bad), "x.csv", Options{})
	if err != nil || r.Doubt() != nil || len(r.Notes) != 1 {
		t.Errorf("3 of 100 rows: %v, %v, %v", err, r.Doubt(), r.Notes)
	}
	r, err = Read(strings.NewReader(header+good+strings.Repeat(bad, 50)+
		"allreduce,1024,ring\nallreduce,1024,ring,ll,\"12,5\"\n"), "x.csv", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want :=
		`x.csv: 152 of 249 rows cannot be read
x.csv:99: algorithm: unknown algorithm "rnig" (did you mean "ring"; allowed: tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat)
x.csv:249: the row ends before time_us, its field 5
x.csv:250: time_us: "12,5" is not a number of microseconds (allowed: as 41.5)`
	if got := fmt.Sprint(r.Doubt()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// RCCL's own tuner is named, and what it applied is what ran.
func TestTunerBuiltIntoRCCL(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	r, err := Read(strings.NewReader(oneRun(info+"Using built-in CSV tuner, config: <embedded>/rccl_tuner.csv",
		info+"TUNER/CsvTuner: Loaded 12 tuning configurations", info+"TUNER/CsvTuner: Applied config for allreduce, "+
			"bytes=1048576: algo=tree, proto=ll128, channels=8")), "x.log", Options{})
	if err != nil || len(r.Samples) != 2 {
		t.Fatal(err, r)
	}
	if s := r.Samples[0]; s.Setup.Tuner != "built-in CSV tuner" || s.Config.String() != "tree/ll128 8 ch" ||
		s.Selection != SelectionForced {
		t.Errorf("%+v %+v", s, s.Setup)
	}
}

// NCCL's log in a file of its own is named, and joined with the times it tells what ran.
func TestLogApart(t *testing.T) {
	const apart = "node0:4000:4000 [0] NCCL INFO NCCL_ALGO set by environment to Tree\n" +
		"node0:4000:4000 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}\n"
	_, err := Read(strings.NewReader(apart), "nccl.log", Options{})
	if is := (*LogApart)(nil); !errors.As(err, &is) || is.Process != "node0:4000" || ProcessOf([]byte(apart)) != is.Process {
		t.Error(err)
	}
	if process := ProcessOf([]byte(oneRun())); process != "" {
		t.Errorf("a run begins with a log of %s", process)
	}
	logOf := func(process string) []byte {
		return map[string][]byte{"node0:4000": []byte(apart)}[process]
	}
	const says = "NCCL_DEBUG_FILE=/tmp/log NCCL_DEBUG=INFO ./all_reduce_perf\n"
	for name, c := range map[string]struct {
		text string
		opts Options
		kept int
	}{
		"joined":         {oneRun(), Options{LogOf: logOf}, 2},
		"in one file":    {apart + oneRun(), Options{}, 2},
		"named, joined":  {says + oneRun(), Options{LogOf: logOf}, 2},
		"named, missing": {says + oneRun(), Options{LogOf: func(string) []byte { return nil }}, 0},
	} {
		r, err := Read(strings.NewReader(c.text), "x.log", c.opts)
		if c.kept == 0 && (len(r.Samples) != 2 || r.Samples[0].Selection != SelectionUnknown) || err != nil || c.kept > 0 && (r.Samples[0].Cell.String() != "tree/ll" ||
			r.Samples[0].Selection != SelectionOwnChannels) {
			t.Errorf("%s: %v %+v", name, err, r)
		}
		if c.kept == 0 && (len(r.Notes) == 0 || !strings.Contains(r.Notes[0].Text, `log "/tmp/log" together`)) {
			t.Errorf("%s: %+v", name, r.Notes)
		}
	}
}
