package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// logged makes NCCL say what runs.
var logged = []string{"NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING", "FAKEPERF_NOISE=0"}

// choices lists sizes and what ran, of the first of each two times.
func choices(r *bench.Result) string {
	var all []string
	for _, s := range r.Samples {
		if !s.InPlace {
			all = append(all, fmt.Sprintf("%s %v/%v/%d", nccl.FormatBytes(s.Bytes), s.Algo, s.Proto, s.Channels))
		}
	}
	return strings.Join(all, ", ")
}

// NCCL's log says what its variables force, and what it chooses by itself; channels are those that it has, and of these
// as many as it takes for the size.
func TestForced(t *testing.T) {
	for _, c := range []struct {
		program, env, want string
		selection          bench.Selection
	}{
		{"all_reduce_perf", "", "64KiB ring/ll/2, 64MiB nvls/simple/16", bench.SelectionDefault},
		{"all_reduce_perf", "NCCL_ALGO=Tree NCCL_PROTO=LL128", "64KiB tree/ll128/8, 64MiB tree/ll128/24",
			bench.SelectionOwnChannels},
		{"all_reduce_perf", "NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MIN_NCHANNELS=4 NCCL_MAX_NCHANNELS=4",
			"64KiB ring/simple/2, 64MiB ring/simple/4", bench.SelectionForced},
		{"all_reduce_perf", "NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MIN_CTAS=32",
			"64KiB ring/simple/2, 64MiB ring/simple/32", bench.SelectionForced},
		{"all_gather_perf", "NCCL_ALGO=allgather:ring;allreduce:tree NCCL_PROTO=LL",
			"64KiB ring/ll/2, 64MiB ring/ll/24", bench.SelectionOwnChannels},
		{"reduce_scatter_perf", "NCCL_ALGO=NVLS", "64KiB nvls/simple/4, 64MiB nvls/simple/16",
			bench.SelectionOwnChannels},
	} {
		r := read(t, started(t, 0, slices.Concat(logged, strings.Fields(c.env)), c.program, "-g", "8", "-b", "64K",
			"-e", "64M", "-f", "1024", "-n", "2"))
		if got := choices(r); got != c.want || r.Samples[0].Selection != c.selection || len(r.Notes) > 0 {
			t.Errorf("%s %s: %s as %d, want %s as %d; %v", c.program, c.env, got, r.Samples[0].Selection, c.want,
				c.selection, r.Notes)
		}
	}
}

// NCCL's log has what its variables ask for.
func TestLog(t *testing.T) {
	for env, want := range map[string]string{
		"":                "",
		"NCCL_DEBUG=WARN": "NCCL version 2.30.7+cuda13.0\n",
		"NCCL_DEBUG=INFO": "[0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 2.\n",
		"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING": "[0] NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL " +
			"channel{Lo..Hi}={0..0}\n",
	} {
		log := started(t, exitOK, append(strings.Fields(env), "NCCL_MAX_NCHANNELS=2"), "all_reduce_perf", "-g", "8",
			"-b", "1K", "-e", "1K")
		if !strings.Contains(log, want) || want == "" && strings.Contains(log, "NCCL version") ||
			strings.Contains(env, "SUBSYS") == strings.Contains(log, "set by") && strings.Contains(env, "INFO") {
			t.Errorf("%s: %s", env, log)
		}
	}
}

