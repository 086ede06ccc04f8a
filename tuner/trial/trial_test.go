package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// nextBlock returns when the block after the one of t begins.
func nextBlock(t time.Time, length time.Duration) time.Time {
	return time.Unix(0, (t.UnixNano()/int64(length)+1)*int64(length))
}

// A job whose steps vary as training's do.
type job struct {
	dice   *rand.Rand
	effect float64 // ln of A's step time over B's
	noise  float64 // of a step
	drift  float64 // over 1000 steps
	step   time.Duration
	length time.Duration // of a block
}

// run makes steps until a comparison ends, and returns how many.
func (j job) run(most int) (Result, int) {
	x := newTurns(j.dice.Uint64(), time.Time{})
	now := time.Unix(1_000_000, j.dice.Int64N(int64(time.Hour)))
	phase := 2 * math.Pi * j.dice.Float64()
	unsettled, last, open := 0, 0, 0
	for n := range most {
		block := now.UnixNano() / int64(j.length)
		arms := x.draw(block)
		log := math.Log(j.step.Seconds()) + j.noise*j.dice.NormFloat64() + j.drift*math.Sin(phase+float64(n)/150)/2
		log += j.effect * float64(arms[0])
		if j.dice.IntN(20) == 0 { // a straggler
			log += 0.1 * j.dice.Float64()
		}
		if j.dice.IntN(100) == 0 { // a checkpoint, a hiccup of the file system
			log += j.dice.ExpFloat64()
		}
		took := time.Duration(math.Exp(log) * float64(time.Second))
		if arms[0] != last {
			unsettled, last = 2, arms[0]
		}
		if unsettled--; unsettled < 0 {
			x.inBlock(block, arms, took)
		}
		now = now.Add(took)
		if x.pairs() == open {
			continue
		}
		open = x.pairs()
		if r := x.result(); r.State != Running {
			return r, n + 1
		}
	}
	return x.result(), most
}

// many runs jobs of one kind and counts what their trials say.
type tally struct{ holds, faster, slower, ended, steps int }

func many(seed uint64, n, most int, effect, noise, drift float64, inBlock int) (c tally) {
	for i := range n {
		j := job{rand.New(rand.NewPCG(seed, uint64(i))), effect, noise, drift, 200 * time.Millisecond,
			time.Duration(inBlock) * 200 * time.Millisecond}
		r, steps := j.run(most)
		truth := math.Expm1(effect)
		if r.Low <= truth && truth <= r.High {
			c.holds++
		}
		if r.Faster() {
			c.faster++
		}
		if r.Slower() {
			c.slower++
		}
		if r.State != Running {
			c.ended++
		}
		c.steps += steps
	}
	return c
}

// jobs is how many are played: with NIGHTLY=1 many.
func jobs(n int) int {
	if os.Getenv(nccltest.EnvNightly) != "" {
		return 20 * n
	}
	return n
}

// What docs/dev/EVIDENCE.md promises, over jobs of 2 % noise, 1 % hiccups and drift.
func TestTrials(t *testing.T) {
	n := jobs(20)
	percent := func(of int) float64 { return 100 * float64(of) / float64(n) }
	holds, all := 0, 0
	for _, inBlock := range []int{10, 20} {
		for _, drift := range []float64{0, 0.03} {
			for i, effect := range []float64{0, -0.01, 0.01, -0.03, 0.05} {
				c := many(uint64(i), n, 6000, effect, 0.02, drift, inBlock)
				name := fmt.Sprintf("blocks of %d steps, drift %g, effect %+g", inBlock, drift, effect)
				holds, all = holds+c.holds, all+n
				if percent(c.holds) < 85 {
					t.Errorf("%s: %.1f %% of the intervals hold the truth", name, percent(c.holds))
				}
				if c.ended < n {
					t.Errorf("%s: %d of %d trials have not ended", name, n-c.ended, n)
				}
				if effect == 0 && percent(c.faster+c.slower) > 8 {
					t.Errorf("%s: %.1f %% are called faster or slower", name, percent(c.faster+c.slower))
				}
				if effect == 0.05 && (percent(c.slower) < 99 || c.steps > 100*n) {
					t.Errorf("%s: %.1f %% are called slower, after %d steps", name, percent(c.slower), c.steps/n)
				}
				if math.Abs(effect) != 0.01 {
					continue
				}
				short := many(uint64(i), n, 800, effect, 0.02, drift, inBlock)
				right, wrong := short.faster, short.slower
				if effect > 0 {
					right, wrong = wrong, right
				}
				if percent(right) < 90 || wrong > 0 {
					t.Errorf("%s: within 800 steps %.1f %% are called right, %d wrong", name, percent(right), wrong)
				}
			}
		}
	}
	t.Logf("%d of %d intervals hold the truth", holds, all)
	if 100*holds < 93*all {
		t.Errorf("only %d of %d intervals hold the truth", holds, all)
	}
}

