package tuner

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// switches are the calls from which on a rank decided otherwise, and how.
type switches []struct {
	call     uint64
	channels int
}

// job is ranks in one process. No rank is more than `skew` calls ahead of another.
type job struct {
	mu    sync.Mutex
	moved *sync.Cond
	calls []uint64 // of each rank
	end   uint64   // the call at which all stop; 0: not yet known
	seen  []switches
}

const skew = 100

func (j *job) run(t *testing.T, rank int, c *Communicator, counter *agree.Counter) {
	costs := nccl.Costs{Micros: []float32{5, 6, 7, 8, 9, 10}, NumProto: 3}
	for {
		j.mu.Lock()
		for j.end == 0 && j.calls[rank] > slices.Min(j.calls)+skew {
			j.moved.Wait()
		}
		n, end := j.calls[rank], j.end
		j.mu.Unlock()
		if end > 0 && n >= end {
			return
		}
		time.Sleep(100 * time.Microsecond) // a GPU works
		call := agree.HashCall(int(nccl.CollAllReduce), n%7, 1)
		if counter.Seq.Load() >= counter.Trigger.Load() {
			if _, err := c.AtTrigger(call); err != nil {
				t.Error(err)
				return
			}
		}
		counter.Add(call)
		d, _ := c.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: n % 7}, PipeOps: 1, Costs: costs})
		counter.Seq.Store(n + 1)
		j.mu.Lock()
		if s := j.seen[rank]; len(s) == 0 || s[len(s)-1].channels != d.Channels {
			j.seen[rank] = append(s, struct {
				call     uint64
				channels int
			}{n, d.Channels})
		}
		j.calls[rank] = n + 1
		j.moved.Broadcast()
		j.mu.Unlock()
	}
}

// wait returns when every rank has come to this many channels.
func (j *job) wait(t *testing.T, channels int) {
	late := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("nobody comes to %d channels", channels)) })
	defer late.Stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	for !slices.ContainsFunc(j.seen, func(s switches) bool { return len(s) > 0 && s[len(s)-1].channels == channels }) {
		j.moved.Wait()
	}
}

func rows(channels int) string { return fmt.Sprintf("allreduce,0,inf,ring,ll128,%d,-1,-1\n", channels) }

// The whole way in one process, under the race detector too: an edit, a bad file, a
// file replaced, and nothing is left behind.
func TestRanksChangeAtTheSameCall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	const ranks = 4
	j := &job{calls: make([]uint64, ranks), seen: make([]switches, ranks)}
	j.moved = sync.NewCond(&j.mu)
	info := CommInfo{ID: rand.Uint64(), Comm: nccl.Comm{Nodes: 1, Ranks: ranks}, ABI: 7}
	p := New(env(EnvConfigFile, file))
	var log recorder
	var logging sync.Mutex
	logged := sync.NewCond(&logging)
	emit := log.log().Emit
	safe := telemetry.Log{Emit: func(level telemetry.Level, file string, line int, text string) {
		logging.Lock()
		defer logging.Unlock()
		emit(level, file, line, text)
		logged.Broadcast()
	}}
	said := func(what string) int {
		logging.Lock()
		defer logging.Unlock()
		return log.count(what)
	}
	var running sync.WaitGroup
	comms := make([]*Communicator, ranks)
	for rank := range ranks {
		info := info
		info.Counter = &agree.Counter{}
		c, err := p.Open(info, safe)
		if err != nil {
			t.Fatal(err)
		}
		comms[rank] = c
		running.Go(func() { j.run(t, rank, c, info.Counter) })
	}
	j.wait(t, 1)
	write(t, file, rows(2))
	j.wait(t, 2)
	write(t, file, "allreduce,0,inf,rign,ll128,3,-1,-1\n")
	logging.Lock()
	for log.count("keeping version") == 0 {
		logged.Wait()
	}
	logging.Unlock()
	fresh := file + ".new"
	write(t, fresh, rows(4))
	if err := os.Rename(fresh, file); err != nil {
		t.Fatal(err)
	}
	j.wait(t, 4)
	j.mu.Lock()
	j.end = slices.Max(j.calls) + 1000
	j.moved.Broadcast()
	j.mu.Unlock()
	running.Wait()
	for rank, s := range j.seen {
		if !slices.Equal(s, j.seen[0]) {
			t.Errorf("rank %d switched at %v, rank 0 at %v", rank, s, j.seen[0])
		}
	}
	var came []int
	for _, s := range j.seen[0] {
		came = append(came, s.channels)
	}
	if !slices.Equal(came, []int{1, 2, 4}) {
		t.Errorf("channels were %v", came)
	}
	for _, c := range comms {
		c.Close()
	}
	if n := said("p.csv has 1 problem:"); n != 1 {
		t.Errorf("the bad file was reported %d times\n%s", n, strings.Join(log.lines, "\n"))
	}
	if len(p.rendezvous) > 0 {
		t.Error("something still polls")
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // goroutines end by themselves
		stacks := make([]byte, 1<<20)
		if !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "internal/watch.") {
			break
		}
		if time.Now().After(late) {
			t.Fatal("something still watches")
		}
	}
}

