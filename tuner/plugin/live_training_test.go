//go:build cgo

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// training is a job of testhost/trainer.c that records what it does.
type training struct {
	*job
	shared         *os.File
	policy, record string
}

// train starts one with a policy of so many channels; 0: without a policy.
func train(t *testing.T, p programs, kind string, channels int, arg, env []string) *training {
	t.Helper()
	j := &training{job: newJob(t), policy: filepath.Join(t.TempDir(), "policy.csv"), record: t.TempDir()}
	env = append(env, "NCCL_TUNER_RECORD="+j.record)
	if channels > 0 {
		j.save(channels)
		env = append(env, "NCCL_TUNER_CONFIG_FILE="+j.policy)
	}
	for i := range 4 {
		j.ranks = append(j.ranks, j.start(p.trainer, p.so, "job", i, append([]string{"kind=" + kind}, arg...), env))
	}
	for _, r := range j.ranks {
		if got := r.answer(); got != "ready" {
			t.Fatal(got)
		}
	}
	var err error
	if j.shared, err = os.OpenFile(filepath.Join(j.dir, "job"), os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.shared.Close() })
	return j
}

func (j *training) save(channels int) {
	j.Helper()
	proto := protocols[channels%2+1] // a profile does not tell channels apart
	row := fmt.Sprintf(",0,inf,ring,%s,%d,-1,-1\n", proto, channels)
	write(j, j.policy, []byte("allreduce"+row+"allgather"+row+"reducescatter"+row))
}

// progress is the head of struct job in testhost/trainer_meet.c.
type progress struct {
	Stop, Steps               uint32
	Calls, Differ, Slow, Late uint64
	Took, Best                float64 // of a step, us
}

func (j *training) progress() (p progress) {
	j.Helper()
	text := make([]byte, binary.Size(p))
	if _, err := j.shared.ReadAt(text, 0); err != nil {
		j.Fatal(err)
	}
	binary.Decode(text, binary.LittleEndian, &p)
	return p
}

// steps waits until so many more steps are made.
func (j *training) steps(n int) {
	j.Helper()
	until := j.progress().Steps + uint32(n)
	eventually(j, fmt.Sprintf("%d more steps", n), func() bool { return j.progress().Steps >= until })
}

// results is what the communicators have found out, by their names.
func (j *training) results() map[string]trial.Conclusion {
	j.Helper()
	found := map[string]trial.Conclusion{}
	names, _ := filepath.Glob(filepath.Join(j.record, telemetry.ComparisonFiles))
	for _, name := range names {
		text, err := os.ReadFile(name)
		var c trial.Conclusion
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			j.Fatal(err)
		}
		found[filepath.Base(name)] = c
	}
	return found
}

// ended waits until so many comparisons have ended.
func (j *training) ended(n int) (all map[string]trial.Conclusion) {
	j.Helper()
	eventually(j, fmt.Sprintf("%d comparisons end", n), func() bool {
		all = j.results()
		ended := 0
		for _, c := range all {
			if c.State != trial.Running {
				ended++
			}
		}
		return ended >= n
	})
	return all
}

// end ends the job and returns how far it came.
func (j *training) end() progress {
	j.Helper()
	j.shared.WriteAt([]byte{1}, 0)
	j.job.end()
	p := j.progress()
	j.Logf("%d steps, %d calls of all ranks, %d of them unlike, %d steps put forward", p.Steps, p.Calls,
		p.Differ, p.Late)
	if p.Differ > 0 {
		j.Errorf("%d of %d calls are decided unlike by ranks", p.Differ, p.Calls)
	}
	return p
}

// profile is what the recorder has counted.
func (j *training) profile(steps uint32) *profile.Profile {
	j.Helper()
	job := profile.NewJob()
	names, _ := filepath.Glob(filepath.Join(j.record, "record-*.json"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			j.Fatal(err)
		}
		if err := job.Recorder(name, bytes.NewReader(text)); err != nil {
			j.Fatal(err)
		}
	}
	p, err := job.Profile(int(steps))
	if err != nil {
		j.Fatal(err)
	}
	return p
}

// Of a step's time as testhost/trainer.c plays it, in us.
const (
	stepTime      = 10000
	communication = 0.4 * stepTime
	slowCalls     = 0.25
	slowSteps     = slowCalls * communication / stepTime
)

// made is how often a call is made in a step, by each rank in the mean, and how many are decided together.
type made struct{ calls, group float64 }

