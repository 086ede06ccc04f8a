//go:build cgo

package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// built holds what the tests load and run; it is made once, by the Makefile, as
// users get it.
var built programs

type programs struct{ dir, so, scenarios, rank, trainer, handOver string }

// envBuild names the folder where the Makefile has built them already.
const envBuild = "TEST_BUILD"

func TestMain(m *testing.M) {
	if os.Getenv(askLimits) != "" {
		fmt.Print(runtime.GOMAXPROCS(0), " ", collections() <= 2)
		os.Exit(0)
	}
	testlib.CleanEnvironment()
	os.Exit(func() int {
		flag.Set("test.parallel", "16") // tests with jobs wait more than they compute
		if dir := os.Getenv(envBuild); dir != "" {
			built = programsIn(dir)
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "nccl-tuner-go-test-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if built, err = build(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func programsIn(dir string) programs {
	in := func(name string) string { return filepath.Join(dir, name) }
	return programs{dir, in("libnccl-tuner-go.so"), in("scenarios"), in("rank"), in("trainer"), in("hand_over")}
}

// build makes the library and its hosts with make variables such as SANITIZE=x.
func build(dir string, variables ...string) (programs, error) {
	p := programsIn(dir)
	args := append([]string{"-s", "-C", "../..", "BUILD=" + dir, p.so, p.scenarios, p.rank, p.trainer, p.handOver},
		variables...)
	out, err := exec.Command("make", args...).CombinedOutput()
	if err != nil {
		return programs{}, fmt.Errorf("make %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return p, nil
}

// long skips a test in `make check`; `make test` runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
}

// command runs a program that was built. go test looks at it, too, before it takes a
// result from its cache.
func command(program string, args ...string) *exec.Cmd {
	os.Stat(program)
	return exec.Command(program, args...)
}

// scenario runs one scenario of testhost and returns what the plugin
// logged. Anything on standard error is a failure: a plugin prints nothing.
func scenario(t *testing.T, scenarios, so, name string, env ...string) (log []string) {
	t.Helper()
	cmd := command(scenarios, so, name)
	// The scenarios' communicators have one id and most of their ranks do not exist.
	cmd.Env = append(append(os.Environ(), "SCENARIO_DIR="+t.TempDir(), "NCCL_TUNER_RELOAD=new"), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v\n%s%s", err, stdout.String(), stderr.String())
	}
	for line := range strings.Lines(stdout.String()) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "INFO TUNER/Go: ") && !strings.HasPrefix(line, "WARN TUNER/Go: ") {
			t.Errorf("printed past the logger: %q", line)
		}
		log = append(log, line)
	}
	return log
}

// few is the setting of scenarios that are emulated or instrumented, or part of `make check`:
// they repeat a tenth of what the others do, except in the nightly run.
func few() []string {
	if os.Getenv(nccltest.EnvNightly) != "" {
		return nil
	}
	return []string{"SCENARIO_FEW=1"}
}

var scenarios = []string{
	"versions", "nulls", "constants", "nvl_domains", "table_sizes", "reg_buff", "v2", "chunks", "broadcasts",
	"asks_of_231", "many_shapes", "keys", "remembers", "threads",
	"crowd", "aborts", "again", "environment", "child_calls", "open_files", "no_descriptors", "signals", "strict", "unrecorded", "named",
}

// What NCCL does to a tuner, done to the library by a C program.
func TestScenarios(t *testing.T) {
	var env []string
	if testing.Short() {
		env = few()
	}
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) { scenario(t, built.scenarios, built.so, name, env...) })
	}
}

// No handler of the host's runs on Go's threads or stacks. (QEMU shows other masks than
// those of the program that it runs, so that this is not tested for arm64.)
func TestProfiled(t *testing.T) { scenario(t, built.scenarios, built.so, "profiled") }

func TestExports(t *testing.T) { exports(t, built.so) }

// exports checks that a library exports the tables of the ABI, its version for tunefit, and nothing else.
func exports(t *testing.T, so string) {
	t.Helper()
	file, err := elf.Open(so)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			got = append(got, fmt.Sprint(s.Name, " ", elf.ST_TYPE(s.Info)))
		}
	}
	slices.Sort(got)
	for v := 2; v <= nccl.NewestABI; v++ {
		want = append(want, fmt.Sprintf("ncclTunerPlugin_v%d %v", v, elf.STT_OBJECT))
	}
	for v := 4; v <= 7; v++ {
		want = append(want, fmt.Sprintf("ncclProfiler_v%d %v", v, elf.STT_OBJECT))
	}
	want = append(want, fmt.Sprintf("tunergoVersion %v", elf.STT_FUNC))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("exported: %q\nwant: %q", got, want)
	}
}

