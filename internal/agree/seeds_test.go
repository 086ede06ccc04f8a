package agree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Environment of the long run: how many seeds, and from which on. With one seed
// the whole story is printed.
const (
	envSeeds = "AGREE_SEEDS"
	envFirst = "AGREE_SEED"
)

func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}

var errStage = errors.New("no space left on device")

// randomPlan draws a run with a bit of everything.
func randomPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	chance := func(p float64) bool { return r.Float64() < p }
	span := func(least, most int) int { return least + r.IntN(most-least+1) }
	p := plan{seed: seed, ranks: span(1, 4), calls: span(50, 500)}
	p.timing = []Timing{Local, Shared, Etcd}[r.IntN(3)]
	p.timing.MinLead = uint64(span(1, 12))
	total := time.Duration(span(3, 60)) * time.Second
	mean := total / time.Duration(p.calls)
	moment := func() time.Duration { return time.Duration(r.Float64() * float64(total)) }
	uneven := r.Float64() * 3
	p.pace = func(rank, call int, r *rand.Rand) time.Duration {
		d := time.Duration(r.ExpFloat64() * float64(mean))
		if r.Float64() < 0.02*uneven {
			d *= 20
		}
		return d
	}
	f := memFaults{
		Delay: []time.Duration{time.Millisecond, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond,
			5 * time.Second}[r.IntN(5)],
		LoseRequest: []float64{0, 0, 0, 0.05, 0.3}[r.IntN(5)],
		LoseReply:   []float64{0, 0, 0.05, 0.3}[r.IntN(4)],
		Stale:       []time.Duration{0, 0, 0, time.Second, time.Minute}[r.IntN(5)],
	}
	p.faults = func(int) memFaults { return f }
	for range span(0, 5) {
		at, content := moment(), string(rune('A'+r.IntN(4)))
		for rank := range p.ranks {
			if !chance(0.2) {
				p.saves = append(p.saves, save{at + time.Duration(r.Float64()*r.Float64()*2e9), rank, content})
			}
		}
	}
	p.ahead = []int{0, 1, 20}[r.IntN(3)]
	if chance(0.3) {
		run := span(1, 80)
		p.shape = func(call int) (int, uint64) { return call / run % 5, uint64(call / run) }
	}
	if chance(0.2) {
		p.thread, p.group = span(2, 3), span(1, 3)
	}
	if chance(0.2) && p.thread == 0 {
		p.process = span(2, 3)
	}
	misaligned := false
	if chance(0.3) {
		misaligned = true
		p.like = chance(0.5)
		p.phantom = once(r.IntN(p.ranks), r.IntN(p.calls))
		if chance(0.5) {
			id := r.IntN(p.ranks)
			p.phantom = func(r *rank, _ int) bool { return r.id == id && r.phantoms == 0 && r.isWithin() }
		}
	}
	if chance(0.1) && !misaligned {
		part, spread := []string{"p/", "/a/", "/m/", "/d/"}[r.IntN(4)], moment()/20
		odd := r.IntN(3)
		drop := vanishing(seed, part, spread, func(key string) bool { return odd == 0 || len(key)%3 == odd })
		p.landed, p.vanishes, p.mayStall = drop.landed, true, true
	}
	if chance(0.15) {
		bad, content := r.IntN(p.ranks), string(rune('B'+r.IntN(3)))
		p.stage = func(rank int, c string) error {
			if rank == bad && c == content {
				return errStage
			}
			return nil
		}
	}
	if chance(0.15) {
		other, content := r.IntN(p.ranks), string(rune('B'+r.IntN(3)))
		p.means = func(rank int, c string) string {
			if rank == other && c == content {
				return "other " + c
			}
			return meaning(c)
		}
	}
	if chance(0.2) {
		id, at := r.IntN(p.ranks), moment()
		p.events = append(p.events, event{at, func(w *world) { w.crash(id) }})
	}
	if chance(0.2) {
		id, at, lasts, hangs := r.IntN(p.ranks), moment(), time.Duration(span(0, 200))*time.Second, chance(0.5)
		p.mayStall = true
		p.events = append(p.events,
			event{at, func(w *world) { w.lose(id, hangs) }},
			event{at + lasts, func(w *world) { w.regain(id) }})
	}
	if chance(0.1) && !p.vanishes {
		// The store is lost at the worst moment: when an acknowledgement has landed.
		id, lasts, hangs := r.IntN(p.ranks), time.Duration(span(0, 200))*time.Second, chance(0.5)
		p.mayStall = true
		var lost atomic.Bool
		p.landed = func(w *world, handle, key string) {
			if strings.Contains(key, "/m/") && handle == strconv.Itoa(id) && lost.CompareAndSwap(false, true) {
				w.lose(id, hangs)
				time.AfterFunc(lasts, func() { w.regain(id) })
			}
		}
	}
	if chance(0.2) && !misaligned {
		p.comms = 2
		late := moment()
		p.joinAt = func(rank int) time.Duration {
			if rank >= p.ranks && late%2 == 0 {
				return late
			}
			return 0
		}
	}
	if chance(0.2) {
		p.node = span(1, 3)
		p.thread, p.process = 0, 0
	}
	if chance(0.05) {
		p.absent = map[int]bool{r.IntN(p.ranks): true}
	}
	if chance(0.2) {
		// The ranks finalize at different calls.
		p.calln = func(rank, calls int) int { return calls - rank*(calls/8) }
	}
	p.stale = []int{2, 2, 2, 20}[r.IntN(4)]
	p.blind = chance(0.25) && !misaligned
	if chance(0.2) && !misaligned && !p.blind && p.comms == 0 {
		p.repeat(r.IntN(p.ranks), span(1, 3), span(1, 2), r.IntN(p.calls/4))
	}
	return p
}

