package tuner

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// A change that the process has heard of while a further communicator was created is
// not lost on that one.
func TestChangeDuringInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.csv")
	save := func(channels string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("allreduce,0,inf,ring,simple,"+channels+",-1,-1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save("1")
	proposed := make(chan struct{})
	var once sync.Once
	log := telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) {
		if strings.Contains(text, "proposed") {
			once.Do(func() { close(proposed) })
		}
	}}
	p := New(env(EnvConfigFile, file))
	one := nccl.Comm{Nodes: 1, Ranks: 1}
	first, err := p.Open(CommInfo{ID: rand.Uint64(), Comm: one, ABI: 7, Counter: new(agree.Counter)}, log)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	counter, hooked := new(agree.Counter), false
	// It joins after its files were read, and before they are watched for it.
	hook := telemetry.Log{Emit: func(level telemetry.Level, file string, line int, text string) {
		if log.Emit(level, file, line, text); !hooked && strings.Contains(text, "joined as rank index") {
			hooked = true
			save("2")
			select {
			case <-proposed: // by the first: the change has been read
			case <-time.After(10 * time.Minute):
				t.Error("not said within 10 minutes: \"proposed\"")
			}
		}
	}}
	second, err := p.Open(CommInfo{ID: rand.Uint64(), Comm: one, ABI: 7, Counter: counter}, hook)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	costs := nccl.Costs{Micros: []float32{5, 6, 7, 8, 9, 10}, NumProto: 3}
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(time.Millisecond) { // other goroutines bring the change
		n := counter.Seq.Load()
		if n >= counter.Trigger.Load() {
			if _, err := second.AtTrigger(agree.HashCall(4, n, 1)); err != nil {
				t.Fatal(err)
			}
		}
		d, _ := second.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1, Costs: costs})
		counter.Seq.Store(n + 1)
		if d.Channels == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %d calls still decided by the old version", n)
		}
	}
}

// An edit that is too large for a change during a run is refused with a message, without
// being compiled, and does not hold up the next one. Communicators that are created later
// use it.
func TestTooLargeAnEdit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.csv")
	rows := func(channels string) []byte { return []byte("allreduce,0,inf,ring,simple," + channels + ",-1,-1\n") }
	save := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	save(rows("1"))
	said := make(chan string, 100)
	log := telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) { said <- text }}
	heard := func(what string) {
		t.Helper()
		for {
			select {
			case text := <-said:
				if strings.Contains(text, what) {
					return
				}
			case <-time.After(10 * time.Minute):
				t.Fatalf("not said: %s", what)
			}
		}
	}
	p := New(env(EnvConfigFile, file))
	open := func() *Communicator {
		t.Helper()
		c, err := p.Open(CommInfo{ID: rand.Uint64(), Comm: nccl.Comm{Nodes: 1, Ranks: 1}, ABI: 7,
			Counter: new(agree.Counter)}, log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	open()
	heard("version")
	large := append(rows("2"), bytes.Repeat([]byte("# a comment\n"), policyfile.MaxLiveBytes/12+1)...)
	save(large)
	heard("is too large for a change during a run (allowed: up to 8MiB")
	heard("keeping version")
	costs := nccl.Costs{Micros: []float32{5, 6, 7, 8, 9, 10}, NumProto: 3}
	if d, _ := open().Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1,
		Costs: costs}); d.Channels != 2 {
		t.Errorf("a communicator that is created later: %+v", d)
	}
	heard("keeping version") // by the one that was there
	save(rows("3"))
	heard("proposed")
	heard("proposed") // to both
}
