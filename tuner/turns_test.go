package tuner

import (
	"encoding/json"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// step makes the calls of a step as the host does, and stamps them. NCCL's choice takes 20 % longer than one channel,
// and two channels 40 %.
func step(t *testing.T, c *Communicator) {
	t.Helper()
	counter, clock := c.info.Counter, c.info.Clock
	for _, bytes := range []uint64{1 << 20, 2 << 20} {
		n, call := counter.Seq.Load(), agree.HashCall(int(nccl.CollAllReduce), bytes, 1)
		if n >= clock.Next.Load() {
			head := clock.Head.Load()
			clock.Stamps[head%trial.ClockStamps] = trial.Stamp{Call: n, Hash: call, Nanos: uint64(time.Now().UnixNano())}
			clock.Head.Store(head + 1)
			clock.Next.Store(n + min(clock.Every.Load(), math.MaxUint64-n))
		}
		if n >= counter.Trigger.Load() {
			if _, err := c.AtTrigger(call); err != nil {
				t.Fatal(err)
			}
		}
		counter.Add(call)
		d, _ := c.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, PipeOps: 1,
			Costs: nccl.Costs{Micros: []float32{5e3, 6e3, 7e3, 8e3, 9e3, 10e3}, NumProto: 3}})
		counter.Seq.Store(n + 1)
		time.Sleep([]time.Duration{6, 5, 7}[min(d.Channels, 2)] * time.Millisecond) // simulated: the call
	}
}

// What a rank finds out by turns it tells tunefit status. A comparison leaves the policy in force, a canary takes back
// an edit that is slower.
func TestTurnsAreTold(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings settings
		policy   string
		channels int // of an edit; 0: there is none
		told     func(trial.Conclusion, trial.Evidence) bool
	}{
		{"comparison", settings{compare: compareNCCL}, rows(1), 0, func(f trial.Conclusion, _ trial.Evidence) bool {
			return f.State == trial.Clear && f.Faster() && f.Stays == "A"
		}},
		{"canary", settings{canary: true}, rows(1), 2, func(f trial.Conclusion, _ trial.Evidence) bool {
			return f.State == trial.Clear && f.Slower() && f.Stays == "B"
		}},
		{"learning", settings{learn: t.TempDir(), learnBudget: defaultBudget}, "", 0,
			func(_ trial.Conclusion, e trial.Evidence) bool { return e.State == trial.Trying && len(e.Factors) > 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			comm, base, _ := learningComm(t, c.policy, c.settings)
			comm.log.Emit = func(_ telemetry.Level, _ string, _ int, text string) { t.Log(text) }
			comm.plugin.shm = t.TempDir()
			comm.metrics = comm.plugin.exporter.New("", nil)
			comm.info = CommInfo{ID: 5, Comm: nccl.Comm{Nodes: 1, Ranks: 1}, ABI: 7, Counter: &agree.Counter{},
				Clock: &trial.Clock{}}
			comm.info.Clock.Next.Store(math.MaxUint64)
			synctest.Test(t, func(t *testing.T) {
				comm.plugin.clock = agree.RealTime()
				if err := comm.join(base); err != nil {
					t.Fatal(err)
				}
				defer comm.leave()
				store, err := comm.plugin.meet(settings{}, 1, comm.log)
				if err != nil {
					t.Fatal(err)
				}
				defer store.release()
				jobs := agree.Inspect(store.store.(agree.Records))
				for n := range 10_000 {
					if step(t, comm); n%1000 != 999 {
						continue
					}
					if c.channels > 0 && n == 999 {
						_, edit, _ := learningComm(t, rows(c.channels), settings{})
						comm.member.Offer(edit.ID(), edit.Content())
					}
					all, err := jobs.Communicators(t.Context())
					if err != nil || len(all) != 1 {
						t.Fatal(all, err)
					}
					var f trial.Conclusion
					var e trial.Evidence
					json.Unmarshal(all[0].Note, &f)
					json.Unmarshal(all[0].Note, &e)
					if c.told(f, e) {
						return
					}
				}
				t.Error("it does not tell so")
			})
		})
	}
}