// repeat makes the stream one of calls that repeat themselves after period calls. From call
// at on one rank makes as many calls of its own as some periods have, so that its calls look
// like the others' again.
func (p *plan) repeat(id, period, periods, at int) {
	p.shape = func(call int) (int, uint64) { return 4, uint64(call%period+1) << 20 }
	p.uniform = period == 1
	p.phantom = func(r *rank, call int) bool { return r.id == id && call >= at && r.phantoms < period*periods }
}

// isWithin reports that the rank is between its promise and the barrier.
func (r *rank) isWithin() bool {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return r.m.change.state == promised
}

// nearBarrier makes one phantom call of one rank, about where the barrier is.
func nearBarrier(id int, seed uint64) func(r *rank, call int) bool {
	calls := int(28 + seed%16) // after the promise
	return func(r *rank, _ int) bool {
		if r.id != id || r.phantoms > 0 || !r.isWithin() {
			return false
		}
		calls--
		return calls < 0
	}
}

// once makes one phantom call of one rank.
func once(id, at int) func(r *rank, call int) bool {
	return func(r *rank, call int) bool { return r.id == id && call >= at && r.phantoms == 0 }
}

func (w *world) lose(id int, hangs bool) {
	if r := w.rank(id); r != nil && !r.isCrashed() {
		w.check.trace("rank %d loses the store", id)
		r.handle.SetDown(true, hangs)
	}
}

func (w *world) regain(id int) {
	if r := w.rank(id); r != nil && !r.isCrashed() {
		w.check.trace("rank %d has the store again", id)
		r.handle.SetDown(false, false)
	}
}

// TestSeeds runs random plans. AGREE_SEEDS=1000000 makes it long, AGREE_SEED=7
// repeats one seed of a failure.
func TestSeeds(t *testing.T) {
	first := fromEnv(t, envFirst, 1)
	count := fromEnv(t, envSeeds, map[bool]uint64{false: 500, true: 100}[testing.Short()])
	if os.Getenv(envFirst) != "" && os.Getenv(envSeeds) == "" {
		count = 1
	}
	const workers = 4
	var tally [workers]tally
	t.Run("seeds", func(all *testing.T) {
		for worker := range uint64(workers) {
			all.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for seed := first + worker; seed < first+count && !all.Failed(); seed += workers {
					w := simulate(t, randomPlan(seed))
					tally[worker].add(w)
					w.report(t, count == 1)
				}
			})
		}
	})
	for _, other := range tally[1:] {
		tally[0].merge(other)
	}
	t.Logf("%d seeds: %+v", count, tally[0])
	if count >= 300 && (tally[0].Switches == 0 || tally[0].Failed == 0 || tally[0].Frozen == 0 || tally[0].Waits == 0) {
		t.Errorf("the seeds do not try all there is: %+v", tally[0])
	}
}

// A tally says what the seeds have tried.
type tally struct {
	Calls, Proposals, Commits, Frozen int
	Switches, Waits, Failed           int // of ranks
	Aborts                            map[Reason]int
}

func (s *tally) add(w *world) {
	for _, r := range w.ranks {
		s.Calls += len(r.decided)
		s.Switches += len(r.switches)
		if r.stall > 0 {
			s.Waits++
		}
		if r.callErr != nil || r.joinErr != nil {
			s.Failed++
		}
	}
	s.Proposals += w.proposals()
	for _, p := range w.check.props {
		if p.Freeze {
			s.Frozen++
		}
	}
	for _, d := range w.check.decisions {
		if d.Commit {
			s.Commits++
			continue
		}
		if s.Aborts == nil {
			s.Aborts = map[Reason]int{}
		}
		s.Aborts[d.Abort]++
	}
}

func (s *tally) merge(o tally) {
	s.Calls += o.Calls
	s.Proposals += o.Proposals
	s.Switches += o.Switches
	s.Waits += o.Waits
	s.Failed += o.Failed
	s.Frozen += o.Frozen
	s.Commits += o.Commits
	for why, n := range o.Aborts {
		s.Aborts[why] += n
	}
}

// report fails the test if the world broke an invariant.
func (w *world) report(t *testing.T, always bool) {
	t.Helper()
	lines, _ := w.check.story()
	if len(w.check.violations) == 0 && !always {
		return
	}
	for _, line := range lines {
		t.Log(line)
	}
	for _, v := range w.check.violations {
		t.Error(v)
	}
	if len(w.check.violations) > 0 {
		t.Errorf("seed %d fails; repeat it with %s=%d go test -run '%s'", w.seed, envFirst, w.seed, t.Name())
	}
}

// TestSeedsAreReproducible runs some seeds twice and compares all that happened.
func TestSeedsAreReproducible(t *testing.T) {
	for seed := range uint64(100 / thin) {
		if p := randomPlan(seed); p.thread > 1 || p.process > 1 || p.node > 0 {
			continue // a poller or an aggregator that they share wakes several at one instant, in any order
		}
		first, one := simulate(t, randomPlan(seed)).check.story()
		second, two := simulate(t, randomPlan(seed)).check.story()
		if one == two {
			continue
		}
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Errorf("seed %d tells two stories, which part at:\n%s\n%s", seed, first[i], second[i])
				break
			}
		}
	}
}
