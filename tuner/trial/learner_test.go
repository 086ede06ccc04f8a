package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A learning job has three kinds of calls. Arms change the time of a step by so much.
type learningJob struct {
	*playedJob
	dice *rand.Rand // of the noise of calls
}

var learningEffects = [][]float64{{0, -0.01, 0.03}, {0, 0.004, 0.006, 0.03}, {0, -0.006, -0.003}}

func learn(t *testing.T, effects [][]float64, earlier ...Evidence) *learningJob {
	j := &learningJob{playedJob: play(t, false, false, ""), dice: rand.New(rand.NewPCG(1, 4))}
	base := j.versions[""]
	j.s.Learn = &Subject{Budget: 0.01, Earlier: earlier,
		Choose: func(calls map[uint64]int, _ time.Duration) (factors []Factor, left []string) {
			if fmt.Sprint(calls) != "map[1:3 2:1 3:1]" {
				t.Errorf("a step has calls %v", calls)
			}
			for i, of := range effects {
				f := Factor{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: uint64(i), Max: uint64(i)}}
				for k := range of {
					f.Arms = append(f.Arms, Arm{Config: nccl.Config{Channels: k}})
				}
				factors = append(factors, f)
			}
			return factors, []string{"calls in groups"}
		},
		With: func(factors []Factor, arms []int) (Variant, error) {
			rows := ""
			for i, k := range arms {
				if k > 0 {
					rows += fmt.Sprintf("allreduce,%d,%d,ring,simple,%d,-1,-1\n", i, i, k)
				}
			}
			if j.versions[rows] == nil {
				j.versions[rows] = versionOf(t, rows)
			}
			return j.versions[rows], nil
		},
	}
	j.took = func(v *playedVersion) time.Duration {
		us := 20000.0
		for row := range strings.Lines(v.rows) {
			var factor, arm int
			fmt.Sscanf(strings.ReplaceAll(row, ",", " "), "allreduce %d %d ring simple %d", &factor, &factor, &arm)
			if factor < len(effects) {
				us += 20000 * effects[factor][arm]
			}
		}
		return time.Duration(us * (1 + 0.06*j.dice.NormFloat64()) * float64(time.Microsecond))
	}
	if base != j.inForce {
		t.Fatal("the base is not in force")
	}
	return j
}

func (j *learningJob) until(done func() bool) {
	j.t.Helper()
	for range 4 * 3600 {
		if done() {
			return
		}
		j.run(time.Second)
	}
	j.t.Fatalf("it does not end; the log: %v", j.log)
}

func (j *learningJob) over() bool { return j.s.base != nil && !j.s.watching }

func (j *learningJob) end() Evidence {
	j.t.Helper()
	j.until(func() bool { return j.over() })
	return j.saved[len(j.saved)-1]
}

// A job finds what makes its steps shorter, proves it, and stays on it.
func TestLearn(t *testing.T) {
	j := learn(t, learningEffects)
	e := j.end()
	if truth := -0.016; e.State != Learned || e.Result == nil || !e.Result.Faster() || e.Result.Low > truth ||
		e.Result.High < truth {
		t.Errorf("%v %+v, the log: %v", e.State, e.Result, j.log)
	}
	j.run(time.Minute) // the last change comes
	if want := "allreduce,0,0,ring,simple,1,-1,-1\nallreduce,2,2,ring,simple,1,-1,-1\n"; j.inForce.rows != want {
		t.Errorf("%q is in force", j.inForce.rows)
	}
	for i, f := range e.Factors {
		for k, a := range f.Arms {
			truth := learningEffects[i][k]
			if a.Effect-truth > 4*a.Error+0.002 || truth-a.Effect > 4*a.Error+0.002 {
				t.Errorf("kind %d, arm %d: %f (%f) after %d blocks, the truth is %v", i, k, a.Effect, a.Error, a.Blocks, truth)
			}
		}
	}
	if e.LeftOut[0] != "calls in groups" || j.log.count("not tried: calls in groups") != 1 {
		t.Errorf("%v is left out, the log: %v", e.LeftOut, j.log)
	}
	if j.clock.Next.Load() != never {
		t.Error("calls are stamped for ever")
	}
}

