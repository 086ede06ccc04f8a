package bench

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// The options that times depend on stay with the times, and in the sweep made of them. Those that a command has and
// nccl-tests does not print are only mentioned.
func TestOptionsOfTests(t *testing.T) {
	const head, row = "# nThread 1 nGpus %d minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: %d agg " +
		"iters: %d validation: 1 graph: %d unalign: 0\n",
		"          64            16     float     sum      -1     9.31    0.01    0.01       0     9.28    0.01    " +
			"0.01       0\n# Avg bus bandwidth    : 0.01\n"
	plain := fmt.Sprintf(head, 8, 20, 1, 0)
	for _, c := range []struct{ text, want string }{
		{plain + row, "-t 1 -g 8 -n 20 -w 5"},
		{plain + row + fmt.Sprintf(head, 8, 100, 10, 2) + row, "-t 1 -g 8 -n 20 -w 5; -t 1 -g 8 -n 100 -w 5 -m 10 -G 2"},
		{"$ ./all_reduce_perf -b 8 -R 2 -a 1 -z 0\n" + plain + row + "$ mpirun ./all_reduce_perf --blocking=1 -a2\n" + plain + row,
			"-t 1 -g 8 -n 20 -w 5 -R=2?; -t 1 -g 8 -n 20 -w 5 -a=2? -z=1?"},
		{"# Blocking Enabled: wait for completion and barrier after each collective\n" + row + row, "-z 1"},
		{fmt.Sprintf(strings.Replace(head, "warmup iters: 5", "warmup iters: 0", 1), 8, 20, 1, 0) + row, "-t 1 -g 8 -n 20 -w 0"},
		{"$ ./all_reduce_perf -R 1\n" + plain + row + plain + row, "-t 1 -g 8 -n 20 -w 5 -R=1?; -t 1 -g 8 -n 20 -w 5"},
		{"$ ./all_reduce_perf -g 8 -n 20\n" + plain + row + plain + row, "-t 1 -g 8 -n 20 -w 5"},
		{"=== CUDA graphs ===\n" + row, "options not known -G=?"},
		{"$ ./all_reduce_perf -G 10 -m 4\n# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor)\n" + row,
			"-t 1 -g 8 -G=10? -m=4?"},
		{`{"version":3,"args":["./all_reduce_perf","-R","1"],"config":{"nthreads":2,"ngpus":4,"warmup_iters":5,"iterations":20,` +
			`"aggregated_iterations":1,"graph":0,"blocking_collectives":"true"},"results":[{"size":64,"count":16,` +
			`"type":"float","redop":"sum","root":"-1","out_of_place":{"time":20}}]}`, "-t 2 -g 4 -n 20 -w 5 -R 1 -z 1"},
	} {
		coll := nccl.CollAllReduce
		r, err := Read(strings.NewReader(c.text), "x.log", Options{Coll: &coll})
		var sweep bytes.Buffer
		again := &Result{}
		if err == nil {
			if err = WriteTidy(&sweep, r.Samples); err == nil {
				again, err = Read(&sweep, "x.csv", Options{})
			}
		}
		for _, r := range []*Result{r, again} {
			var got []string
			for _, s := range r.Samples {
				said := s.Series().Conditions.String()
				if n := len(got); n == 0 || got[n-1] != said {
					got = append(got, said)
				}
			}
			if err != nil || strings.Join(got, "; ") != c.want {
				t.Errorf("%v %q, want %s of\n%s", err, got, c.want, c.text)
			}
		}
	}
}

// The caller tells what a command only mentions.
func TestOptionsByCaller(t *testing.T) {
	for with, want := range map[string]string{"-a=2": "-t 1 -g 1 -n 20 -w 5 -a 2", "-a=": "-t 1 -g 1 -n 20 -w 5",
		"-a=0": "-t 1 -g 1 -n 20 -w 5 -a 0"} {
		name, value, _ := strings.Cut(with, "=")
		r, err := Read(strings.NewReader("$ ./all_reduce_perf -a 2\n"+oneRun()), "x.log", Options{With: map[string]string{name: value}})
		if err != nil || len(r.Samples) == 0 || r.Samples[0].Series().Conditions.String() != want || len(r.Notes) > 0 {
			t.Errorf("%s: %v %+v, want %s", with, err, r, want)
		}
	}
}