// Where a change cannot come, the log says so once, and what would help.
func TestWhyNothingCanChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	write(t, file, rows(1))
	counted := CommInfo{ID: 5, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, ABI: 7, Counter: &agree.Counter{}}
	for name, c := range map[string]struct {
		change func(*CommInfo)
		env    []string
		want   string // "" for nothing
	}{
		"old NCCL": {func(i *CommInfo) { i.ABI, i.ID = 4, 0 }, nil,
			"INFO TUNER/Go: the policy cannot change during the run: this NCCL (tuner ABI v4)"},
		"old NCCL, identified": {func(i *CommInfo) { i.ABI = 4 }, nil, ""},
		"several nodes": {func(i *CommInfo) { i.Nodes = 2 }, nil,
			"WARN TUNER/Go: the policy cannot change during the run: the ranks are on several nodes: set " +
				EnvRendezvous},
		"several nodes, strict": {func(i *CommInfo) { i.Nodes = 2 }, []string{EnvStrict, "1"},
			"WARN TUNER/Go: the policy cannot change during the run: the ranks are on several nodes: set "},
		"asked for": {func(i *CommInfo) { i.ABI, i.ID = 4, 0 }, []string{EnvReload, "live"},
			"WARN TUNER/Go: the policy cannot change during the run: this NCCL (tuner ABI v4)"},
		"only at init": {func(i *CommInfo) { i.Nodes = 2 }, []string{EnvReload, "new"}, ""},
		"not at all":   {func(i *CommInfo) { i.Nodes = 2 }, []string{EnvReload, "off"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(env(append(c.env, EnvConfigFile, file)...))
			info := counted
			c.change(&info)
			var log recorder
			for range 2 {
				comm, err := p.Open(info, log.log())
				if err != nil {
					t.Fatal(err)
				}
				if comm.NeverDecides() {
					t.Error("no policy")
				}
				comm.Close()
			}
			const what = "cannot change during the run"
			switch {
			case c.want == "" && log.count(what) > 0, c.want != "" && log.count(c.want) == 0:
				t.Errorf("want %q\n%s", c.want, strings.Join(log.lines, "\n"))
			case log.count(what) > 1:
				t.Errorf("said twice\n%s", strings.Join(log.lines, "\n"))
			}
		})
	}
	var log recorder
	if _, err := New(env(EnvConfigFile, file, EnvReload, "sometimes", EnvStallLimit, "-1")).Open(counted,
		log.log()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{EnvReload + `="sometimes" is not understood (allowed: live, new, off, uniform)`,
		EnvStallLimit + `="-1" is not understood (allowed: seconds`} {
		if log.count(want) != 1 {
			t.Errorf("want %q\n%s", want, strings.Join(log.lines, "\n"))
		}
	}
}

// With NCCL_TUNER_RELOAD=off a process stays with what it read first.
func TestReloadOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	p := New(env(EnvConfigFile, file, EnvReload, "off"))
	for _, channels := range []int{1, 2} {
		write(t, file, rows(channels))
		c, err := p.Open(eightRanks, telemetry.Log{})
		if err != nil {
			t.Fatal(err)
		}
		d, _ := c.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1,
			Costs: nccl.Costs{Micros: []float32{5, 6, 7, 8, 9, 10}, NumProto: 3}})
		if d.Channels != 1 {
			t.Errorf("%d channels", d.Channels)
		}
	}
}

// With NCCL_TUNER_RELOAD=off what the first communicator could not read stays so, too.
func TestReloadOffWithoutAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.csv")
	p := New(env(EnvConfigFile, file, EnvReload, "off"))
	for range 2 {
		c, err := p.Open(eightRanks, telemetry.Log{})
		if err != nil || !c.NeverDecides() {
			t.Errorf("%v; decides: %v", err, !c.NeverDecides())
		}
		write(t, file, rows(1))
	}
}