func TestHardened(t *testing.T) { hardened(t, built.so) }

// hardened checks that the addresses in a library's tables cannot be overwritten once
// it is loaded: RELRO and BIND_NOW.
func hardened(t *testing.T, so string) {
	t.Helper()
	file, err := elf.Open(so)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if flags, err := file.DynValue(elf.DT_FLAGS); err != nil || len(flags) != 1 ||
		elf.DynFlag(flags[0])&elf.DF_BIND_NOW == 0 {
		t.Errorf("DT_FLAGS %v, %v: no BIND_NOW", flags, err)
	}
	if !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO }) {
		t.Error("no RELRO")
	}
}

// Two checkouts give the same library, whatever their paths, also in a folder with a space in its name.
func TestReproducible(t *testing.T) {
	t.Parallel()
	long(t)
	checkout := filepath.Join(t.TempDir(), "another path")
	copied := fmt.Sprintf("mkdir -p '%[1]s' && tar -C ../.. --exclude=./.git --exclude=./build -cf - . | tar -C "+
		"'%[1]s' -xf -", checkout)
	if out, err := exec.Command("sh", "-c", copied).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	so := filepath.Join(checkout, "build", "libnccl-tuner-go.so")
	if out, err := exec.Command("make", "-s", "-C", checkout, "build/libnccl-tuner-go.so").CombinedOutput(); err !=
		nil {
		t.Fatalf("%v\n%s", err, out)
	}
	here, err := os.ReadFile(built.so)
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(so)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(here, there) {
		t.Errorf("the library built in %s is another one", checkout)
	}
}

// Each reason for which C lets init fail is said, where there is a logger. The scenarios try it without one, too.
func TestRefusalsAreSaid(t *testing.T) {
	for name, why := range map[string]string{
		"child_calls": "WARN TUNER/Go: init fails: this process was forked from one that had loaded the tuner, which " +
			"cannot run here; start processes before the first communicator, or by spawn or exec",
		"no_descriptors": "WARN TUNER/Go: init fails: too few descriptors are free in this process; raise its limit of open " +
			"files (ulimit -n)",
		"strict": "WARN TUNER/Go: init fails: NCCL_TUNER_STRICT=1 and there is no policy that can be used",
	} {
		if log := scenario(t, built.scenarios, built.so, name); !slices.Contains(log, why) {
			t.Errorf("%s: %q is not in %q", name, why, log)
		}
	}
}

// Without memory for its variables an init fails, and says so.
func TestNoMemoryForEnvironment(t *testing.T) {
	log := strings.Join(scenario(t, built.scenarios, built.so, "no_memory"), "\n")
	if !strings.Contains(log, "there is no memory; init fails") {
		t.Errorf("log: %s", log)
	}
}

// In a setuid program the library reads no variables, and says so once.
func TestSetuid(t *testing.T) {
	const nobody = 65534
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || os.Getuid() != 0 || fs.Flags&unix.ST_NOSUID != 0 {
		t.Skip("SKIPPED: only root can make a setuid program for another user, where the file system allows it")
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	program, so, files := filepath.Join(dir, "scenarios"), filepath.Join(dir, "tuner.so"), filepath.Join(dir, "files")
	for to, from := range map[string]string{program: built.scenarios, so: built.so} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Mkdir(files, 0o755), os.Chown(files, nobody, nobody), os.Chown(program, nobody, nobody),
		os.Chmod(program, 0o755|os.ModeSetuid))
	if err != nil {
		t.Fatal(err)
	}
	log := scenario(t, program, so, "setuid_program", "SCENARIO_DIR="+files)
	if len(log) != 3 || !strings.HasPrefix(log[0], "WARN") || !strings.Contains(log[0], "reads no variables") ||
		!strings.Contains(log[1], `nccl_decides="no policy"`) {
		t.Errorf("log: %q", log)
	}
}

// askLimits makes this program print whether the Go runtime is as modest as init made it.
const askLimits = "TEST_PRINT_LIMITS"

// The library uses two cores at most, and beside a large policy little garbage costs
// little, whatever the job's environment says to Go programs.
func TestLimits(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), askLimits+"=1", "GOMAXPROCS=64", "GOMEMLIMIT=64MiB", "GOGC=off")
	if out, err := cmd.Output(); err != nil || string(out) != "2 true" {
		t.Errorf("cores, and whether few collections do: %q, %v", out, err)
	}
}

