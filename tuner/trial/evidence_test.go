package trial

import (
	"math"
	"math/rand/v2"
	"reflect"
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

// What another job tried is taken over as far as it is the same, and once.
func TestAdd(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	e := tried(2, now, []Block{{Arms: []int{1, 0}, Steps: 9}}, nccl.CollAllReduce, nccl.CollAllGather)
	blocks := []Block{{Arms: []int{1, 1}, Steps: 8}, {Arms: []int{0, 2}, Steps: 7}, {Arms: []int{2, -1}, Steps: 6}}
	other := tried(3, now.Add(1), blocks, nccl.CollReduce, nccl.CollAllReduce)
	for _, o := range []Evidence{other, other, e} {
		if !e.Add(o) {
			t.Error("nothing is the same")
		}
	}
	want := []Run{e.Runs[0], {"c-8", now.Add(1), []Block{{Arms: []int{1, -1}, Steps: 8}, {Arms: []int{-1, -1}, Steps: 6}}}}
	if !reflect.DeepEqual(e.Runs, want) { // no block of an arm that is not here
		t.Errorf("%+v, want %+v", e.Runs, want)
	}
	e.estimate()
	if e.Blocks != 3 || e.Steps != 9+8+6 || e.Factors[0].Arms[1].Blocks != 2 || e.Factors[1].Arms[0].Blocks != 1 {
		t.Errorf("%d blocks, %d steps, %+v", e.Blocks, e.Steps, e.Factors)
	}
	if third := tried(3, now.Add(2), blocks, nccl.CollReduce, nccl.CollBroadcast); e.Add(third) || len(e.Runs) != 2 {
		t.Errorf("%+v", e.Runs)
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
	quiet.estimate()
	alone := quiet.Factors[0].Arms[1]
	quiet.Add(noisy)
	quiet.estimate()
	a := quiet.Factors[0].Arms[1]
	if math.Abs(a.Effect-alone.Effect) > 0.001 || a.Error >= alone.Error || a.Blocks != 100 || a.Error > 0.0005 {
		t.Errorf("%+v, alone %+v", a, alone)
	}
}
