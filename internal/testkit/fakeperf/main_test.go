package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// asFakePerf makes the test binary be the stand-in: it has to be a process to be started by others and to die.
const asFakePerf = "TEST_AS_FAKEPERF"

func TestMain(m *testing.M) {
	if os.Getenv(asFakePerf) != "" {
		main()
	}
	os.Exit(testlib.Run(m))
}

// command is a start of a program of nccl-tests, with nothing of the caller's environment that counts.
func command(t *testing.T, env []string, program string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, args...)
	c.Args[0] = program
	c.Env = append([]string{asFakePerf + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"FAKEPERF_HOSTS=host0,host1,host2"}, env...)
	c.Dir = t.TempDir()
	c.Env = append(c.Env, "GOCOVERDIR="+t.TempDir()) // without one, go test -cover has it print a warning
	return c
}

// started runs one, with both outputs in one text as in a log.
func started(t *testing.T, wantCode int, env []string, program string, args ...string) string {
	t.Helper()
	c := command(t, env, program, args...)
	out, err := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != wantCode {
		t.Errorf("%v %s %v: exit code %d, want %d, %v\n%s", env, program, args, code, wantCode, err, out)
	}
	return string(out)
}

// read is what bench makes of a log.
func read(t *testing.T, log string) *bench.Result {
	t.Helper()
	r, err := bench.Read(strings.NewReader(log), "log", bench.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return r
}

// rows are samples without where they are from.
func rows(samples []bench.Sample) string {
	all := bytes.Buffer{}
	for _, s := range samples {
		fmt.Fprintf(&all, "%s %d %s %q %v/%v/%d %dx%d %v %d %v\n", s.Coll, s.Bytes, s.DType, s.RedOp, s.Algo, s.Proto,
			s.Channels, s.Nodes, s.Ranks, s.InPlace, s.Selection, s.Simulated)
	}
	return all.String()
}

// What is printed is read as what ran, for each collective, with trimmed sizes.
func TestReadBack(t *testing.T) {
	for program, want := range map[string]string{
		"all_reduce_perf":     "allreduce 1000 float sum, 4000 float sum",
		"reduce_perf":         "reduce 1000 float sum, 4000 float sum",
		"broadcast_perf":      "broadcast 1000 float , 4000 float ",
		"all_gather_perf":     "allgather 768 float , 3840 float ",
		"reduce_scatter_perf": "reducescatter 768 float sum, 3840 float sum",
	} {
		c := command(t, []string{"FAKEPERF_NOISE=0", "FAKEPERF_RANKS_PER_NODE=8", "OMPI_COMM_WORLD_SIZE=3"}, program,
			"-g8", "-b", "1000", "-e", "4K", "--stepfactor=4")
		log, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		text := read(t, string(log))
		if len(text.Notes) > 0 || len(text.Rejected) > 0 {
			t.Errorf("%s: %v, %v", program, text.Notes, text.Rejected)
		}
		got := []string{}
		for _, s := range text.Samples {
			if s.Nodes != 3 || s.Ranks != 24 || !s.Simulated || s.Setup.NCCL != "2.30.7" ||
				s.Setup.Hosts != "host0 host1 host2" {
				t.Errorf("%s: %+v, %+v", program, s, s.Setup)
			}
			if !s.InPlace {
				got = append(got, fmt.Sprintf("%d %s %s", s.Bytes, s.DType, s.RedOp))
			}
		}
		if got := text.Samples[0].Coll.String() + " " + strings.Join(got, ", "); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
		var sweep bytes.Buffer
		if err := bench.WriteTidy(&sweep, text.Samples); err != nil ||
			strings.Count(sweep.String(), ",simulated:log:") != 4 {
			t.Errorf("%v\n%s", err, sweep.String())
		}
	}
}

// The last lines tell what the rows add up to.
func TestSummary(t *testing.T) {
	log := started(t, exitWrong, []string{"FAKEPERF_NOISE=0", "FAKEPERF_FAIL=wrong"}, "all_reduce_perf", "-g8", "-b",
		"256M", "-e", "1G", "-f", "4")
	var sum float64
	var wrong, times int
	for line := range strings.Lines(log) {
		f := strings.Fields(line)
		if len(f) != 13 || f[0] == "#" {
			continue
		}
		for _, half := range [][]string{f[5:9], f[9:13]} {
			busBW, err := strconv.ParseFloat(half[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += busBW
			times++
			if half[3] != "0" {
				wrong++
			}
		}
	}
	var printed float64
	if _, after, ok := strings.Cut(log, "# Avg bus bandwidth    : "); !ok || times != 4 {
		t.Fatalf("%d times in\n%s", times, log)
	} else if _, err := fmt.Sscan(after, &printed); err != nil || math.Abs(printed-sum/4) > .01 {
		t.Errorf("%v: an average of %g GB/s in\n%s", err, printed, log)
	}
	if want := fmt.Sprintf("# Out of bounds values : %d FAILED\n", wrong); wrong == 0 ||
		!strings.Contains(log, want) {
		t.Errorf("no %q in\n%s", want, log)
	}
}

// Sizes that are trimmed to nothing, types and operations are as in nccl-tests. What is not imitated is refused.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		program, args string
		code          int
		want          string
	}{
		{"all_gather_perf", "-g 8 -b 64 -e 128 -f 2", 0,
			"           0             0     float    none      -1     0.40    0.00    0.00       0"},
		{"reduce_perf", "-g 2 -b 1K -e 1K", 0, "        1024           256     float     sum       0  "},
		{"all_reduce_perf", "-g 2 -b 1K -e 1K -d f8e5m2 -o mulsum", 0,
			"        1024          1024    f8e5m2  mulsum      -1  "},
		{"all_reduce_perf", "-g 2 -b 1.5K -e 3k -i 512 -c 0", 0,
			"        2048           512     float     sum      -1    "},
		{"all_reduce_perf", "-g 2 -b 1K -e 1K -c 0", 0, "     N/A\n"},
		{"all_reduce_perf_mpi", "-g 2 -b 1K -e 1K", 0, "# Collective test starting: all_reduce_perf\n"},
		{"all_reduce_perf", "-b 1M", 255, "one rank alone is not imitated"},
		{"all_reduce_perf", "-g 2 -d int9", 255, "unknown -d int9 (allowed: bfloat16, "},
		{"all_reduce_perf", "--help", 0, "USAGE: all_reduce_perf"},
		{"all_reduce_perf", "-g 2 -b 2K -e 1K", 255, "invalid sizes for 'minbytes' and 'maxbytes': 2048 > 1024\n"},
		{"all_reduce_perf", "-b 1X", 255, "invalid size specified for 'minbytes'\n"},
		{"all_reduce_perf", "-I 1", 255, "(allowed of nccl-tests' options: -c,--check"},
		{"all_reduce_perf", "-b 0 -e 1K -f 2", 255, "would never reach its last size"},
		{"nccl-tests-fakeperf", "all_reduce_perf -g 2", 0, "# Collective test concluded: all_reduce_perf\n"},
		{"nccl-tests-fakeperf", "", 255,
			`called as "nccl-tests-fakeperf" (allowed as its name or first argument: all_gather_perf, all_reduce_perf, broadcast_perf, reduce_perf, reduce_scatter_perf)`},
	} {
		if log := started(t, c.code, []string{"FAKEPERF_NOISE=0"}, c.program,
			strings.Fields(c.args)...); !strings.Contains(log, c.want) {
			t.Errorf("%s %s: no %q in\n%s", c.program, c.args, c.want, log)
		}
	}
}

// A seed draws the same noise again, and each start of a sweep its own.
func TestSeed(t *testing.T) {
	play := func(seed string, starts int) string {
		state := filepath.Join(t.TempDir(), "starts")
		var log string
		for range starts {
			log = started(t, exitOK, []string{"FAKEPERF_SEED=" + seed, "FAKEPERF_STATE=" + state, "FAKEPERF_NOISE=0.02"},
				"all_reduce_perf", "-b", "1M", "-g", "8")
		}
		return rowsOf(log)
	}
	first := play("7", 1)
	for name, c := range map[string]struct {
		rows string
		same bool
	}{
		"the same seed": {play("7", 1), true}, "another seed": {play("8", 1), false},
		"the second start": {play("7", 2), false},
	} {
		if (c.rows == first) != c.same {
			t.Errorf("%s: the same times are %v, want %v:\n%s%s", name, !c.same, c.same, first, c.rows)
		}
	}
}

// rowsOf are the lines of a log that hold times.
func rowsOf(log string) (rows string) {
	for line := range strings.Lines(log) {
		if !strings.HasPrefix(line, "#") {
			rows += line
		}
	}
	return rows
}

// A wrong setting is refused, each with what is allowed.
func TestSettings(t *testing.T) {
	for setting, want := range map[string]string{
		"FAKEPERF_GIRD=x":             "FAKEPERF_GIRD=x: there is no such setting (allowed: FAKEPERF_GRID,",
		"FAKEPERF_NOISE=1":            "FAKEPERF_NOISE=1: not a number from 0 to 0.2",
		"FAKEPERF_SEED=0":             "FAKEPERF_SEED=0: not a whole number from 1",
		"FAKEPERF_FAIL=krash":         `FAKEPERF_FAIL=krash: unknown failure "krash" (did you mean "crash"; allowed: crash,`,
		"FAKEPERF_FAIL=crash:rign/ll": `unknown algorithm "rign"`,
		"FAKEPERF_FAIL=crash:0":       `"0" is not the number of a start`,
		"FAKEPERF_FAIL=crash:3":       "set FAKEPERF_STATE to a file that counts them",
		"FAKEPERF_GRID=none.csv":      "none.csv: no such file",
	} {
		if log := started(t, exitUsage, []string{setting}, "all_reduce_perf", "-g",
			"8"); !strings.HasPrefix(log, "simulated nccl-tests: ") || !strings.Contains(log, want) {
			t.Errorf("%s: no %q in %s", setting, want, log)
		}
	}
}

// A start repeats its rows in cycles, which the tuner is asked in anew; rccl-tests has another option for it, and a line
// before each further one. Old nccl-tests has none.
func TestCycles(t *testing.T) {
	column := func(log string, n int) (all []string) {
		for line := range strings.Lines(log) {
			if f := strings.Fields(line); len(f) > n && f[0] != "#" && f[2] == "float" {
				all = append(all, f[n])
			}
		}
		return all
	}
	args := []string{"-g8", "-b", "1M", "-e", "4M", "-f", "2"}
	sizes := []string{"1048576", "2097152", "4194304"}
	log := started(t, exitOK, nil, "all_reduce_perf", append(args, "-N", "3")...)
	if got := column(log, 0); !slices.Equal(got, slices.Concat(sizes, sizes, sizes)) {
		t.Errorf("sizes of three cycles: %v", got)
	}
	if times := column(log, 5); times[0] == times[3] && times[1] == times[4] && times[2] == times[5] {
		t.Errorf("two cycles have the same times: %v", times)
	}
	log = started(t, exitOK, []string{"FAKEPERF_NCCL=RCCL 2.27.7"}, "all_reduce_perf", append(args, "-s", "2")...)
	if got := column(log, 0); !slices.Equal(got, slices.Concat(sizes, sizes)) || strings.Count(log, "# Testing 2 cycle.") != 1 {
		t.Errorf("rccl-tests:\n%s", log)
	}
	for _, c := range []struct{ env, option string }{{"FAKEPERF_FAIL=no-cycles", "-N"}, {"FAKEPERF_NCCL=RCCL 2.27.7", "-N"},
		{"FAKEPERF_NCCL=2.30.7", "-s"}} {
		log := started(t, exitUsage, []string{c.env}, "all_reduce_perf", append(args, c.option, "2")...)
		if !strings.Contains(log, "unknown shorthand flag: '"+c.option[1:]+"'") {
			t.Errorf("%v: %s", c, log)
		}
	}
	if usage := started(t, exitOK, nil, "all_reduce_perf", "--help"); !strings.Contains(usage, " -N,--run_cycles") {
		t.Errorf("the usage does not name -N:\n%s", usage)
	}
}

// NCCL is asked for the sizes of the warm-up first: all by doubling, of rccl-tests the largest and the smallest.
func TestWarmUp(t *testing.T) {
	for tests, want := range map[string]string{"2.30.7": "1048576 2097152 4194304", "RCCL 2.27.7": "4194304 1048576"} {
		log := started(t, exitOK, []string{"FAKEPERF_NCCL=" + tests, "NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=TUNING"},
			"all_reduce_perf", "-g8", "-b", "1M", "-e", "4M", "-f", "2", "-w", "1")
		var asked []string
		for line := range strings.Lines(log) {
			if strings.HasPrefix(line, "   ") { // the first row
				break
			}
			if _, call, ok := strings.Cut(line, "AllReduce: "); ok {
				asked = append(asked, strings.Fields(call)[0])
			}
		}
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%s: %s, want %s", tests, got, want)
		}
	}
}