// On a machine with many processors the library has as many threads as on a small one, 5 to 9. There the Go runtime
// would start some 100 by itself.
func TestManyProcessors(t *testing.T) {
	scenario(t, built.scenarios, built.so, "many_processors", "GOMAXPROCS=384")
}

var policyInMemory, litter []byte

// collections counts those that a quarter of what a large policy takes causes as garbage.
func collections() uint32 {
	policyInMemory = make([]byte, 128<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 32 << 10 {
		litter = make([]byte, 1<<10)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

// A policy file in the working directory is not picked up, and without a setting
// nothing but one INFO line per communicator is said.
func TestNoFileIsFoundByItself(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"nccl_tuner.conf", "nccl_tuner.csv", "policy.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("allreduce,0,inf,tree,simple,-1,-1,-1\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	log := scenario(t, built.scenarios, built.so, "logs")
	if len(log) != 2 || !strings.Contains(log[0], `nccl_decides="no policy"`) {
		t.Errorf("log: %q", log)
	}
}

// What a user reads in the log, from init to the decisions.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.csv"), filepath.Join(dir, "bad.csv")
	os.WriteFile(good, []byte("allreduce,0,inf,tree,simple,4,-1,-1\nalltoall,0,inf,ring,simple,4,-1,-1\n"), 0o644)
	badModel := filepath.Join(dir, "bad.json")
	os.WriteFile(badModel,
		[]byte(`{"format": "nccl-tuner-go cost model", "version": 3, "groups": [{"collective": "allreduc"}]}`), 0o644)
	os.WriteFile(bad,
		[]byte("allreduce,0,inf,tree,simple,4,-1,-1\nallreduce,0,inf,tree,simple,400,-1,-1\n"+
			"allreduce,0,inf,treee,simple,4,-1,x\n"), 0o644)
	for _, c := range []struct {
		name string
		env  []string
		want []string // regular expressions
	}{
		{"good", []string{"NCCL_TUNER_CONFIG_FILE=" + good, "NCCL_TUNER_LOG=decisions"}, []string{
			`INFO .*good\.csv: 1 row is for operations that NCCL asks no tuner about, without effect`,
			fmt.Sprintf(`INFO TUNER/Go: start library=\S+ comm=0xabc ranks=8 nodes=1 abi=%d `, nccl.NewestABI) +
				`policy=\S*good\.csv rows=2 version=[0-9a-f]{12}`,
			`INFO TUNER/Go: available comm=0xabc coll=allreduce cells="tree/ll .* nvls/simple"`,
			`INFO TUNER/Go: decision .* coll=allreduce size=1MiB choice=tree/simple channels=4 default=ring/ll by=\S*good\.csv:1 pipe_ops=1`,
			`INFO TUNER/Go: available .* coll=broadcast .*`,
			`INFO TUNER/Go: decision .* coll=broadcast size=1MiB choice=ring/ll default=ring/ll by=NCCL .* because="no row matches"`,
			`INFO TUNER/Go: sum comm=0xabc by=\S*good\.csv:1 decisions=1`, `INFO TUNER/Go: sum comm=0xabc by=NCCL decisions=1`,
			`INFO .* start .*`, `INFO .* available .*`, `INFO .* coll=allreduce .*`, `INFO .* available .*`,
			`INFO .* coll=broadcast .*`, `INFO .* sum .*`, `INFO .* sum .*`,
		}},
		{"unknown variables", []string{"NCCL_TUNER_CONFIG=" + good, "NCCL_TUNER_PLUGIN=so"}, []string{
			`WARN TUNER/Go: NCCL_TUNER_CONFIG has no meaning for this tuner \(did you mean NCCL_TUNER_CONFIG_FILE\?\)`,
			`INFO .* nccl_decides="no policy"`, `INFO .* nccl_decides="no policy"`,
		}},
		{"bad model", []string{"NCCL_TUNER_CONFIG_FILE=" + good, "NCCL_TUNER_MODEL_FILE=" + badModel}, []string{
			`INFO .*good\.csv: 1 row is for .*`,
			`WARN TUNER/Go: .*/bad\.json has 4 problems; no model is used:`,
			`WARN TUNER/Go: .*/bad\.json: groups\[0\]\.collective: unknown collective "allreduc" \(did you mean "allreduce"; allowed: .*`,
			`WARN TUNER/Go: .*/bad\.json: groups\[0\]: 0 nodes with 0 ranks \(allowed: .*`,
			`WARN TUNER/Go: .*/bad\.json: groups\[0\]\.noise: 0 .*`,
			`WARN TUNER/Go: .*/bad\.json: groups\[0\]: nothing was measured`,
			`INFO .* policy=\S*good\.csv rows=2 version=[0-9a-f]{12}`,
			`WARN .*bad\.json: still has 4 problems, reported before; no model is used`,
			`INFO .* policy=\S*good\.csv rows=2 version=[0-9a-f]{12}`,
		}},
		{"bad", []string{"NCCL_TUNER_CONFIG_FILE=" + bad}, []string{
			`WARN TUNER/Go: .*/bad\.csv has 3 problems; no policy is used:`,
			`WARN TUNER/Go: .*/bad\.csv:2:6: channels is "400" \(allowed: 1 to 64, .*`,
			`WARN TUNER/Go: .*/bad\.csv:3:4: unknown algorithm "treee" \(did you mean "tree"; allowed: .*`,
			`WARN TUNER/Go: .*/bad\.csv:3:8: ranks is "x" \(allowed: .*`,
			`INFO .* nccl_decides="no policy"`, `WARN .*still has 3 problems.*`, `INFO .* nccl_decides="no policy"`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := scenario(t, built.scenarios, built.so, "logs", c.env...)
			if len(log) != len(c.want) {
				t.Fatalf("%d lines, want %d:\n%s", len(log), len(c.want), strings.Join(log, "\n"))
			}
			for i, want := range c.want {
				if !regexp.MustCompile("^" + want + "$").MatchString(log[i]) {
					t.Errorf("line %d: %q\nwant %q", i+1, log[i], want)
				}
			}
		})
	}
}

// A panic in Go stays inside: one WARN, then init fails, or the plugin behaves as if no row matched.
func TestPanics(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	so := filepath.Join(dir, "libnccl-tuner-go.so")
	if out, err := exec.Command("make", "-s", "-C", "../..", "BUILD="+dir, so,
		"GO_LDFLAGS=-X=main.envPanicIn=PANIC_IN").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	outcomes := map[string]string{"open": "init fails", "decide": "goes on without a policy",
		"close": "goes on without a policy"}
	for function, outcome := range outcomes {
		t.Run(function, func(t *testing.T) {
			var warned []string
			for _, line := range scenario(t, built.scenarios, so, "panics", "PANIC_IN="+function) {
				if strings.HasPrefix(line, "WARN") {
					warned = append(warned, line)
				}
			}
			if len(warned) != 1 || !strings.Contains(warned[0], "a defect in the plugin: provoked in "+function) ||
				!strings.Contains(warned[0], outcome) || !strings.Contains(warned[0], "main.tunergo") {
				t.Errorf("warnings: %q", warned)
			}
		})
	}
}

// sanitizers are those that the C side is run under, with their settings: AddressSanitizer and
// UndefinedBehaviorSanitizer, and ThreadSanitizer. The Go code in the library is not instrumented.
var sanitizers = map[string]string{
	"address,undefined": "ASAN_OPTIONS=detect_leaks=1:handle_segv=0",
	"thread":            "TSAN_OPTIONS=halt_on_error=1",
}

// sanitized builds all with sanitizers.
func sanitized(t *testing.T, names string) programs {
	t.Helper()
	if exec.Command("sh", "-c", "echo 'int main(void){return 0;}' | ${CC:-gcc} -fsanitize="+names+
		" -x c -o "+filepath.Join(t.TempDir(), "probe")+" -").Run() != nil {
		t.Skipf("SKIPPED: this compiler has no -fsanitize=%s", names)
	}
	p, err := build(t.TempDir(), "SANITIZE="+names)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSanitizers(t *testing.T) {
	t.Parallel()
	long(t)
	threaded := []string{"threads", "many_shapes", "aborts"} // ThreadSanitizer takes seconds for each
	if os.Getenv(nccltest.EnvNightly) != "" {
		threaded = append(threaded, "versions", "chunks")
	}
	for names, played := range map[string][]string{"address,undefined": scenarios, "thread": threaded} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			p := sanitized(t, names)
			for _, name := range played {
				t.Run(name, func(t *testing.T) {
					scenario(t, p.scenarios, p.so, name, append(few(), sanitizers[names])...)
				})
			}
			t.Run("edits", func(t *testing.T) {
				editSlowly(t, p, 3, sanitizers[names], "NCCL_TUNER_METRICS="+t.TempDir())
			})
			t.Run("recorded", func(t *testing.T) {
				recordJob(t, p, sanitizers[names])
				scenario(t, p.scenarios, p.so, "recorded_aborts", append(few(), "NCCL_TUNER_RECORD="+t.TempDir(),
					sanitizers[names])...)
			})
			t.Run("hand over", func(t *testing.T) { handOver(t, p) })
		})
	}
}