// Where nothing helps, what was in force is so again.
func TestLearnNothing(t *testing.T) {
	for name, effects := range map[string][][]float64{
		"all is worse":  {{0, 0.03, 0.08}, {0, 0.01}},
		"nothing tells": {{0, 0, 0}, {0, 0}},
		"none":          nil,
	} {
		j := learn(t, effects)
		if e := j.end(); e.State != Nothing || len(j.log.lines) == 0 {
			t.Errorf("%s: %s, the log: %v", name, e.State, j.log)
		}
		if j.run(time.Minute); j.inForce != j.versions[""] {
			t.Errorf("%s: %q is in force", name, j.inForce.rows)
		}
	}
}

// Where changes become slow, as after an evaluation of many fast calls, no bad arm stays in force, and blocks become
// longer. They become shorter again after it.
func TestLearnWithSlowChanges(t *testing.T) {
	const arms = 6
	effects := make([][]float64, 4)
	for i := range effects {
		effects[i] = make([]float64, arms)
		effects[i][1] = -0.01
	}
	j := learn(t, effects)
	j.until(func() bool { return j.s.experiment != nil && j.s.Evidence.Blocks >= 5 })
	j.slow = 13 * time.Second
	turns := j.turns
	j.run(5 * time.Minute)
	if j.turns < turns+15 || j.s.length < 8*time.Second {
		t.Errorf("%d turns, blocks of %v; the log: %v", j.turns-turns, j.s.length, j.log)
	}
	j.slow = 0
	if j.run(5 * time.Minute); j.s.length > 4*time.Second {
		t.Errorf("blocks of %v; the log: %v", j.s.length, j.log)
	}
}

// What NCCL's choice is not surely worse than leaves it open, and it is open again if nothing is surely better any more.
func TestNCCLsChoiceStaysOpen(t *testing.T) {
	e := newExperiment(&Evidence{Factors: []Factor{{Arms: make([]Arm, 7)}}}, 1, 0.01, false)
	dice := rand.New(rand.NewPCG(1, 2))
	for block := range int64(60) {
		arm := 1 + int(block%6)
		if block < 3 { // by chance in bad times
			arm = 0
		}
		for range 20 {
			off := 0.01*float64(arm) + 0.1*max(0, 3-float64(block)) + 0.02*dice.NormFloat64()
			e.inBlock(block, []int{arm}, time.Duration(1e8*math.Exp(off)))
		}
	}
	e.close()
	e.judge()
	if e.Factors[0].Arms[0].Dropped != "" {
		t.Error("it is dropped after three blocks")
	}
	f := Factor{Arms: []Arm{{Dropped: "worse"}, {Effect: -0.02, Error: 0.02, Blocks: 9}}}
	if f.settle(); f.Settled || f.Arms[0].Dropped != "" {
		t.Errorf("%+v", f)
	}
}

// An arm that waits to be tried does not become ever more uncertain where blocks vary more than steps do.
func TestUntriedArmStaysAsItIs(t *testing.T) {
	e := newExperiment(&Evidence{Factors: []Factor{{Arms: make([]Arm, 8)}}}, 1, 0.01, false)
	dice := rand.New(rand.NewPCG(1, 2))
	for block := range int64(200) {
		level := 0.03 * dice.NormFloat64()
		for range 20 {
			e.inBlock(block, []int{int(block % 7)}, time.Duration(1e8*math.Exp(level+0.002*dice.NormFloat64())))
		}
		if e.due() {
			e.judge()
		}
	}
	if a := e.Factors[0].Arms[7]; a.Blocks > 0 || a.Error > 0.1 {
		t.Errorf("the error is %f after %d blocks", a.Error, a.Blocks)
	}
}

