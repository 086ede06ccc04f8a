package trial

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// tried is evidence about a factor for each collective, of so many arms, with a run.
func tried(arms int, began time.Time, blocks []Block, colls ...nccl.Coll) (e Evidence) {
	for _, coll := range colls {
		f := Factor{Coll: coll}
		for channels := range arms {
			f.Arms = append(f.Arms, Arm{Config: nccl.Config{Channels: channels}})
		}
		e.Factors = append(e.Factors, f)
	}
	e.Runs = []Run{{Comm: "c-8", Began: began, Blocks: blocks}}
	return e
}

// What other jobs tried is taken over as far as it is the same, and once.
func TestAdd(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	block := func(mean float64, arms ...int) Block { return Block{Arms: arms, Mean: mean, Steps: 9} }
	var e Evidence
	e.Factors = tried(2, now, nil, nccl.CollAllReduce, nccl.CollAllGather).Factors
	// The second goes on from the first, without AllGather. The third has made the same steps as the second.
	first := tried(2, now, []Block{block(0.1, 1, 0), block(0.2, 0, 1)}, nccl.CollAllReduce, nccl.CollAllGather)
	second := tried(3, now, []Block{block(0.1, 0, 1), block(0.2, 1, 0)}, nccl.CollReduce, nccl.CollAllReduce)
	second.Runs = append(second.Runs, Run{Comm: "c-8", Began: now.Add(1), Blocks: []Block{block(0.3, 0, 1), block(0.4, 1, 2), block(0.5, 1, -1)}})
	third := tried(2, now.Add(2), []Block{block(0.6, 1)}, nccl.CollAllReduce)
	e.Add([]Evidence{second, third, first})
	want := []Run{{Comm: "c-8", Began: now, Blocks: []Block{block(0.1, 1, -1), block(0.2, 0, -1)}},
		{Comm: "c-8", Began: now.Add(1), Blocks: []Block{block(0.3, 1, -1)}},
		{Comm: "c-8", Began: now, Blocks: []Block{block(0.1, -1, 0), block(0.2, -1, 1)}}}
	if !reflect.DeepEqual(e.Runs, want) {
		t.Errorf("%+v, want %+v", e.Runs, want)
	}
	e.Estimate()
	if e.Blocks != 5 || e.Steps != 5*9 || e.Factors[0].Arms[1].Blocks != 2 || e.Factors[1].Arms[0].Blocks != 1 {
		t.Errorf("%d blocks, %d steps, %+v", e.Blocks, e.Steps, e.Factors)
	}
	if e.Add([]Evidence{tried(3, now.Add(3), []Block{block(0.7, 1)}, nccl.CollBroadcast)}); len(e.Runs) != 3 {
		t.Errorf("%+v", e.Runs)
	}
	var nothing Evidence
	if nothing.Add([]Evidence{first}); nothing.Runs != nil {
		t.Errorf("%+v", nothing.Runs)
	}
	one := tried(1, now, []Block{block(0.1, 0), block(0.2, 0)}, nccl.CollAllReduce) // no effect to estimate
	if one.Estimate(); one.Blocks != 2 || !one.Factors[0].Settled {
		t.Errorf("%+v", one)
	}
}

// Each run counts by its own noise: a noisy one does not spoil a quiet one.
func TestRunsByPrecision(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	run := func(effect, noise float64) (blocks []Block) {
		for i := range 100 {
			blocks = append(blocks, Block{Arms: []int{i % 2}, Mean: effect*float64(i%2) + noise*dice.NormFloat64(), Steps: 9})
		}
		return blocks
	}
	now := time.Unix(1_000_000, 0)
	quiet := tried(2, now, run(-0.02, 0.002), nccl.CollAllReduce)
	noisy := tried(2, now.Add(1), run(0.02, 0.02), nccl.CollAllReduce)
	quiet.Estimate()
	alone := quiet.Factors[0].Arms[1]
	quiet.Add([]Evidence{noisy})
	quiet.Estimate()
	a := quiet.Factors[0].Arms[1]
	if math.Abs(a.Effect-alone.Effect) > 0.001 || a.Error >= alone.Error || a.Blocks != 100 || a.Error > 0.0005 {
		t.Errorf("%+v, alone %+v", a, alone)
	}
}

// Short runs do not tell their own noise: many of them make nothing sure that is not.
func TestShortRuns(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	const trials = 100
	sure := 0
	for range trials {
		var e Evidence
		for run, blocks := range append([]int{40}, slices.Repeat([]int{2}, 20)...) {
			one := tried(3, time.Unix(int64(run), 0), nil, nccl.CollAllReduce, nccl.CollAllGather, nccl.CollReduce)
			for range blocks {
				one.Runs[0].Blocks = append(one.Runs[0].Blocks, Block{Arms: []int{dice.IntN(3), dice.IntN(3), dice.IntN(3)},
					Mean: 0.01 * dice.NormFloat64(), Variance: 1e-6, Steps: 9})
			}
			if e.Factors == nil {
				e.Factors = one.Factors
			}
			e.Add([]Evidence{one})
		}
		e.Estimate()
		if a := e.Factors[0].Arms[1]; math.Abs(a.Effect) > Surely*a.Error {
			sure++
		}
	}
	if sure > trials/12 {
		t.Errorf("%d of %d effects are sure, and there are none", sure, trials)
	}
}