// A job of a kind of training compares its policy with NCCL's choice, or with an edit of it, on real processes, in
// steps that vary, and finds what is true. What the recorder counts meanwhile is what the job does.
func TestTraining(t *testing.T) {
	long(t)
	for _, c := range []struct {
		kind  string
		comms int
		env   string
		edit  int // channels of an edit that makes calls slower; 0: there is none, and NCCL's choice is slower
		calls map[profile.CallKind]made
	}{
		{"data", 1, "NCCL_TUNER_COMPARE=nccl", 0, map[profile.CallKind]made{
			played(nccl.CollAllReduce, 4, 25<<20): {25, 1}, played(nccl.CollAllReduce, 4, 7<<20): {1, 1},
			played(nccl.CollAllReduce, 4, 4): {1, 1}}},
		{"sharded", 1, "NCCL_TUNER_CANARY=1", 7, map[profile.CallKind]made{
			played(nccl.CollAllGather, 4, 64<<20): {96, 1}, played(nccl.CollReduceScatter, 4, 64<<20): {48, 1},
			played(nccl.CollAllReduce, 4, 4): {1, 1}}},
		{"tensor", 5, "NCCL_TUNER_COMPARE=nccl", 0, map[profile.CallKind]made{
			played(nccl.CollAllReduce, 2, 512<<10): {64, 1}, played(nccl.CollAllReduce, 2, 16<<10): {3, 1},
			played(nccl.CollAllReduce, 4, 4): {1, 1}, played(nccl.CollAllReduce, 4, 8): {1, 1},
			played(nccl.CollReduceScatter, 2, 32<<20): {16, 4}, played(nccl.CollAllGather, 2, 32<<20): {16, 4}}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			j := train(t, built, c.kind, 8, args("step=%d slow=%.0f slower=%d", stepTime, 1000*slowCalls, c.edit),
				[]string{c.env})
			truth := 1/(1+slowSteps) - 1
			if c.edit > 0 {
				truth = slowSteps
				j.steps(100)
				j.save(c.edit)
			}
			judged := 0
			for name, found := range j.ended(c.comms) {
				t.Logf("%s: %s (%s)", name, found.Verdict(), found.Effort())
				if found.State == trial.Followed && c.comms > 1 { // it has begun later, or was not sure yet
					continue
				}
				if judged++; found.State != trial.Clear || math.Abs(found.Mean-truth) > 0.03 ||
					(found.Stays == "B") != (c.edit > 0) || found.Pairs > 4 {
					t.Errorf("%+v, want %.3f", found, truth)
				}
			}
			if judged == 0 {
				t.Error("no communicator has judged")
			}
			eventually(t, "the faster version is in force", func() bool { return j.progress().Slow == 0 })
			j.checkProfile(j.end().Steps, c.calls)
		})
	}
}

func played(coll nccl.Coll, ranks int, bytes uint64) profile.CallKind {
	return profile.CallKind{Call: nccl.Call{Coll: coll, Bytes: bytes}, Comm: nccl.Comm{Nodes: 1, Ranks: ranks},
		Cell: nccl.Cell{Algo: -1, Proto: -1}}
}

// checkProfile checks that the recorder has counted these calls, and knows who decided them.
func (j *training) checkProfile(steps uint32, calls map[profile.CallKind]made) {
	j.Helper()
	const alone = 4 // channels of NCCL's choice, in trainer_events.c
	found := map[profile.CallKind]float64{}
	for _, e := range j.profile(steps).Entries {
		c := played(e.Coll, e.Ranks, e.Bytes)
		found[c] += e.StepCalls
		by := strings.TrimPrefix(e.DecidedBy, j.policy)
		if calls[c].group == 1 && (by == profile.ByNCCL) != (e.Channels == alone) || calls[c].group > 1 && by != "" {
			j.Errorf("%s of %d on %s by %d channels is recorded as decided by %q", e.Coll, e.Bytes, e.Comm, e.Channels,
				e.DecidedBy)
		}
	}
	for c, want := range calls {
		if math.Abs(found[c]/want.calls-1) > 1e-9 {
			j.Errorf("%s of %d on %s: %v calls a step, want %v", c.Coll, c.Bytes, c.Comm, found[c], want.calls)
		}
	}
	if len(found) != len(calls) {
		j.Errorf("%v are recorded, want %v", found, calls)
	}
}