// Where changes never come, as where all calls are alike, it ends.
func TestLearnWithoutChanges(t *testing.T) {
	j := learn(t, learningEffects)
	j.refuses = true
	e := j.end()
	if e.State != Nothing || len(e.LeftOut) != 2 || j.log.count("does not become active") != 1 ||
		j.clock.Next.Load() != never {
		t.Errorf("%+v, the log: %v", e, j.log)
	}
}

// An edit stays, whenever it comes, and what was learned is kept.
func TestLearnWithEdit(t *testing.T) {
	for _, state := range []Learning{Trying, Proving} {
		j := learn(t, learningEffects)
		j.until(func() bool { return j.s.Evidence.State == state })
		j.run(5 * time.Second)
		edit := versionOf(t, "allgather,0,inf,ring,simple,3,-1,-1\n")
		j.versions[edit.rows] = edit
		j.save(edit)
		e := j.end()
		if j.run(time.Minute); e.State != Stopped || len(e.Factors) != 3 || j.inForce != edit {
			t.Errorf("%s: %s; %q is in force; the log: %v", state, e.State, j.inForce.rows, j.log)
		}
	}
}

// A job that goes on from what an earlier one has learned needs fewer blocks, and what was dropped stays so.
func TestLearnGoesOn(t *testing.T) {
	j := learn(t, learningEffects)
	j.until(func() bool { return j.s.experiment != nil && j.s.Evidence.Blocks >= 15 })
	j.s.stopLearning(t.Context())
	first := j.saved[len(j.saved)-1]
	if first.State != Stopped || first.Blocks < 15 {
		t.Fatalf("%s after %d blocks", first.State, first.Blocks)
	}
	j = learn(t, learningEffects, first, Evidence{Factors: []Factor{{Coll: nccl.CollReduce, Arms: make([]Arm, 1)}}})
	e := j.end()
	if e.State != Learned || e.Blocks <= first.Blocks || e.Factors[0].Arms[2].Dropped != "worse" || len(e.Runs) != 2 {
		t.Errorf("%s: %+v\nafter %+v", e.State, e.Factors, first.Factors)
	}
	t.Logf("%d blocks after %d", e.Blocks, first.Blocks)
}

// A block that is surely slow is left before it ends.
func TestLearnLeavesBadBlocks(t *testing.T) {
	j := learn(t, [][]float64{{0, 0.5}, {0, 0.01}})
	j.slower(800 * time.Millisecond) // blocks of many steps
	e := j.end()
	if a := e.Factors[0].Arms[1]; a.Dropped != "worse" || e.LostSteps > 60 {
		t.Errorf("dropped: %q; %.1f steps are lost; the log: %v", a.Dropped, e.LostSteps, j.log)
	}
}

var evaluationCalls = []uint64{7, 8}

// evaluates lets a job try something in steps of an evaluation, too.
func (j *learningJob) evaluates() {
	choose := j.s.Learn.Choose
	j.s.Learn.Choose = func(calls map[uint64]int, step time.Duration) ([]Factor, []string) {
		if calls[evaluationCalls[0]] == 0 {
			return choose(calls, step)
		}
		return []Factor{{Coll: nccl.CollAllGather, Arms: []Arm{{}, {Config: nccl.Config{Channels: 1}}}}}, nil
	}
}

// A job that begins with a long evaluation learns about training, once that has taken longer.
func TestLearnAfterALongEvaluation(t *testing.T) {
	j := learn(t, learningEffects)
	j.evaluates()
	j.calls = evaluationCalls
	j.until(func() bool { return j.s.experiment != nil && j.s.experiment.run.told() >= 3*hurtJudged })
	j.calls = stepCalls
	e := j.end()
	if e.State != Learned || e.Result == nil || !e.Result.Faster() || len(e.Factors) != len(learningEffects) {
		t.Errorf("%v %+v of %d call signatures, the log: %v", e.State, e.Result, len(e.Factors), j.log)
	}
	if e := j.saved[0]; e.Factors[0].Coll != nccl.CollAllGather {
		t.Errorf("what was learned about the evaluation is lost: %+v", e.Factors)
	}
}
