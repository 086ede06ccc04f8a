package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// recorder is a Log that keeps what it is told.
type recorder struct{ lines []string }

func (r *recorder) log() telemetry.Log {
	return telemetry.Log{Emit: func(level telemetry.Level, file string, line int, text string) {
		if !strings.HasSuffix(file, ".go") || line == 0 {
			panic("no place in the source")
		}
		r.lines = append(r.lines, map[telemetry.Level]string{telemetry.Warn: "WARN ", telemetry.Info: "INFO "}[level]+
			text)
	}}
}

func (r *recorder) count(substring string) (n int) {
	for _, l := range r.lines {
		if strings.Contains(l, substring) {
			n++
		}
	}
	return n
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

var eightRanks = CommInfo{ID: 1, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 6}

// decidedAlgo opens a communicator and asks for one collective.
func decidedAlgo(t *testing.T, p *Plugin) nccl.Algo {
	t.Helper()
	c, err := p.Open(eightRanks, telemetry.Log{})
	if err != nil {
		t.Fatal(err)
	}
	if c.NeverDecides() {
		return -1
	}
	costs := nccl.Costs{Micros: []float32{5, 5, 5, 5, 5, 5}, NumProto: 3}
	d, _ := c.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1, Costs: costs})
	return d.Algo
}

// Whatever happens to a file between two communicators, the second one gets what
// the file says then.
func TestNextCommunicatorSeesTheFileAsItIs(t *testing.T) {
	const ring, tree = "allreduce,0,inf,ring,simple,-1,-1,-1\n", "allreduce,0,inf,tree,simple,-1,-1,-1\n"
	for name, change := range map[string]func(t *testing.T, file string){
		"rewritten in place, same size": func(t *testing.T, file string) { write(t, file, tree) },
		"rewritten with the old times": func(t *testing.T, file string) {
			before, _ := os.Stat(file)
			write(t, file, tree)
			os.Chtimes(file, before.ModTime(), before.ModTime())
		},
		"renamed over": func(t *testing.T, file string) {
			write(t, file+".new", tree)
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
		},
		"symbolic link moved": func(t *testing.T, file string) {
			write(t, file+".v2", tree)
			os.Remove(file)
			if err := os.Symlink(file+".v2", file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, age := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprintf("%s, %v old", name, age), func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "p.csv")
				write(t, file, ring)
				p := New(env(EnvConfigFile, file))
				then := time.Now().Add(-age)
				os.Chtimes(file, then, then)
				if got := decidedAlgo(t, p); got != nccl.AlgoRing {
					t.Fatalf("first: %v", got)
				}
				change(t, file)
				if got := decidedAlgo(t, p); got != nccl.AlgoTree {
					t.Errorf("after the change: %v", got)
				}
			})
		}
	}
}