// What tuner/trial finds with jobs that it plays to itself is found on real processes, too: over many jobs intervals of
// 95 % hold the truth, and a policy that changes nothing is seldom called faster or slower.
func TestTrainingTrials(t *testing.T) {
	if os.Getenv(nccltest.EnvNightly) == "" {
		t.Skip("SKIPPED: for the nightly run")
	}
	const jobs = 200
	var mu sync.Mutex
	var holds, same, called int
	t.Run("jobs", func(t *testing.T) {
		for i := range jobs {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				slow := []float64{0, 0.0025, 0.025, 0.125}[i%4] // of NCCL's calls
				j := train(t, built, []string{"data", "sharded"}[i/4%2], 8, args("step=%d seed=%d slow=%.0f slower=0",
					stepTime, i+1, 1000*slow), []string{"NCCL_TUNER_COMPARE=nccl"})
				truth := 1/(1+slow*communication/stepTime) - 1
				for _, found := range j.ended(1) {
					t.Logf("truth %+.2f %%: %s (%s)", 100*truth, found.Verdict(), found.Effort())
					mu.Lock()
					defer mu.Unlock()
					if found.Low <= truth && truth <= found.High {
						holds++
					}
					if slow == 0 {
						same++
						if found.Faster() || found.Slower() {
							called++
						}
					}
				}
				j.end()
			})
		}
	})
	t.Logf("%d of %d intervals hold the truth; of %d policies that change nothing %d are called faster or slower",
		holds, jobs, same, called)
	if holds < jobs*90/100 || called > same*8/100 {
		t.Error("too few, or too many")
	}
}

// A policy that changes nothing is not called slower, and no call is decided unlike by two ranks, while the policy is
// edited, a rank stands still, the store is full, and at last a rank is killed.
func TestTrainingDisturbed(t *testing.T) {
	long(t)
	t.Parallel()
	disturb(t, "pipeline", stepTime, 1000)
}

// The same of all kinds, for long.
func TestTrainingSoak(t *testing.T) {
	if os.Getenv(nccltest.EnvNightly) == "" {
		t.Skip("SKIPPED: for the nightly run")
	}
	for _, kind := range []string{"data", "sharded", "tensor", "pipeline"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			disturb(t, kind, 2000, 20_000)
		})
	}
}

// Events, records and turns under the sanitizers of C, in jobs of several communicators.
func TestTrainingSanitized(t *testing.T) {
	if os.Getenv(nccltest.EnvNightly) == "" {
		t.Skip("SKIPPED: for the nightly run")
	}
	for names, env := range sanitizers {
		t.Run(names, func(t *testing.T) {
			p := sanitized(t, names)
			for _, kind := range []string{"data", "sharded", "tensor", "pipeline"} {
				t.Run(kind, func(t *testing.T) {
					j := train(t, p, kind, 8, args("step=%d", stepTime), []string{"NCCL_TUNER_COMPARE=nccl", env,
						"NCCL_TUNER_METRICS=" + t.TempDir()})
					for channels := 7; channels > 1; channels-- {
						j.steps(200)
						j.save(channels)
					}
					j.steps(1000)
					j.end()
				})
			}
		})
	}
}

// disturb disturbs a job whose steps take so many us until it has made so many steps.
func disturb(t *testing.T, kind string, step int, steps uint32) {
	p, outside := built, ""
	if os.Getuid() == 0 {
		p, outside = smallShm(t)
	}
	j := train(t, p, kind, 8, args("step=%d", step), []string{"NCCL_TUNER_COMPARE=nccl"})
	for round := 0; j.progress().Steps < steps; round++ {
		j.steps(400) // in which a comparison begins
		j.save(7 - round%4)
		j.steps(100)
		j.ranks[2].cmd.Process.Signal(syscall.SIGSTOP)
		j.save(8)
		time.Sleep(time.Second) // how long the rank stands still
		j.ranks[2].cmd.Process.Signal(syscall.SIGCONT)
		j.steps(300)
		if outside != "" {
			filler := filepath.Join(outside, "filler")
			fill(t, filler)
			j.steps(200)
			os.Remove(filler)
		}
		const changed = "is active from call"
		before := j.said(changed)
		j.save(3 - round%2) // which nothing supersedes
		eventually(j, "an edit takes effect", func() bool { return j.said(changed) > before })
		j.steps(300)
	}
	victim := j.ranks[3]
	victim.cmd.Process.Kill()
	<-victim.done
	j.steps(400)
	j.ranks = j.ranks[:3]
	for name, found := range j.results() {
		t.Logf("%s: %s (%s)", name, found.Verdict(), found.Effort())
		if found.State == trial.Clear {
			t.Errorf("%+v", found)
		}
	}
	j.end()
}
