package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// next returns when the block after the one of t begins.
func (b blocks) next(t time.Time) time.Time {
	return time.Unix(0, (t.UnixNano()/int64(b.length)+1)*int64(b.length))
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

// run makes steps until the trial ends, and returns how many.
func (j job) run(t *trial, most int) (Result, int) {
	blocks := blocks{j.length, j.dice.Uint64()}
	now := time.Unix(1_000_000, j.dice.Int64N(int64(time.Hour)))
	phase := 2 * math.Pi * j.dice.Float64()
	unsettled, last, open := 0, B, int64(0)
	for n := range most {
		pair, side := blocks.at(now)
		log := math.Log(j.step.Seconds()) + j.noise*j.dice.NormFloat64() + j.drift*math.Sin(phase+float64(n)/150)/2
		if side == A {
			log += j.effect
		}
		if j.dice.IntN(20) == 0 { // a straggler
			log += 0.1 * j.dice.Float64()
		}
		if j.dice.IntN(100) == 0 { // a checkpoint, a hiccup of the file system
			log += j.dice.ExpFloat64()
		}
		took := time.Duration(math.Exp(log) * float64(time.Second))
		if side != last {
			unsettled, last = 2, side
		}
		if unsettled--; unsettled < 0 {
			t.add(pair, side, took)
		} else {
			t.past(pair)
		}
		now = now.Add(took)
		if pair == open {
			continue
		}
		open = pair
		if r := t.result(); r.State != Running {
			return r, n + 1
		}
	}
	return t.result(), most
}

// many runs jobs of one kind and counts what their trials say.
type tally struct{ holds, faster, slower, ended, steps int }

func many(seed uint64, n, most int, effect, noise, drift float64, inBlock int) (c tally) {
	for i := range n {
		j := job{rand.New(rand.NewPCG(seed, uint64(i))), effect, noise, drift, 200 * time.Millisecond,
			time.Duration(inBlock) * 200 * time.Millisecond}
		r, steps := j.run(&trial{}, most)
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

// What docs/dev/EVIDENCE.md promises, over jobs of 2 % noise, 1 % hiccups and drift.
func TestTrials(t *testing.T) {
	const n = 400
	percent := func(of int) float64 { return 100 * float64(of) / n }
	for _, inBlock := range []int{10, 20} {
		for _, drift := range []float64{0, 0.03} {
			for i, effect := range []float64{0, -0.01, 0.01, -0.03, 0.05} {
				c := many(uint64(i), n, 6000, effect, 0.02, drift, inBlock)
				name := fmt.Sprintf("blocks of %d steps, drift %g, effect %+g", inBlock, drift, effect)
				if holds := percent(c.holds); holds < 90 || holds > 99 {
					t.Errorf("%s: %.1f %% of the intervals hold the truth", name, holds)
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
				if percent(right) < 95 || wrong > 0 {
					t.Errorf("%s: within 800 steps %.1f %% are called right, %d wrong", name, percent(right), wrong)
				}
			}
		}
	}
}

// Where steps are short a block has many, which tell its mean far better than blocks agree: what drift does
// between blocks must be taken off, and two pairs that end the trial early must not seem more certain than they are.
func TestTrialsOfShortSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	const n = 1000
	for _, inBlock := range []int{100, 300} {
		for i, effect := range []float64{0, -0.1, 0.03} {
			c := many(uint64(i), n, 60000, effect, 0.02, 0.03, inBlock)
			name := fmt.Sprintf("blocks of %d steps, effect %+g", inBlock, effect)
			if holds := float64(c.holds) * 100 / n; holds < 90 || holds > 99 {
				t.Errorf("%s: %.1f %% of the intervals hold the truth", name, holds)
			}
			if c.ended < n {
				t.Errorf("%s: %d of %d trials have not ended", name, n-c.ended, n)
			}
			if called := float64(c.faster+c.slower) * 100 / n; effect == 0 && called > 8 {
				t.Errorf("%s: %.1f %% are called faster or slower", name, called)
			}
		}
	}
}

// A disturbance as long as a block, such as another job's burst, makes one pair differ, not the version.
func TestTrialWithBurst(t *testing.T) {
	blocks := blocks{4 * time.Second, 1}
	now := blocks.next(blocks.next(time.Unix(1_000_000, 0)))
	first, _ := blocks.at(now)
	dice := rand.New(rand.NewPCG(1, 2))
	var trial trial
	for {
		pair, side := blocks.at(now)
		took := time.Duration((1 + 0.01*dice.NormFloat64()) * 0.2e9)
		if pair == first && side == A {
			took += took / 10
		}
		trial.add(pair, side, took)
		now = now.Add(took)
		if r := trial.result(); r.State != Running {
			if r.Slower() || r.Faster() {
				t.Errorf("%+v", r)
			}
			return
		}
	}
}

// Where blocks differ by more than their steps tell, as on a shared network, a policy that changes
// nothing is seldom called faster or slower.
func TestTrialOfNoisyBlocks(t *testing.T) {
	const n, length = 400, 4 * time.Second
	called := 0
	for seed := range uint64(n) {
		dice := rand.New(rand.NewPCG(9, seed))
		blocks := blocks{length, seed}
		now := blocks.next(time.Unix(1_000_000, 0))
		var end time.Time
		var level float64
		var trial trial
		for trial.result().State == Running {
			if !now.Before(end) {
				level, end = 0.03*dice.NormFloat64(), blocks.next(now)
			}
			pair, side := blocks.at(now)
			took := time.Duration(math.Exp(level+0.02*dice.NormFloat64()) * 0.2e9)
			trial.add(pair, side, took)
			now = now.Add(took)
		}
		if r := trial.result(); r.Faster() || r.Slower() {
			called++
		}
	}
	if called > n*18/100 {
		t.Errorf("%d of %d are called faster or slower", called, n)
	}
}

// What is clear has an interval without 0: else the trial would end and nothing come of it.
func TestClear(t *testing.T) {
	for seed := range uint64(2000) {
		dice := rand.New(rand.NewPCG(3, seed))
		var trial trial
		for trial.result().State == Running {
			trial.pairs = append(trial.pairs, difference{value: 0.03 + 0.02*dice.NormFloat64(), noise: 1e-6})
		}
		if r := trial.result(); r.State == Clear && !r.Slower() && !r.Faster() {
			t.Fatalf("seed %d: %+v", seed, r)
		}
	}
}

// Where sides never come into force, the trial says so instead of lasting for ever.
func TestTrialWithoutChanges(t *testing.T) {
	var trial trial
	blocks := blocks{shortest, 1}
	now := time.Unix(1000, 0)
	for range 100 * int(shortest/(100*time.Millisecond)) {
		pair, side := blocks.at(now)
		if side == A {
			trial.add(pair, side, 100*time.Millisecond)
		} else {
			trial.past(pair)
		}
		now = now.Add(100 * time.Millisecond)
	}
	if r := trial.result(); r.State != NoChange || r.Pairs != 0 || r.Known() {
		t.Errorf("%+v", r)
	}
}

// Communicators share nothing but the versions and the clock, and must still agree.
func TestBlocks(t *testing.T) {
	b := blocks{4 * time.Second, seedOf("a", "b")}
	var first [2]int
	for i := range 1000 {
		begin := time.Unix(int64(8*i), 0)
		pair, side := b.at(begin)
		if pair != int64(i) {
			t.Fatalf("pair %d at %v", pair, begin)
		}
		first[side]++
		if p, s := b.at(begin.Add(3999 * time.Millisecond)); p != pair || s != side {
			t.Errorf("pair %d, side %v at the end of a block of pair %d, side %v", p, s, pair, side)
		}
		if p, s := b.at(b.next(begin)); p != pair || s == side {
			t.Errorf("pair %d, side %v after pair %d, side %v", p, s, pair, side)
		}
	}
	if first[A] < 400 || first[B] < 400 {
		t.Errorf("A comes first %d times, B %d times", first[A], first[B])
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
		{time.Hour, 0, time.Second, 0},
	} {
		if got := lengthFor(inBlock(c.step, c.noise), c.change); got != c.want {
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

// A step that was found while something was in the way is found anew.
func TestStepFoundWrong(t *testing.T) {
	var s steps
	now, call := uint64(1e18), uint64(0)
	play := func(calls int, each time.Duration) (ended int) {
		for range calls {
			if call%s.every() == 0 {
				if _, ok := s.add(Stamp{Call: call, Hash: 1 + call%5, Nanos: now}); ok {
					ended++
				}
			}
			now += uint64(each)
			call++
		}
		return ended
	}
	play(2*enoughCalls, 100*time.Millisecond)
	if found, _ := s.find(time.Unix(0, int64(now))); !found || s.took != 500*time.Millisecond {
		t.Fatalf("%+v", s.took)
	}
	if ended := play(5*(wrongSteps+5), time.Millisecond); ended >= wrongSteps || s.period != 0 {
		t.Errorf("%d steps of another length count, and a step is %d calls", ended, s.period)
	}
	play(2*enoughCalls, time.Millisecond)
	if found, _ := s.find(time.Unix(0, int64(now))); !found || s.took != 5*time.Millisecond {
		t.Errorf("it is not found anew: %v", s.took)
	}
}

// every is how many calls lie between two stamps.
func (s *steps) every() uint64 { return max(s.period, 1) }