// The real library, loaded with a policy of one row, decides, and NCCL cuts the channels to those that it has.
func TestTuner(t *testing.T) {
	testlib.NeedPlugin(t)
	for row, want := range map[string]string{
		"allreduce,0,inf,tree,simple,6,1,8":     "1MiB tree/simple/6, 16MiB tree/simple/6",
		"allreduce,0,1M,ring,ll128,64,1,8":      "1MiB ring/ll128/24, 16MiB nvls/simple/16",
		"allreduce,2M,inf,ring,simple,-1,-1,-1": "1MiB ring/ll/24, 16MiB ring/simple/24",
		"allreduce,0,inf,ring,simple,4,2,16":    "1MiB ring/ll/24, 16MiB nvls/simple/16",
	} {
		env := slices.Concat(logged, []string{"NCCL_TUNER_PLUGIN=" + testlib.Library,
			"NCCL_TUNER_CONFIG_FILE=" + testlib.File(t, "p.csv", row+"\n")})
		r := read(t, started(t, 0, env, "all_reduce_perf", "-g", "8", "-b", "1M", "-e", "16M", "-f", "16", "-n", "2"))
		if got := choices(r); got != want || !strings.HasPrefix(r.Samples[0].Setup.Tuner, "nccl-tuner-go ") {
			t.Errorf("%s: %s, want %s; %+v", row, got, want, r.Samples[0].Setup)
		}
	}
	// Told to say what it decides, and asked for what this NCCL does not have.
	env := []string{"NCCL_DEBUG=INFO", "NCCL_TUNER_PLUGIN=" + testlib.Library,
		"NCCL_TUNER_LOG=decisions",
		"NCCL_TUNER_CONFIG_FILE=" + testlib.File(t, "p.csv", "allreduce,0,inf,pat,simple,4,1,8\n")}
	r := read(t, started(t, 0, env, "all_reduce_perf", "-g", "8", "-b", "1M", "-e", "1M"))
	if len(r.Samples) > 0 || len(r.Rejected) != 1 || !strings.Contains(r.Rejected[0].Reason, "not available here") {
		t.Errorf("%v, %v", r.Samples, r.Rejected)
	}
	// A job profile has what the library says that it decides.
	env = []string{"NCCL_DEBUG=INFO", "NCCL_TUNER_PLUGIN=" + testlib.Library, "NCCL_TUNER_LOG=decisions",
		"NCCL_TUNER_CONFIG_FILE=" + testlib.File(t, "p.csv", "allreduce,0,1M,tree,simple,4,1,8\n")}
	job := profile.NewJob()
	if err := job.Log("job.log", strings.NewReader(started(t, 0, env, "all_reduce_perf", "-g", "8", "-b", "1M",
		"-e", "2M", "-f", "2"))); err != nil {
		t.Fatal(err)
	}
	p, err := job.Profile(0)
	if err != nil || len(p.Entries) != 2 || p.Entries[0].Ranks != 8 || p.Entries[0].Cell.String() != "tree/simple" ||
		p.Entries[0].Channels != 4 || p.Entries[1].DecidedBy != profile.ByNCCL {
		t.Errorf("%+v, %v", p, err)
	}
	// A policy that cannot be read fails the run.
	env = []string{"NCCL_DEBUG=WARN", "NCCL_TUNER_PLUGIN=" + testlib.Library, "NCCL_TUNER_STRICT=1",
		"NCCL_TUNER_CONFIG_FILE=" + testlib.File(t, "p.csv", "allreduce,0,inf,rign,simple,4,1,8\n")}
	if log := started(t, exitNCCL, env, "all_reduce_perf", "-g", "8"); !strings.Contains(log,
		`p.csv:1:4: unknown algorithm "rign"`) {
		t.Error(log)
	}
}

