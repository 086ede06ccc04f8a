//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// evidence is what the job has left in its directory, the latest of each file.
func (j *training) evidence(dir string) (all []trial.Evidence) {
	j.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, name := range names {
		var e trial.Evidence
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil {
			j.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// learns plays a job without a policy until its communicators have learned, or it has made so many steps. What is
// learned is within 1.5 % of the best step there is. If nothing is, the job runs as before. over reports that all have
// come to an end.
func learns(t *testing.T, kind string, comms, step int, dir, arg string, most uint32) (learned, over bool) {
	t.Helper()
	j := train(t, built, kind, 0, args("step=%d %s", step, arg), []string{"NCCL_TUNER_LEARN=" + dir})
	for !over && j.progress().Steps < most {
		j.steps(200) // some minutes in all
		over = j.said("nothing makes steps surely shorter")+j.said("there is nothing to try")+j.said(" against ") >= comms
	}
	j.steps(200)
	p := j.end()
	for _, e := range j.evidence(dir) {
		t.Logf("%s after %d blocks of %v s, %d steps, %.1f (%.1f) lost: %+v", e.State, e.Blocks, e.BlockSeconds, e.Steps,
			e.LostSteps, e.LostError, e.Result)
		for _, f := range e.Factors {
			for _, a := range f.Arms {
				t.Logf("%s %s: %s, %+f (%f) after %d", f.Coll, f.Range, a.Config, a.Effect, a.Error, a.Blocks)
			}
		}
		if over && e.State != trial.Learned && e.State != trial.Nothing {
			t.Errorf("%s", e.State)
		}
		learned = learned || e.State == trial.Learned
	}
	t.Logf("the first rank's step takes %.0f us, at best %.0f, with NCCL's choice %d; learned: %v", p.Took, p.Best,
		step, learned)
	if learned && p.Took > 1.015*p.Best || over && !learned && p.Took > float64(step)+1 {
		t.Error("neither close to the best nor as before")
	}
	return learned, over
}

// A job without a policy learns one whose steps are within 1.5 % of the best there is, or says that it has found
// nothing. The next job starts on it.
func TestTrainingLearns(t *testing.T) {
	if os.Getenv(nccltest.EnvNightly) == "" {
		t.Skip("SKIPPED: for the nightly run")
	}
	for kind, comms := range map[string]int{"data": 1, "sharded": 1, "hybrid": 5} {
		for seed := range 3 {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				truth := fmt.Sprintf("truth=%d", seed+1)
				if learned, _ := learns(t, kind, comms, stepTime, dir, truth, math.MaxUint32); !learned {
					return
				}
				next := train(t, built, kind, 0, args("step=%d %s", stepTime, truth), []string{"NCCL_TUNER_LEARN=" + dir})
				next.steps(100)
				if n := next.end(); n.Took > 1.015*n.Best {
					t.Errorf("the next job's steps take %.0f us, at best %.0f", n.Took, n.Best)
				}
			})
		}
	}
}

// The same holds whatever comes over the job. Without the nightly run, jobs end before all have learned.
func TestTrainingLearnsInTrouble(t *testing.T) {
	long(t)
	const step = 4 * stepTime // many jobs share this machine
	seeds, most := 1, uint32(1000)
	if os.Getenv(nccltest.EnvNightly) != "" {
		seeds, most = 7, math.MaxUint32
	}
	for _, trouble := range []string{"neighbour", "checkpoint", "evaluation", "collection", "rank", "clock"} {
		for seed := range seeds {
			t.Run(fmt.Sprint(trouble, seed), func(t *testing.T) {
				t.Parallel()
				kind := []string{"sharded", "data"}[seed%2]
				learned, over := learns(t, kind, 1, step, t.TempDir(), fmt.Sprintf("trouble=%s truth=%d", trouble, seed+1), most)
				t.Logf("%s, seed %d: learned: %v, over: %v", trouble, seed, learned, over)
			})
		}
	}
}

// No call is decided unlike by two ranks while a job learns, a rank stands still, the store is full, somebody saves an
// edit, and at last a rank is killed. The edit stays.
func TestTrainingLearnsDisturbed(t *testing.T) {
	if os.Getenv(nccltest.EnvNightly) == "" {
		t.Skip("SKIPPED: for the nightly run")
	}
	p, outside := built, ""
	if os.Getuid() == 0 {
		p, outside = smallShm(t)
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o777)
	policy := filepath.Join(t.TempDir(), "policy.csv")
	const before, edit = "allreduce,0,16,ring,simple,2,-1,-1\n", "allreduce,0,16,ring,simple,8,-1,-1\n"
	write(t, policy, []byte(before))
	j := train(t, p, "sharded", 0, args("step=2000 truth=5"), []string{"NCCL_TUNER_LEARN=" + dir,
		"NCCL_TUNER_CONFIG_FILE=" + policy})
	for j.said("is active from call") < 40 && j.said("learned after") == 0 {
		j.steps(1000)
		j.ranks[2].cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(time.Second) // how long the rank stands still
		j.ranks[2].cmd.Process.Signal(syscall.SIGCONT)
		j.steps(1000)
		if outside != "" {
			filler := filepath.Join(outside, "filler")
			fill(t, filler)
			j.steps(1000)
			os.Remove(filler)
		}
	}
	write(t, policy, []byte(edit))
	eventually(j, "the edit ends it", func() bool {
		return j.said("learning has ended early") > 0 ||
			j.said("learned after") > 0
	})
	j.steps(1000)
	victim := j.ranks[3]
	victim.cmd.Process.Kill()
	<-victim.done
	j.steps(1000)
	j.ranks = j.ranks[:3]
	j.end()
}
