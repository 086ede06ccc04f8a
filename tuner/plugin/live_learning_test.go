//go:build cgo

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccltest"
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

// A job without a policy learns one whose steps are within 1.5 % of the best there is, or says that it has found nothing.
// The next job starts on it.
func TestTrainingLearns(t *testing.T) {
	if os.Getenv(nccltest.EnvNightly) == "" {
		t.Skip("SKIPPED: for the nightly run")
	}
	for _, kind := range []string{"data", "sharded"} {
		for seed := range 3 {
			t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				arg := args("step=%d truth=%d", stepTime, seed+1)
				env := []string{"NCCL_TUNER_LEARN=" + dir}
				j := train(t, built, kind, 0, arg, env)
				var e trial.Evidence
				eventually(j, "learning ends", func() bool {
					all := j.evidence(dir)
					if len(all) > 0 {
						e = all[0]
					}
					return e.State == trial.Learned || e.State == trial.Nothing || e.State == trial.Stopped
				})
				j.steps(500)
				p := j.end()
				t.Logf("%s after %d blocks, %d steps, %.1f lost; the first rank's step takes %.0f us, at best %.0f, with NCCL "+
					"alone %d: %+v", e.State, e.Blocks, e.Steps, e.LostSteps, p.Took, p.Best, stepTime, e.Result)
				for _, f := range e.Factors {
					t.Logf("%s %d: %+v", f.Coll, f.MinBytes, f.Arms)
				}
				if e.State == trial.Learned && p.Took > 1.015*p.Best || e.State == trial.Nothing && p.Took != stepTime ||
					e.State == trial.Stopped {
					t.Errorf("%s", e.State)
				}
				if e.State != trial.Learned {
					return
				}
				next := train(t, built, kind, 0, arg, env)
				next.steps(100)
				if n := next.end(); n.Took != p.Took {
					t.Errorf("the next job's steps take %.0f us, those of this one %.0f", n.Took, p.Took)
				}
			})
		}
	}
}
