package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// Each failure is seen in the log as what it is.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		env, args string
		code      int
		kept      int
		want      string // among notes and reasons
	}{
		{"FAKEPERF_FAIL=crash", "", -1, 4, "Signal: Segmentation fault (11)"},
		{"FAKEPERF_FAIL=cuda-error", "", exitCUDA, 5,
			"Test CUDA failure common.cu:612 'an illegal memory access was encountered'"},
		{"FAKEPERF_FAIL=cuda-error:nvls", "", exitOK, 8, ""},
		{"FAKEPERF_FAIL=cuda-error:ring/ll", "", exitCUDA, 1, "Test CUDA failure"},
		{"FAKEPERF_FAIL=cuda-error:nvls", "-b 1M -e 81M -f 9", exitCUDA, 3, "Test CUDA failure"},
		{"FAKEPERF_FAIL=wrong", "", exitWrong, 7, "failed validation"},
		{"FAKEPERF_FAIL=unsupported NCCL_DEBUG=INFO NCCL_ALGO=Ring NCCL_PROTO=LL", "", exitNCCL, 0,
			"tunefit sweep --dry-run --from this log or the sweep made of it leaves ring/ll out"},
		{"FAKEPERF_FAIL=node-lost", "", exitNCCL, 4, "remote process exited"},
		{"FAKEPERF_FAIL=node-lost NCCL_DEBUG=INFO NCCL_ALGO=Ring NCCL_PROTO=LL", "", exitNCCL, 5,
			"if ring/ll cannot run here, --skip ring/ll leaves it out"},
		{"FAKEPERF_FAIL=truncated", "", exitOK, 5, "it was cut off"},
		{"NCCL_ALGO=NVLSTree", "", exitNCCL, 0, "NCCL_ALGO was set to NVLSTree"},
		{"NCCL_PROTO=Simplest", "", exitNCCL, 0, "the run failed"},
	} {
		args := append([]string{"-g", "8", "-b", "1K", "-e", "8K", "-f", "2"}, strings.Fields(c.args)...)
		r := read(t, started(t, c.code, append([]string{"FAKEPERF_NOISE=0"}, strings.Fields(c.env)...),
			"all_reduce_perf", args...))
		said := []string{}
		for _, n := range r.Notes {
			said = append(said, n.Text)
		}
		for _, rej := range r.Rejected {
			said = append(said, rej.Reason)
		}
		if len(r.Samples) != c.kept || !strings.Contains(strings.Join(said, "\n"), c.want) {
			t.Errorf("%s: %d kept, want %d, and no %q in %q", c.env, len(r.Samples), c.kept, c.want, said)
		}
	}
}

// A slow start takes twice as long from the middle on, a slow configuration wherever it runs.
func TestSlow(t *testing.T) {
	times := func(env ...string) (all []float64) {
		log := started(t, exitOK, append(env, "FAKEPERF_NOISE=0", "NCCL_ALGO=Ring"), "all_reduce_perf", "-g", "8",
			"-b", "1M", "-e", "8M", "-f", "2")
		for _, s := range read(t, log).Samples {
			all = append(all, s.Micros)
		}
		return all
	}
	usual := times()
	for what, want := range map[string]string{"slow": "1 1 1 1 2 2 2 2", "slow:2": "1 1 1 1 1 1 1 1",
		"slow:ring": "2 2 2 2 2 2 2 2", "slow:tree": "1 1 1 1 1 1 1 1"} {
		var got []string
		for i, micros := range times("FAKEPERF_FAIL="+what, "FAKEPERF_STATE=starts") {
			got = append(got, fmt.Sprintf("%.2g", micros/usual[i]))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: times are %s of the usual ones, want %s", what, text, want)
		}
	}
}

// A tuner that is not loaded is seen as such.
func TestPluginNotLoaded(t *testing.T) {
	testlib.NeedPlugin(t)
	env := []string{"FAKEPERF_FAIL=plugin-not-loaded", "NCCL_DEBUG=INFO", "NCCL_TUNER_PLUGIN=" + testlib.Library,
		"NCCL_TUNER_LOG=decisions"}
	r := read(t, started(t, exitOK, env, "all_reduce_perf", "-g", "8", "-b", "1K", "-e", "2K", "-f", "2"))
	if len(r.Samples) > 0 || !strings.Contains(fmt.Sprint(r.Rejected), "was not loaded") {
		t.Errorf("%v %v", r.Samples, r.Rejected)
	}
}

// Starts are counted, and fail by their number; their noise is their own, and the same when they are repeated.
func TestStarts(t *testing.T) {
	var logs []string
	for range 2 {
		state := filepath.Join(t.TempDir(), "starts")
		for start, code := range []int{0, 0, exitWrong, exitWrong, 0} {
			log := started(t, code, []string{"FAKEPERF_STATE=" + state, "FAKEPERF_FAIL=wrong:3,wrong:4"}, "all_reduce_perf",
				"-g", "8", "-b", "1K")
			times := strings.Split(log, "\n")
			logs = append(logs,
				strings.Join(slices.DeleteFunc(times, func(line string) bool { return strings.Contains(line, "id ") }),
					"\n"))
			if text, err := os.ReadFile(state); err != nil || strings.Count(string(text), "\n") != start+1 ||
				!strings.Contains(string(text), strconv.Itoa(start+1)+" all_reduce_perf -g 8 -b 1K\n") {
				t.Errorf("%q, %v", text, err)
			}
		}
	}
	if !slices.Equal(logs[:5], logs[5:]) || logs[0] == logs[1] {
		t.Errorf("%q", logs)
	}
}

// A run that hangs has printed what it prints, and it and its child ignore SIGTERM.
func TestHang(t *testing.T) {
	c := command(t, []string{"FAKEPERF_FAIL=hang"}, "all_reduce_perf", "-g", "8", "-b", "1K", "-e", "8K", "-f", "2")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(stderr)
	for line := ""; line != "# simulated nccl-tests: hangs\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	for _, file := range threads {
		if text, err := os.ReadFile(file); err == nil {
			children = append(children, strings.Fields(string(text))...)
		}
	}
	if len(children) != 1 && len(threads) > 0 {
		t.Errorf("children %q", children)
	}
	for _, pid := range append(children, strconv.Itoa(c.Process.Pid)) {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			t.Fatal(err)
		}
		_, mask, _ := strings.Cut(string(status), "SigIgn:")
		ignored, err := strconv.ParseUint(strings.Fields(mask)[0], 16, 64)
		if err != nil || (ignored>>(syscall.SIGTERM-1)&1 == 0) {
			t.Errorf("process %s ignores %x, %v", pid, ignored, err)
		}
	}
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, in)
	_ = c.Wait()
}

// Seconds of the cluster: the start and all calls, with those that warm up.
func TestSeconds(t *testing.T) {
	grid := testlib.File(t, "grid.csv", `collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us
allreduce,1048576,ring,ll,1,1,8,default,10000
allreduce,1048576,ring,ll,1,1,8,forced,10000
`)
	for args, want := range map[string]string{
		"-n 100 -w 50":     "would take 7.5400 s", // 5 + (50 + 2 x (1 + 100 + 1)) x 0.01
		"-n 100 -w 0 -c 0": "would take 7.0200 s",
	} {
		log := started(t, exitOK, []string{"FAKEPERF_GRID=" + grid}, "all_reduce_perf",
			append([]string{"-g", "8", "-b", "1M", "-e", "1M"}, strings.Fields(args)...)...)
		if !strings.Contains(log, want) {
			t.Errorf("%s: no %q in\n%s", args, want, log)
		}
	}
}