// Where steps are short a block has many, which tell its mean far better than blocks agree: what drift does
// between blocks must be taken off, and two pairs that end the trial early must not seem more certain than they are.
func TestTrialsOfShortSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	n := jobs(10)
	for _, inBlock := range []int{100, 300} {
		for i, effect := range []float64{0, -0.1, 0.03} {
			c := many(uint64(i), n, 60000, effect, 0.02, 0.03, inBlock)
			name := fmt.Sprintf("blocks of %d steps, effect %+g", inBlock, effect)
			if holds := float64(c.holds) * 100 / float64(n); holds < 85 {
				t.Errorf("%s: %.1f %% of the intervals hold the truth", name, holds)
			}
			if c.ended < n {
				t.Errorf("%s: %d of %d trials have not ended", name, n-c.ended, n)
			}
			if called := float64(c.faster+c.slower) * 100 / float64(n); effect == 0 && called > 8 {
				t.Errorf("%s: %.1f %% are called faster or slower", name, called)
			}
		}
	}
}

// playTurns adds blocks of steps to a comparison until it ends. level is what a block's steps are longer by.
func playTurns(dice *rand.Rand, noise float64, steps int, level func(block int64, arm int) float64) Result {
	x := newTurns(dice.Uint64(), time.Time{})
	for block := int64(0); ; block++ {
		arms := x.draw(block)
		longer := level(block, arms[0])
		for range steps {
			x.inBlock(block, arms, times(200*time.Millisecond, math.Exp(longer+noise*dice.NormFloat64())))
		}
		if block%2 == 0 {
			continue
		}
		if r := x.result(); r.State != Running {
			return r
		}
	}
}

// A disturbance as long as a block, such as another job's burst, makes one block differ, not the version.
func TestTrialWithBurst(t *testing.T) {
	for seed := range uint64(20) {
		r := playTurns(rand.New(rand.NewPCG(1, seed)), 0.01, 20, func(block int64, _ int) float64 {
			if block == int64(seed%4) {
				return 0.1
			}
			return 0
		})
		if r.Slower() || r.Faster() {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
}

// Where blocks differ by more than their steps tell, as on a shared network, a policy that changes
// nothing is seldom called faster or slower.
func TestTrialOfNoisyBlocks(t *testing.T) {
	n := jobs(20)
	called := 0
	for seed := range uint64(n) {
		dice := rand.New(rand.NewPCG(9, seed))
		r := playTurns(dice, 0.02, 20, func(int64, int) float64 { return 0.03 * dice.NormFloat64() })
		if r.Faster() || r.Slower() {
			called++
		}
	}
	t.Logf("%d of %d are called faster or slower", called, n)
	if called > n*12/100 {
		t.Errorf("%d of %d are called faster or slower", called, n)
	}
}

// What is clear has an interval without 0: else the comparison would end and nothing come of it.
func TestClear(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(3, seed))
		r := playTurns(dice, 0.001, 6, func(_ int64, arm int) float64 {
			return 0.03*float64(arm) + 0.015*dice.NormFloat64()
		})
		if r.State == Clear && !r.Slower() && !r.Faster() {
			t.Fatalf("seed %d: %+v", seed, r)
		}
	}
}

// Communicators share nothing but the versions and the clock, and must still agree. Each pair of blocks has both sides.
func TestTurns(t *testing.T) {
	x := newTurns(seedOf("a", "b"), time.Time{})
	first := 0
	for pair := range int64(1000) {
		a, b := x.draw(2 * pair)[0], x.draw(2*pair + 1)[0]
		if a+b != 1 {
			t.Errorf("pair %d has the arms %d and %d", pair, a, b)
		}
		first += a
	}
	if first < 400 || first > 600 {
		t.Errorf("B comes first %d times of 1000", first)
	}
	if seedOf("a", "b") == seedOf("b", "a") {
		t.Error("the seed does not tell the sides apart")
	}
}

// Blocks have room for enough steps, of more where they vary, and for the change to them.
func TestLengthFor(t *testing.T) {
	for _, c := range []struct {
		step   time.Duration
		noise  float64
		change time.Duration
		want   time.Duration
	}{
		{time.Millisecond, 0, time.Millisecond, 2 * time.Second},
		{300 * time.Millisecond, 0.02, time.Second, 6 * time.Second},
		{300 * time.Millisecond, 0.05, time.Second, 8 * time.Second},
		{300 * time.Millisecond, 2, time.Second, 32 * time.Second},
		{time.Millisecond, 0, 1500 * time.Millisecond, 3 * time.Second},
		{300 * time.Millisecond, 0, 9 * time.Second, 24 * time.Second},
		{time.Minute, 0, time.Second, 1024 * time.Second},
		{time.Hour, 0, time.Second, 1 << 16 * time.Second},
	} {
		if got := lengthFor(pace{inBlock(c.step, c.noise), c.change}); got != c.want {
			t.Errorf("step %v, noise %v, change %v: %v, want %v", c.step, c.noise, c.change, got, c.want)
		}
	}
}

// dataParallel is a step of DDP: buckets of gradients, the last one smaller, and the loss.
func dataParallel() []uint64 {
	step := make([]uint64, 26)
	step[24], step[25] = 1, 2
	return step
}

