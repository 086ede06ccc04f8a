package tuner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// plan writes a file of passes, and the policies a.csv, which asks for one channel, and b.csv, for two.
func plan(t *testing.T, lines ...string) (file string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.csv"), "allreduce,0,inf,ring,ll,1,-1,-1\n")
	write(t, filepath.Join(dir, "b.csv"), "allreduce,0,2K,ring,ll,2,-1,-1\nallreduce,2049,inf,nvls,simple,2,-1,-1\n")
	file = filepath.Join(dir, "passes")
	write(t, file, strings.Join(lines, "\n")+"\n")
	return file
}

// channelsOf makes calls, and returns the channels that they get: 0 is NCCL's default.
func channelsOf(c *Communicator, calls ...nccl.Call) (got []int) {
	for _, call := range calls {
		d, _ := c.Decide(policy.Query{Call: call, PipeOps: 1, Costs: treeIsCheaper})
		got = append(got, d.Channels)
	}
	return got
}

func sizes(bytes ...uint64) (calls []nccl.Call) {
	for _, b := range bytes {
		calls = append(calls, nccl.Call{Coll: nccl.CollAllReduce, Bytes: b})
	}
	return calls
}

// A pass begins with the first call of fewer bytes than the one before. What comes before is the warm-up, which
// differs between releases of nccl-tests. After the last pass NCCL decides, and a warning says so.
func TestPasses(t *testing.T) {
	pass := sizes(1024, 1024, 2048, 4096)
	nvls := 0 // b.csv asks for NVLS at 4 KiB, which is not available
	for name, warmUp := range map[string]struct {
		calls []nccl.Call
		want  []int
	}{
		"nccl-tests 2.16.7, rccl-tests": {sizes(4096, 4096, 1024), []int{1, 1, 1}},
		"nccl-tests 2.16.8":             {sizes(1024, 2048, 4096), []int{1, 1, 1}},
	} {
		var r recorder
		file := plan(t, "a.csv", "default", "b.csv", "a.csv")
		c, err := New(env(EnvPasses, file)).Open(eightRanks, r.log())
		if err != nil || c.NeverDecides() || !c.HasPasses() {
			t.Fatal(err)
		}
		got := channelsOf(c, slices.Concat(warmUp.calls, pass, pass, pass, pass, pass, pass)...)
		want := slices.Concat(warmUp.want, []int{1, 1, 1, 1}, []int{0, 0, 0, 0}, []int{2, 2, 2, nvls}, []int{1, 1, 1, 1},
			make([]int, 8))
		if !slices.Equal(got, want) {
			t.Errorf("%s: channels %v, want %v", name, got, want)
		}
		c.Close()
		if r.count("WARN") != 1 || r.count("all 4 passes of "+file+" are over") != 1 {
			t.Errorf("%s:\n%s", name, strings.Join(r.lines, "\n"))
		}
		var passes []string
		asked := map[[2]uint64]record.Decision{}
		for i, line := range r.lines {
			e, err := record.ReadEvent([]byte(line))
			switch e := e.(type) {
			case *record.Start:
				if i != 0 || e.Passes != 4 || e.Policy != file || len(e.Version) != 12 {
					t.Errorf("%s", line)
				}
			case *record.Pass:
				passes = append(passes, e.Policy)
				if e.N != len(passes) || e.Of != 4 || e.ID != "0x1" || e.Version == "" {
					t.Errorf("%s", line)
				}
			case *record.Decision:
				asked[[2]uint64{uint64(e.Pass), e.Bytes}] = *e
			default:
				if !strings.HasPrefix(line, "WARN") {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
		if strings.Join(passes, " ") != "a.csv default b.csv a.csv" {
			t.Errorf("%s: %q begin", name, passes)
		}
		for key, want := range map[[2]uint64]string{
			{0, 4096}: "asks=ring/ll/1 available=yes choice=ring/ll channels=1 default=tree/ll",
			{1, 1024}: "asks=ring/ll/1 available=yes choice=ring/ll channels=1 default=tree/ll",
			{2, 2048}: "size=2KiB choice=tree/ll default=tree/ll by=NCCL",
			{3, 2048}: "asks=ring/ll/2 available=yes choice=ring/ll channels=2 default=tree/ll",
			{3, 4096}: "asks=nvls/simple/2 available=no choice=tree/ll default=tree/ll by=NCCL",
			{4, 4096}: "asks=ring/ll/1 available=yes",
		} {
			d := asked[key]
			if line := record.Line(&d); !strings.Contains(line, want) {
				t.Errorf("%s: pass %d, %d bytes: %s, want %s", name, key[0], key[1], line, want)
			}
		}
	}
}

// Calls of another collective begin no pass, whatever their sizes.
func TestPassesOfOneCollective(t *testing.T) {
	c, err := New(env(EnvPasses, plan(t, "a.csv", "b.csv", "default"))).Open(eightRanks, new(recorder).log())
	if err != nil {
		t.Fatal(err)
	}
	calls := sizes(4096, 1024, 2048)
	calls = slices.Insert(calls, 2, nccl.Call{Coll: nccl.CollBroadcast, Bytes: 8}, nccl.Call{Coll: nccl.CollBroadcast, Bytes: 4})
	if got := channelsOf(c, append(calls, sizes(1024)...)...); !slices.Equal(got, []int{1, 1, 0, 0, 1, 2}) {
		t.Errorf("channels %v", got)
	}
}

// A query in which NCCL has nothing available begins no pass.
func TestPassesWithNothingAvailable(t *testing.T) {
	c, err := New(env(EnvPasses, plan(t, "a.csv", "b.csv"))).Open(eightRanks, new(recorder).log())
	if err != nil {
		t.Fatal(err)
	}
	channelsOf(c, sizes(4096, 1024, 2048)...) // the first pass
	nothing := nccl.Costs{Micros: slices.Repeat([]float32{nccl.Unavailable}, 6), NumProto: nccl.NumProtos}
	c.Decide(policy.Query{Call: sizes(8)[0], PipeOps: 1, Costs: nothing})
	if got := channelsOf(c, sizes(2048, 1024)...); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("channels %v", got)
	}
}

// A model completes each pass but the default.
func TestPassesWithAModel(t *testing.T) {
	file := plan(t, "default", "c.csv")
	write(t, filepath.Join(filepath.Dir(file), "c.csv"), "allreduce,1M,inf,ring,ll,1,-1,-1\n")
	model := filepath.Join(t.TempDir(), "m.json")
	write(t, model, ringModel(nil))
	c, err := New(env(EnvPasses, file, EnvModelFile, model)).Open(eightRanks, new(recorder).log())
	if err != nil {
		t.Fatal(err)
	}
	if got := channelsOf(c, sizes(16384, 8192, 16384, 8192)...); !slices.Equal(got, []int{0, 0, 0, 4}) {
		t.Errorf("channels %v", got)
	}
}

// What cannot be used fails the init of the rank: without it, the rank would decide otherwise than the others.
func TestPassesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		env   []string
		want  string // FILE stands for the file
	}{
		"a policy is missing":   {[]string{"a.csv", "absent.csv"}, nil, `FILE:2: "absent.csv" cannot be used`},
		"a policy has no rows":  {[]string{"empty.csv"}, nil, `FILE:1: "empty.csv" cannot be used`},
		"a policy is wrong":     {[]string{"bad.csv"}, nil, `FILE:1: "bad.csv" cannot be used`},
		"a policy is elsewhere": {[]string{"../a.csv", "a.csv", "/etc/a.csv"}, nil, `FILE:3: "/etc/a.csv" is not a file's name`},
		"an empty line":         {[]string{"a.csv", "", "a.csv"}, nil, `FILE:2: "" is not a file's name (needed: on each line`},
		"sums must repeat":      {[]string{"a.csv"}, []string{EnvDeterministic, "1"}, "NCCL_TUNER_PASSES is refused under"},
		"a wrong setting":       {[]string{"a.csv"}, []string{EnvStrict, "1", EnvLog, "x"}, errUnusable.Error()},
	} {
		file := plan(t, c.lines...)
		write(t, filepath.Join(filepath.Dir(file), "empty.csv"), "# nothing\n")
		write(t, filepath.Join(filepath.Dir(file), "bad.csv"), "allreduce,0,inf,rign,ll,1,-1,-1\n")
		_, err := New(env(append(c.env, EnvPasses, file)...)).Open(eightRanks, new(recorder).log())
		if want := strings.ReplaceAll(c.want, "FILE", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	absent := filepath.Join(t.TempDir(), "absent")
	if _, err := New(env(EnvPasses, absent)).Open(eightRanks, new(recorder).log()); err == nil ||
		!strings.Contains(err.Error(), "NCCL_TUNER_PASSES="+absent+": no such file") {
		t.Error(err)
	}
	write(t, absent, "")
	if _, err := New(env(EnvPasses, absent)).Open(eightRanks, new(recorder).log()); err == nil ||
		!strings.Contains(err.Error(), absent+" is empty") {
		t.Error(err)
	}
}

// Neither a job's policy nor what compares, learns or counts disturbs passes; the log says so.
func TestPassesAlone(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "p.csv")
	write(t, rows, "allreduce,0,inf,ring,ll,8,-1,-1\n")
	var r recorder
	c, err := New(env(EnvPasses, plan(t, "a.csv"), EnvConfigFile, rows, EnvCanary, "1", EnvMetrics, dir,
		EnvReload, "live")).Open(eightRanks, r.log())
	if err != nil {
		t.Fatal(err)
	}
	if got := channelsOf(c, sizes(8)...); !slices.Equal(got, []int{1}) {
		t.Errorf("channels %v", got)
	}
	c.Close()
	for _, name := range []string{EnvConfigFile + "=" + rows, EnvCanary + "=1", EnvMetrics + "=" + dir, EnvReload + "=live"} {
		if r.count("INFO TUNER/Go: "+name+" is without effect under NCCL_TUNER_PASSES") != 1 {
			t.Errorf("%s is not named:\n%s", name, strings.Join(r.lines, "\n"))
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("metrics were written: %v", left)
	}
}
