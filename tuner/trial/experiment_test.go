package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// A plant is a job in which each of several factors takes a share of the step, that depends on the arm.
type plant struct {
	share  []float64   // of the step, by factor, with NCCL's choice
	factor [][]float64 // of that time, by arm
	hidden float64     // of the step: communication that compute hides
	job
}

// newPlant draws one: arms are 10 % slower in the mean, and a tenth of them far slower.
func newPlant(dice *rand.Rand, factors, arms int, communication, noise, drift float64) *plant {
	p := &plant{job: job{dice: dice, noise: noise, drift: drift, step: 200 * time.Millisecond, length: 2 * time.Second}}
	total := 0.0
	for range factors {
		share := 0.5 + dice.Float64()
		total += share
		times := []float64{1}
		for range arms - 1 {
			t := math.Max(0.5, 1.1+0.2*dice.NormFloat64())
			if dice.IntN(10) == 0 {
				t = 1.5 + dice.Float64()
			}
			times = append(times, t)
		}
		p.share, p.factor = append(p.share, share), append(p.factor, times)
	}
	for i := range p.share {
		p.share[i] *= communication / total
	}
	return p
}

func (p *plant) effect(arms []int) float64 {
	var before, after float64
	for i, k := range arms {
		before += p.share[i]
		after += p.share[i] * p.factor[i][k]
	}
	return math.Log1p(math.Max(0, after-p.hidden) - math.Max(0, before-p.hidden))
}

func (p *plant) best() []int {
	arms := make([]int, len(p.share))
	for i, times := range p.factor {
		for k, t := range times {
			if t < times[arms[i]] {
				arms[i] = k
			}
		}
	}
	return arms
}

// inBlock adds a step of a block.
func (e *experiment) inBlock(block int64, arms []int, took time.Duration) {
	e.add(arms, time.Unix(60*block, 0), took, 1, time.Second)
}

func (p *plant) experiment(budget float64) *experiment {
	var factors []Factor
	for i, times := range p.factor {
		f := Factor{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: uint64(i), Max: uint64(i)}}
		for k := range times {
			f.Arms = append(f.Arms, Arm{Config: nccl.Config{Channels: k}})
		}
		factors = append(factors, f)
	}
	return newExperiment(&Evidence{Factors: factors}, p.dice.Uint64(), budget, false)
}

// outcome is what came of learning.
type outcome struct {
	steps       int
	gain, share float64 // of a step; of what could be gained
	lost        float64 // steps, net, until so many are made
	proven      bool
}

// learn plays steps until the experiment ends or so many are made. Then it compares what was learned.
func (p *plant) learn(e *experiment, most int) (o outcome) {
	now := time.Unix(1_000_000, p.dice.Int64N(int64(time.Hour)))
	phase := 2 * math.Pi * p.dice.Float64()
	n := 0
	step := func(effect float64) time.Duration {
		log := math.Log(p.step.Seconds()) + p.noise*p.dice.NormFloat64() + p.drift*math.Sin(phase+float64(n)/150)/2
		log += effect
		if p.dice.IntN(20) == 0 {
			log += 0.1 * p.dice.Float64()
		}
		if p.dice.IntN(100) == 0 {
			log += p.dice.ExpFloat64()
		}
		n++
		took := time.Duration(math.Exp(log) * float64(time.Second))
		now = now.Add(took)
		return took
	}
	var last int64
	unsettled := 0
	var arms []int
	for over := ""; n < most && over == ""; {
		began := now
		block := began.UnixNano() / int64(p.length)
		if block != last {
			e.close()
			if e.due() {
				e.judge()
			}
			over = e.over()
			last, unsettled = block, 2
			arms = e.draw(block)
		}
		effect := p.effect(arms)
		took := step(effect)
		o.lost += math.Expm1(effect)
		if unsettled--; unsettled < 0 {
			e.inBlock(block, arms, took)
		}
	}
	o.steps = n
	e.Estimate()
	defer func() {
		if o.proven {
			o.lost -= o.gain * float64(max(0, most-n))
		}
	}()
	leaders := e.leaders()
	o.gain = -math.Expm1(p.effect(leaders))
	o.share = o.gain / -math.Expm1(p.effect(p.best()))
	if o.gain == 0 {
		return o
	}
	x := newTurns(p.dice.Uint64(), time.Time{})
	r := Result{State: Running}
	var was []int
	for last = 0; r.State == Running && n < 1_000_000; {
		began := now
		block := began.UnixNano() / int64(p.length)
		arms := x.draw(block)
		effect := 0.0
		if arms[0] == 1 {
			effect = p.effect(leaders)
		}
		if !slices.Equal(arms, was) {
			was, unsettled = arms, 2
		}
		took := step(effect)
		o.lost += math.Expm1(effect)
		if unsettled--; unsettled < 0 {
			x.inBlock(block, arms, took)
		}
		if block != last {
			last = block
			r = x.result()
		}
	}
	o.proven = r.Faster()
	return o
}