// sharded is a step of FSDP: layers are gathered, forward and again backward, where their gradients are scattered;
// then the norm.
func sharded(layers int) (step []uint64) {
	for range layers {
		step = append(step, 1)
	}
	for range layers {
		step = append(step, 1, 2)
	}
	return append(step, 3)
}

func TestPeriod(t *testing.T) {
	repeat := func(n int, step ...uint64) []uint64 {
		var all []uint64
		for range n {
			all = append(all, step...)
		}
		return all
	}
	startUp := []uint64{9, 8, 7, 9, 6, 5}
	for name, c := range map[string]struct {
		calls []uint64
		want  int
	}{
		"none":                          {nil, 0},
		"all alike":                     {repeat(30, 1), 1},
		"gradients of layers":           {repeat(4, 1, 1, 1, 2, 2, 3), 6},
		"not often enough":              {repeat(2, 1, 1, 1, 2, 2, 3), 0},
		"after a start":                 {append(startUp, repeat(10, 1, 2, 1, 3)...), 4},
		"in the middle of a step":       {append(repeat(10, 1, 2, 1, 3), 1, 2), 4},
		"data parallel":                 {repeat(4, dataParallel()...), 26},
		"sharded":                       {repeat(4, sharded(48)...), 48 + 2*48 + 1},
		"tensor parallel":               {repeat(20, 5, 5), 1},
		"pipeline, microbatches":        {repeat(4, append(repeat(8, 1, 2, 3, 4), 9)...), 33},
		"a log line's collective in 10": {repeat(3, append(repeat(10, 1, 2, 3), 4)...), 31},
		"never":                         {[]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 0},
	} {
		if got := periodOf(c.calls); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestSteady(t *testing.T) {
	times := func(n int, took func(call int) uint64) (nanos []uint64) {
		var at uint64
		for call := range n {
			nanos = append(nanos, at)
			at += took(call)
		}
		return nanos
	}
	// Ten periods are launched at once, then the GPU works.
	tens := func(call int) uint64 {
		if call%50 == 49 {
			return 1000
		}
		return 1
	}
	slowAtFirst := func(call int) uint64 { return 100 + 400*uint64(max(0, 220-call)/5%2) }
	for name, c := range map[string]struct {
		nanos   []uint64
		patient bool
		want    int
	}{
		"a step is a period":             {times(1000, func(call int) uint64 { return 1 + 100*uint64((call%5)/4) }), true, 1},
		"a step is ten periods":          {times(2000, tens), false, 32}, // three or four of them
		"of which too few were seen":     {times(2000, tens), true, 0},
		"of which enough were seen":      {times(8000, tens), true, 32},
		"it varies by less than half":    {times(1000, func(call int) uint64 { return 100 + uint64(call/5%3)*20 }), true, 1},
		"slow at first":                  {times(300, slowAtFirst), true, 0},
		"slow at first, seen for longer": {times(600, slowAtFirst), true, 1},
		"ever longer":                    {times(200, func(call int) uint64 { return 1 << min(62, call/3) }), false, 0},
		"too few":                        {times(30, func(int) uint64 { return 1 }), false, 0},
	} {
		if got, _, _ := steady(c.nanos, 5, c.patient); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A step that was found while something was in the way is found anew. Steps of other times are steps, as by a version that
// is far slower or faster.
func TestStepFoundWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		each  func(call uint64) time.Duration
		calls uint64 // in a step, then
		took  time.Duration
	}{
		{"faster", func(uint64) time.Duration { return time.Millisecond }, 5, 5 * time.Millisecond},
		{"by turns", func(call uint64) time.Duration { return []time.Duration{1, 9}[call/5%2] * time.Millisecond }, 10,
			50 * time.Millisecond},
	} {
		var s steps
		now, call := uint64(1e18), uint64(0)
		play := func(calls int, each func(uint64) time.Duration) (ended int) {
			for range calls {
				if call%s.every() == 0 {
					if _, ok := s.add(Stamp{Call: call, Hash: 1 + call%5, Nanos: now}); ok {
						ended++
					}
				}
				now += uint64(each(call))
				call++
			}
			return ended
		}
		play(2*enoughCalls, func(uint64) time.Duration { return 100 * time.Millisecond })
		if found, _ := s.find(time.Unix(0, int64(now))); !found || s.took != 500*time.Millisecond {
			t.Fatalf("%s: %+v", c.name, s.took)
		}
		ended := play(5*(wrongSteps+5), c.each)
		if (ended >= wrongSteps) != (c.calls == 5) || (s.period == 0) != (c.calls != 5) {
			t.Errorf("%s: %d steps of another length count, and a step is %d calls", c.name, ended, s.period)
		}
		play(2*enoughCalls, c.each)
		if s.find(time.Unix(0, int64(now))); s.period != c.calls || s.took != c.took {
			t.Errorf("%s: a step is found as %d calls in %v", c.name, s.period, s.took)
		}
	}
}

// every is how many calls lie between two stamps.
func (s *steps) every() uint64 { return max(s.period, 1) }
