package trial

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// shortJob is evidence of 24 blocks, as drawn, about 20 candidates, where blocks vary by 0.5 %. So many of them, next to
// each other, are disturbed.
func shortJob(dice *rand.Rand, disturbed int) (e *Evidence, truth [][]float64) {
	e = &Evidence{}
	for i := range 4 {
		f := Factor{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: uint64(i), Max: uint64(i)}, Arms: make([]Arm, 6)}
		effects := make([]float64, len(f.Arms))
		for k := range effects[1:] {
			f.Arms[k+1].Channels = k + 1
			effects[k+1] = max(-0.1, 0.01+0.03*dice.NormFloat64())
		}
		e.Factors, truth = append(e.Factors, f), append(truth, effects)
	}
	x := newExperiment(e, dice.Uint64(), 0.01, false)
	from, longer := dice.IntN(24-disturbed), 0.1+0.5*dice.ExpFloat64()
	first := dice.Int64N(1e9)
	for n := range 24 {
		arms, log := x.draw(first+int64(n)), 0.005*dice.NormFloat64()
		step := 0.1
		for i, k := range arms {
			step += 0.1 * truth[i][k]
		}
		if n >= from && n < from+disturbed {
			log += longer
		}
		for range 20 {
			took := step * math.Exp(log+0.01*dice.NormFloat64())
			x.inBlock(int64(n), arms, time.Duration(took*float64(time.Second)))
		}
		x.close()
	}
	e.Estimate()
	return e, truth
}

// After few blocks much is known, also where some of them are disturbed.
func TestFewBlocks(t *testing.T) {
	calm := 0.0
	for disturbed, most := range []float64{1, 1.5, 3} {
		var h held
		var halves []float64
		for seed := range uint64(jobs(60)) {
			e, truth := shortJob(rand.New(rand.NewPCG(92, seed)), disturbed)
			for i, f := range e.Factors {
				for k, a := range f.Arms[1:] {
					h.add(a, truth[i][k+1])
					halves = append(halves, Surely*a.Error)
				}
			}
		}
		t.Logf("%d disturbed: half of the interval is %.1f %% in the median, %.1f %% of the intervals hold", disturbed,
			100*median(halves), 100*h.of/h.all)
		if disturbed == 0 {
			calm = median(halves)
		}
		if calm > 0.032 || median(halves) > most*calm || h.of < 0.9*h.all {
			t.Error("that is too little")
		}
	}
}