// Communicators of a job with the same factors draw alike, also where one of them has dropped an arm that another has
// not; every open arm is drawn about as often, and NCCL's choice twice as often.
func TestDraw(t *testing.T) {
	p := newPlant(rand.New(rand.NewPCG(1, 2)), 3, 4, 0.3, 0, 0)
	one := p.experiment(1)
	another := Factor{Coll: nccl.CollReduce, Arms: make([]Arm, 3)}
	other := newExperiment(&Evidence{Factors: []Factor{one.Factors[2], another, one.Factors[0]}}, one.seed, 1, false)
	other.Factors[0].Arms = slices.Clone(one.Factors[2].Arms)
	other.Factors[0].Arms[1].Dropped = "worse"
	const n = 3000
	var drawn [4]int
	unlike, last, stays := 0, -1, 0
	for block := range int64(n) {
		a, b := one.draw(block), other.draw(block)
		if a[2] != b[0] && a[2] != 1 { // one of them has drawn the same for two blocks
			unlike++
		}
		if a[0] != b[2] || b[0] == 1 || unlike > n/50 {
			t.Fatalf("block %d: %v, and the same factors in another order %v", block, a, b)
		}
		drawn[a[1]]++
		if stays++; a[1] != last {
			last, stays = a[1], 1
		}
		if last > 0 && stays > 2 {
			t.Errorf("block %d: arm %d stays for %d blocks", block, last, stays)
		}
	}
	for k, times := range drawn {
		if want := []int{2 * n / 5, n / 5, n / 5, n / 5}[k]; times < want*9/10 || times > want*11/10 {
			t.Errorf("arm %d is drawn %d times of %d, want %d", k, times, n, want)
		}
	}
}

// What docs/dev/EVIDENCE.md promises: how much of what could be gained is found within so many steps, what that costs on the
// way, and how many policies make steps longer.
func TestExperiments(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	n := 5
	if os.Getenv(nccltest.EnvNightly) != "" {
		n = 30
	}
	for _, c := range []struct {
		factors, arms int
		communication float64 // its share of a step
		hidden        float64 // the share of that which compute hides, at most
		noise, drift  float64
		steps         int
		gains         float64 // at least, of what could be gained
		loses         float64 // at most, steps
		slower        int     // at most, before the comparison
	}{
		{4, 4, 0.3, 0, 0.02, 0.03, 4100, 0.87, -60, 0},
		{8, 6, 0.3, 0, 0.02, 0.03, 1200, 0.53, 25, 0},
		{8, 6, 0.3, 0, 0.02, 0.03, 4800, 0.88, -80, 0},
		{16, 6, 0.3, 0, 0.02, 0.03, 4800, 0.53, 5, 0},
		{8, 6, 0.3, 0, 0.05, 0.10, 4800, 0.61, -5, 0},
		{8, 6, 0.02, 0, 0.02, 0.03, 4800, -1, 18, 2},
		{8, 6, 0.3, 0.95, 0.02, 0.03, 4800, 0.86, -80, 0},
		{8, 6, 0, 0, 0.02, 0.03, 4800, -1, 1, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			var gain, could, lost, steps float64
			var slower, after, proven int
			for seed := range uint64(n) {
				p := newPlant(rand.New(rand.NewPCG(7, seed)), c.factors, c.arms, c.communication, c.noise, c.drift)
				p.hidden = c.hidden * c.communication * p.dice.Float64()
				o := p.learn(p.experiment(0.01), c.steps)
				gain += o.gain / float64(n)
				could += -math.Expm1(p.effect(p.best())) / float64(n)
				lost += o.lost / float64(n)
				steps += float64(o.steps) / float64(n)
				if o.gain < 0 {
					slower++
				}
				if o.proven {
					proven++
					if o.gain < 0 {
						after++
					}
				}
			}
			t.Logf("%.0f %% of %.2f %%, %+.0f steps lost, learning ends after %.0f, %d of %d are proven; slower: %d, of the "+
				"proven %d", 100*gain/could, 100*could, lost, steps, proven, n, slower, after)
			if gain/could < c.gains || lost > c.loses || slower > c.slower || after > n/100 {
				t.Error("this is not what docs/dev/EVIDENCE.md promises")
			}
		})
	}
}