// The tuner is asked in each cycle, and another pass of NCCL_TUNER_PASSES decides it: what runs in a pass is what runs
// in a start of its own with that policy.
func TestPasses(t *testing.T) {
	plan := testlib.File(t, "passes", "a.csv\ndefault\nb.csv\n")
	policies := map[string]string{"a.csv": "allreduce,0,1M,tree,simple,4,-1,-1\n",
		"b.csv": "allreduce,0,inf,ring,simple,6,-1,-1\n"}
	for name, rows := range policies {
		if err := os.WriteFile(filepath.Join(filepath.Dir(plan), name), []byte(rows), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ran := func(release, cycles, tuner string) (calls []string) {
		env := append([]string{"FAKEPERF_NCCL=" + release, "NCCL_TUNER_PLUGIN=" + testlib.Library, tuner}, logged...)
		log := started(t, 0, env, "all_reduce_perf", "-g8", "-b1M", "-e4M", "-f2", "-w1", "-n1", cycles)
		for line := range strings.Lines(log) {
			if _, call, ok := strings.Cut(line, "AllReduce: "); ok {
				calls = append(calls, call)
			}
		}
		return slices.Compact(calls)
	}
	for release, option := range map[string]string{"2.30.7": "-N", "RCCL 2.27.7": "-s"} {
		var alone [][]string                                // with their warm-ups
		warmUps := map[string]int{"-N": 3, "-s": 1}[option] // that of 1 MiB joins the first size
		for _, tuner := range []string{"a.csv", "default", "b.csv", "default"} {
			file := ""
			if tuner != "default" {
				file = filepath.Join(filepath.Dir(plan), tuner)
			}
			alone = append(alone, ran(release, option+"1", "NCCL_TUNER_CONFIG_FILE="+file))
		}
		want := alone[0]
		for _, calls := range alone[1:] {
			want = append(want, calls[warmUps:]...)
		}
		if got := ran(release, option+"4", "NCCL_TUNER_PASSES="+plan); !slices.Equal(got, want) {
			t.Errorf("%s: in passes\n%s\neach alone\n%s", release, strings.Join(got, ""), strings.Join(want, ""))
		}
	}
}

const measured = `collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,inplace,selection,time_us
all_reduce,1024,float,sum,tree,ll,2,1,4,0,default,10
all_reduce,4096,float,sum,tree,ll,8,1,4,0,default,20
all_reduce,1024,float,sum,tree,ll,2,1,4,0,forced,9
all_reduce,4096,float,sum,tree,ll,2,1,4,0,forced,36
all_reduce,1024,float,sum,tree,ll,8,1,4,0,forced,16
all_reduce,4096,float,sum,tree,ll,8,1,4,0,forced,18
all_reduce,4096,float,sum,tree,ll,8,1,4,0,forced,19
all_reduce,4096,float,sum,tree,ll,8,1,4,0,forced,30
all_reduce,1024,float,sum,ring,simple,8,1,4,0,forced,30
all_reduce,4096,float,sum,ring,simple,8,1,4,0,forced,40
`

// The times of a sweep: NCCL's own where nothing is forced, else those of the configuration, between sizes and
// numbers of channels in proportion.
func TestGrid(t *testing.T) {
	grid := "FAKEPERF_GRID=" + testlib.File(t, "grid.csv", measured)
	for _, c := range []struct{ env, want string }{
		{"", "tree/ll/2 10.00, tree/ll/2 14.14, tree/ll/8 20.00, tree/ll/8 40.00"},
		{"NCCL_ALGO=Tree NCCL_MIN_NCHANNELS=2 NCCL_MAX_NCHANNELS=2",
			"tree/ll/2 9.00, tree/ll/2 18.00, tree/ll/2 36.00, tree/ll/2 72.00"},
		{"NCCL_ALGO=Tree NCCL_MIN_NCHANNELS=4 NCCL_MAX_NCHANNELS=4",
			"tree/ll/4 12.00, tree/ll/4 17.72, tree/ll/4 26.15, tree/ll/4 52.31"},
		{"NCCL_PROTO=Simple", "ring/simple/8 30.00, ring/simple/8 34.64, ring/simple/8 40.00, ring/simple/8 80.00"},
		{"NCCL_MIN_NCHANNELS=64", "tree/ll/8 16.00, tree/ll/8 17.44, tree/ll/8 19.00, tree/ll/8 38.00"},
	} {
		r := read(t, started(t, 0, slices.Concat(logged, []string{grid}, strings.Fields(c.env)), "all_reduce_perf",
			"-g", "4", "-b", "1K", "-e", "8K", "-f", "2", "-n", "1"))
		var got []string
		for _, s := range r.Samples {
			if !s.InPlace {
				got = append(got, fmt.Sprintf("%v/%v/%d %.2f", s.Algo, s.Proto, s.Channels, s.Micros))
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s, want %s", c.env, got, c.want)
		}
	}
	if log := started(t, exitNCCL, []string{grid, "NCCL_ALGO=NVLS"}, "all_reduce_perf", "-g",
		"4"); !strings.Contains(log,
		"No algorithm/protocol available for function AllReduce with datatype ncclFloat32. NCCL_ALGO was set "+
			"to NVLS.") {
		t.Error(log)
	}
	if log := started(t, exitUsage, []string{grid}, "all_reduce_perf", "-g",
		"8"); !strings.Contains(log, "times of allreduce 1x8 in ") ||
		!strings.Contains(log, "(there are: allreduce 1x4)") {
		t.Error(log)
	}
	if !probe.Supported {
		return
	}
	env := slices.Concat(logged, []string{grid, "NCCL_TUNER_PLUGIN=" + testlib.Library,
		"NCCL_TUNER_CONFIG_FILE=" +
			testlib.File(t, "p.csv", "allreduce,0,1K,tree,ll,2,1,4\nallreduce,2K,inf,ring,simple,8,1,4\n")})
	r := read(t, started(t, 0, env, "all_reduce_perf", "-g", "4", "-b", "1K", "-e", "4K", "-f", "2", "-n", "1"))
	if got := choices(r); got != "1KiB tree/ll/2, 2KiB ring/simple/8, 4KiB ring/simple/8" ||
		r.Samples[0].Micros != 9 || r.Samples[4].Micros != 40 {
		t.Errorf("%s, %+v", got, r.Samples)
	}
}

// Without a tuner and with the library's own answers, what a machine chooses has a time.
func TestEveryChoiceHasATime(t *testing.T) {
	for _, shape := range []nccl.Comm{{Nodes: 1, Ranks: 8}, {Nodes: 2, Ranks: 16}, {Nodes: 4, Ranks: 32},
		{Nodes: 1, Ranks: 2}, {Nodes: 2, Ranks: 2}, {Nodes: 8, Ranks: 32}} {
		for _, coll := range nccl.AllColls() {
			m, err := newCluster(settings{nccl: nccl.Reference}, coll, shape, channels.Variables{})
			if err != nil {
				t.Fatal(err)
			}
			for bytes := uint64(4); bytes <= 8<<30; bytes *= 2 {
				table := m.Table(bytes)
				for a, p := range nccl.Cells {
					if table[a][p] < 0 {
						continue
					}
					for _, n := range []int{1, m.Channels(a)} {
						if us, ok := m.Micros(nccl.Config{Cell: nccl.Cell{Algo: a, Proto: p}, Channels: n}, false,
							bytes); !ok || !(us > 0) {
							t.Fatalf("%v %s %d: %v/%v/%d takes %v, %v", shape, coll, bytes, a, p, n, us, ok)
						}
					}
				}
			}
		}
	}
}

// In CUDA graphs calls lack the host's part, which is most of a small call's time and nothing of a large one's.
func TestGraphs(t *testing.T) {
	times := func(args ...string) (all []float64) {
		log := started(t, exitOK, []string{"FAKEPERF_NOISE=0"}, "all_reduce_perf",
			append([]string{"-b", "1K", "-e", "1G", "-f", "1048576", "-g", "8"}, args...)...)
		for _, m := range regexp.MustCompile(`(?m)^ +[0-9]+ +[0-9]+ +float +sum +-1 +([0-9.]+) `).FindAllStringSubmatch(log, -1) {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	eager, graphs := times(), times("-G", "10")
	if len(eager) != 2 || len(graphs) != 2 || graphs[0] > .7*eager[0] || graphs[1] < .99*eager[1] {
		t.Errorf("eager %v, in graphs %v", eager, graphs)
	}
	started(t, exitUsage, nil, "all_reduce_perf", "-g", "8", "-G", "-1")
}