func TestOpenWithoutAUsablePolicy(t *testing.T) {
	dir := t.TempDir()
	good, bad, empty := filepath.Join(dir, "good.csv"), filepath.Join(dir, "bad.csv"), filepath.Join(dir, "empty.csv")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	writable, foreign := filepath.Join(dir, "writable.csv"), filepath.Join(dir, "foreign.csv")
	for _, path := range []string{writable, foreign} {
		write(t, path, "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	}
	if err := os.Chmod(writable, 0o666); err != nil {
		t.Fatal(err)
	}
	refused := "foreign.csv: it belongs to user 12345, and only root "
	if err := os.Chown(foreign, 12345, 12345); err != nil {
		t.Logf("NOT TESTED: only root can give a file away: %v", err)
		foreign, refused = writable, "writable.csv: everybody can write to it"
	}
	write(t, empty, "# nothing but comments\n")
	write(t, good, "allreduce,0,inf,ring,simple,-1,-1,-1\n")
	write(t, bad, "allreduce,0,inf,rign,simple,-1,-1,-1\nx,0,inf,ring,simple,-1,-1,-1\n")
	for _, c := range []struct {
		name   string
		env    []string
		strict bool // fails with NCCL_TUNER_STRICT=1
		says   string
	}{
		{"no file named", nil, true,
			"INFO TUNER/Go: start library=" + Release + ` comm=0x1 ranks=8 nodes=1 abi=6 nccl_decides="no policy"`},
		{"missing", []string{EnvConfigFile, dir + "/absent.csv"}, true,
			"WARN TUNER/Go: NCCL_TUNER_CONFIG_FILE=" + dir +
				"/absent.csv: no such file or directory; no policy is used"},
		{"a directory", []string{EnvConfigFile, dir}, true, "not a regular file but a directory"},
		{"a FIFO", []string{EnvConfigFile, fifo}, true, "WARN TUNER/Go: NCCL_TUNER_CONFIG_FILE=" + fifo +
			": not a regular file but a FIFO; no policy is used"},
		{"a FIFO as model", []string{EnvModelFile, fifo}, true,
			"WARN TUNER/Go: NCCL_TUNER_MODEL_FILE=" + fifo + ": not a regular file but a FIFO; no model is used"},
		{"open to all", []string{EnvConfigFile, writable}, true, "WARN TUNER/Go: NCCL_TUNER_CONFIG_FILE=" + writable +
			": everybody can write to it (mode 0666; chmod go-w ends that). Name a copy of your own, or set " +
			"NCCL_TUNER_FILES_TRUST=1; no policy is used"},
		{"another user's", []string{EnvConfigFile, foreign}, true, refused},
		{"another user's model", []string{EnvModelFile, foreign}, true, refused},
		{"faulty", []string{EnvConfigFile, bad}, true, "WARN TUNER/Go: " + bad + ":2:1: unknown collective \"x\""},
		{"no rows", []string{EnvConfigFile, empty}, true, "WARN TUNER/Go: " + empty + " has no rows"},
		{"odd strict", []string{EnvConfigFile, dir + "/absent.csv", EnvStrict, "yes"}, true,
			`NCCL_TUNER_STRICT="yes" is not understood (allowed: 0, 1)`},
		{"odd flag", []string{EnvConfigFile, good, EnvCanary, "yes"}, true,
			`NCCL_TUNER_CANARY="yes" is not understood (allowed: 0, 1)`},
		{"odd log", []string{EnvConfigFile, good, EnvLog, "all"}, true,
			`NCCL_TUNER_LOG="all" is not understood (allowed: decisions)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r recorder
			oddStrict := env(c.env...)(EnvStrict) != ""
			comm, err := New(env(c.env...)).Open(eightRanks, r.log())
			if (err != nil) != oddStrict {
				t.Errorf("Open: %v", err)
			}
			if r.count(c.says) != 1 {
				t.Errorf("%q is not said once: %q", c.says, r.lines)
			}
			if err == nil && env(c.env...)(EnvConfigFile) != good && !comm.NeverDecides() {
				t.Error("decides without a policy")
			}
			for _, log := range []telemetry.Log{{}, new(recorder).log()} { // NCCL may give no logger
				comm, err = New(env(append([]string{EnvStrict, "1"}, c.env...)...)).Open(eightRanks, log)
				if (err != nil) != c.strict || c.strict && (err != errUnusable || comm != nil) {
					t.Errorf("strict: %v, %v", comm, err)
				}
			}
		})
	}
}

func TestDecisionLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,chunk_bytes\n"+
		"allreduce,0,1M,ring,simple,4,,,64K\nallreduce,1048577,2M,default,,,,,\n")
	var r recorder
	c, err := New(env(EnvConfigFile, file, EnvLog, "decisions")).Open(eightRanks, r.log())
	if err != nil {
		t.Fatal(err)
	}
	costs := nccl.Costs{Micros: []float32{4, 5, 6, 7, 8, 9}, NumProto: 3}
	for _, bytes := range []uint64{1 << 20, 2 << 20, 3 << 20, 2 << 20} {
		c.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, PipeOps: 1, Costs: costs})
	}
	want := []string{
		`INFO TUNER/Go: available comm=0x1 coll=allreduce cells="tree/ll tree/ll128 tree/simple ring/ll ring/ll128 ring/simple"`,
		"INFO TUNER/Go: decision comm=0x1 coll=allreduce size=1MiB choice=ring/simple channels=4 chunk=64KiB " +
			"default=tree/ll by=" + file + ":2 pipe_ops=1",
		"INFO TUNER/Go: decision comm=0x1 coll=allreduce size=2MiB choice=tree/ll default=tree/ll by=" + file + ":3 pipe_ops=1",
		"INFO TUNER/Go: decision comm=0x1 coll=allreduce size=3MiB choice=tree/ll default=tree/ll by=NCCL pipe_ops=1 " +
			`because="no row matches"`,
		"INFO TUNER/Go: sum comm=0x1 by=" + file + ":2 decisions=1",
		"INFO TUNER/Go: sum comm=0x1 by=" + file + ":3 decisions=1",
		"INFO TUNER/Go: sum comm=0x1 by=NCCL decisions=1",
	}
	c.Close()
	if got := r.lines[1:]; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