// An arm is not taken for faster because of one block, nor dropped because of two.
func TestNoVerdictByOneBlock(t *testing.T) {
	for _, effect := range []float64{-0.3, 0.3} {
		e := tried(3, time.Unix(1_000_000, 0), nil, nccl.CollAllReduce)
		dice := rand.New(rand.NewPCG(1, 2))
		add := func(arm int) {
			e.Runs[0].Blocks = append(e.Runs[0].Blocks, Block{Arms: []int{arm},
				Mean: effect*float64(arm/2) + 1e-3*dice.NormFloat64(), Steps: 9})
		}
		for i := range 40 {
			add(i % 2)
		}
		for blocks := range fewest + 1 {
			if blocks > 0 {
				add(2)
			}
			e.Estimate()
			a := e.Factors[0].Arms[2]
			faster, dropped := effect < 0 && blocks >= 2, effect > 0 && blocks >= fewest
			if a.Blocks != blocks || a.Faster != faster || (a.Dropped != "") != dropped {
				t.Errorf("an effect of %g after %d blocks: effect %g, error %g, faster %v, dropped %q", effect, blocks,
					a.Effect, a.Error, a.Faster, a.Dropped)
			}
		}
	}
}

// Of arms that are surely alike NCCL's choice stays, even where it is surely a little slower.
func TestAlikeArms(t *testing.T) {
	for _, effect := range []float64{0, -0.0004} {
		e := tried(2, time.Unix(1_000_000, 0), nil, nccl.CollAllReduce)
		for i := range 2 * firstJudged {
			arm := i % 2
			e.Runs[0].Blocks = append(e.Runs[0].Blocks, Block{Arms: []int{arm},
				Mean: effect*float64(arm) + 0.001*float64(i/2%2), Steps: 9})
		}
		if e.Estimate(); e.Factors[0].Arms[0].Dropped != "" || e.Factors[0].Arms[1].Dropped != "alike" {
			t.Errorf("an effect of %g: %g (%g), %q and %q are dropped", effect, e.Factors[0].Arms[1].Effect, e.Factors[0].Arms[1].Error, e.Factors[0].Arms[0].Dropped,
				e.Factors[0].Arms[1].Dropped)
		}
	}
}

// A block that is left counts with what it showed, and so do the steps after it.
func TestBlockThatIsLeft(t *testing.T) {
	e := tried(2, time.Unix(1_000_000, 0), nil, nccl.CollAllReduce)
	x := newExperiment(&e, 1, 0.01, false)
	for i := range 20 {
		arm, took := 1, 110*time.Millisecond
		if i >= minSteps {
			arm, took = 0, 100*time.Millisecond
		}
		x.inBlock(1, []int{arm}, took)
	}
	x.close()
	if b := x.run.Blocks; len(b) != 2 || b[0].Arms[0] != 1 || b[0].Steps != minSteps || b[1].Arms[0] != 0 || b[1].Steps != 15 {
		t.Errorf("%+v", x.run.Blocks)
	}
}

// A block is left where it is slower than the job was before it learned, not where another arm is faster.
func TestWhatIsSurelyBad(t *testing.T) {
	for took, want := range map[time.Duration]bool{100 * time.Millisecond: false, 104 * time.Millisecond: false,
		110 * time.Millisecond: true} {
		e := tried(3, time.Unix(1_000_000, 0), nil, nccl.CollAllReduce)
		e.StepSeconds = 0.1
		x := newExperiment(&e, 1, 0.01, false)
		for block, arm := range []int{2, 2, 2, 1} {
			step := 85 * time.Millisecond
			if arm == 1 {
				step = took
			}
			for range minSteps {
				x.inBlock(int64(block+1), []int{arm}, step)
			}
		}
		if x.surelyBad() != want {
			t.Errorf("after steps of 85 ms, by NCCL's choice 100: %v is surely bad: %v", took, !want)
		}
	}
}

// What has ended without a gain is tried again, with less: noise may have said so.
func TestTriedAgain(t *testing.T) {
	e := tried(3, time.Unix(1_000_000, 0), nil, nccl.CollAllReduce)
	dice := rand.New(rand.NewPCG(1, 2))
	for i := range 60 { // arms 1 and 2 were slower
		arm := i % 3
		e.Runs[0].Blocks = append(e.Runs[0].Blocks, Block{Arms: []int{arm}, Mean: 0.1*float64(min(arm, 1)) + 1e-4*dice.NormFloat64(),
			Steps: 9})
	}
	for _, again := range []bool{false, true} {
		now := tried(3, time.Unix(2_000_000, 0), nil, nccl.CollAllReduce)
		now.Key, now.Began, now.Runs = "now", time.Unix(2_000_000, 0), nil
		now.Add([]Evidence{e})
		x := newExperiment(&now, 1, 0.01, again)
		drawn := [3]int{}
		for block := range int64(2 * firstJudged) {
			if (x.over() == "") != (again && x.run.told() < firstJudged) {
				t.Fatalf("again: %v; after %d blocks it is over: %q", again, block, x.over())
			}
			arms := x.draw(block)
			drawn[arms[0]]++
			for range minSteps {
				x.inBlock(block, arms, 100*time.Millisecond)
			}
			x.close()
			if x.judge(); x.over() != "" {
				break
			}
		}
		if again && (drawn[1] == 0 || drawn[2] == 0 || x.budget != 0.01*againShare) || !again && drawn[1]+drawn[2] > 0 {
			t.Errorf("again: %v; arms are drawn %v times, the budget is %v", again, drawn, x.budget)
		}
	}
}