// Variables that change NCCL's choice stay with it, whoever of those that know tells them.
func TestVariablesThatChangeTheChoice(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	for _, c := range []struct{ text, want string }{
		{oneRun(info + "NCCL_NVLS_ENABLE set by environment to 0."), "NCCL_NVLS_ENABLE=0"},
		{"$ NCCL_P2P_DISABLE=1 NCCL_DEBUG=WARN mpirun -x NCCL_BUFFSIZE=8388608 ./all_reduce_perf\n" + oneRun(),
			"NCCL_BUFFSIZE=8388608? NCCL_P2P_DISABLE=1?"},
		{oneRun(info+"NCCL_DEBUG set by environment to INFO", info+"NCCL_SOCKET_IFNAME set by environment to eth0"), "NCCL_SOCKET_IFNAME=eth0"},
		{oneRun(info + "RCCL_MSCCL_ENABLE set by environment to 1."), "RCCL_MSCCL_ENABLE=1"},
		{oneRun(info+"NCCL_SHM_DISABLE set by environment to 1.") + oneRun(), "NCCL_SHM_DISABLE=1; "},
	} {
		r, err := Read(strings.NewReader(c.text), "x.log", Options{})
		var got []string
		for i, s := range r.Samples {
			if s.Selection != SelectionDefault {
				t.Errorf("selection %d of\n%s", s.Selection, c.text)
			}
			if i%2 == 0 {
				got = append(got, s.Setup.Variables)
			}
		}
		if err != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%v %q, want %s of\n%s", err, got, c.want, c.text)
		}
		var sweep bytes.Buffer
		if err := WriteTidy(&sweep, r.Samples); err != nil {
			t.Fatal(err)
		}
		if again, err := Read(&sweep, "x.csv", Options{}); err != nil || !reflect.DeepEqual(again.Samples, r.Samples) {
			t.Errorf("%v: written and read again %+v", err, again)
		}
	}
}

// A most number of channels, with none or a smaller least one, is how a site runs everything: what NCCL chooses below
// it is the default there, and the times say what they were measured under. What leaves NCCL no choice forces one.
func TestBoundsAreNoChoice(t *testing.T) {
	const info = "node0:7:9 [0] NCCL INFO "
	set := func(variables ...string) (text string) {
		for _, v := range variables {
			text += info + "NCCL_" + strings.Replace(v, "=", " set by environment to ", 1) + ".\n"
		}
		return text + info + "AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}\n"
	}
	const loaded = info + "TUNER/Go: start library=0.3.0 ranks=8 nodes=1\n" + info + "TUNER/Go: decision coll=allreduce size=1MiB pipe_ops=1 "
	for _, c := range []struct {
		log, variables string
		selection      Selection
	}{
		{set("MAX_NCHANNELS=24"), "NCCL_MAX_NCHANNELS=24", SelectionDefault},
		{set("MAX_CTAS=24", "MIN_CTAS=4"), "NCCL_MAX_CTAS=24 NCCL_MIN_CTAS=4", SelectionDefault},
		{set("MAX_NCHANNELS=8", "ALGO=Ring"), "NCCL_MAX_NCHANNELS=8", SelectionForced},
		{set("MAX_NCHANNELS=24") + loaded + "choice=ring/ll channels=8 by=x.csv:1\n", "NCCL_MAX_NCHANNELS=24",
			SelectionForced},
		{set("MAX_NCHANNELS=24") + loaded + "choice=ring/ll by=x.csv:1\n", "NCCL_MAX_NCHANNELS=24",
			SelectionOwnChannels},
		{set("MAX_NCHANNELS=8", "MIN_NCHANNELS=8"), "", SelectionForced},
		{set("MAX_NCHANNELS=8", "MIN_NCHANNELS=16"), "", SelectionForced},
		{set("MIN_NCHANNELS=4"), "", SelectionForced},
		{set("MAX_NCHANNELS=24", "MIN_CTAS=4"), "NCCL_MAX_NCHANNELS=24", SelectionForced},
		{set("MAX_NCHANNELS=many"), "", SelectionDefault},
	} {
		r, err := Read(strings.NewReader(oneRun(c.log)), "x.log", Options{})
		if err != nil || len(r.Samples) == 0 {
			t.Errorf("%v: %+v of\n%s", err, r, c.log)
			continue
		}
		if s := r.Samples[0]; s.Selection != c.selection || s.Setup.Variables != c.variables {
			t.Errorf("%q under %q, want %q under %q of\n%s", selections[s.Selection], s.Setup.Variables,
				selections[c.selection], c.variables, c.log)
		}
	}
}
