package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// playedVersion is a version of the rows that it is named by.
type playedVersion struct{ rows, meaning string }

func versionOf(t *testing.T, rows string) *playedVersion {
	if rows == "" {
		return &playedVersion{rows, "nothing"}
	}
	p, err := policy.ReadCSV("p.csv", []byte(rows))
	if err != nil {
		t.Fatal(err)
	}
	return &playedVersion{rows, policy.NewEngine(p, nil, nil).Digest.Full()}
}

func (v *playedVersion) EffectDigest() string { return v.meaning }

func (v *playedVersion) String() string {
	if v.rows == "" {
		return "NCCL's default"
	}
	return fmt.Sprintf("p.csv (version %.12s)", v.meaning)
}

// recorder is a Log that keeps what it is told.
type recorder struct{ lines []string }

func (r *recorder) Infof(format string, args ...any) {
	r.lines = append(r.lines, "INFO "+fmt.Sprintf(format, args...))
}

func (r *recorder) Warnf(format string, args ...any) {
	r.lines = append(r.lines, "WARN "+fmt.Sprintf(format, args...))
}

func (r *recorder) count(substring string) (n int) {
	for _, l := range r.lines {
		if strings.Contains(l, substring) {
			n++
		}
	}
	return n
}

// playedJob is a job whose versions take turns, without a communicator: it makes the calls of
// steps, puts what is proposed in force after a while, and stamps calls as the host does.
type playedJob struct {
	t     *testing.T
	s     *scheduler
	log   recorder
	clock Clock
	peers Peers
	now   time.Time
	skew  time.Duration // of the wall clock, by which calls are stamped and blocks begin
	call  uint64
	calls []uint64 // hashes of a step's

	inForce  *playedVersion
	from     uint64
	proposed bool   // it has come by a turn
	wanted   string // the effect digest of the latest edit
	pending  *playedVersion
	comes    time.Time
	refuses  bool          // no change ever comes
	slow     time.Duration // what a change takes longer
	versions map[string]*playedVersion
	took     func(*playedVersion) time.Duration // a call
	saved    []Evidence
	notes    []Conclusion // of comparisons
	turns    int
}

func (j *playedJob) Propose(v Variant) {
	if j.refuses || j.pending == v {
		return
	}
	j.pending, j.comes = v.(*playedVersion), j.now.Add(700*time.Millisecond+j.slow)
	if j.pending == j.inForce {
		j.pending = nil
	}
}

func (j *playedJob) InForce() InForce {
	return InForce{Version: j.inForce, From: j.from, Proposed: j.proposed, LatestEdit: j.wanted}
}

// stepCalls are the hashes of the calls in a step of training.
var stepCalls = []uint64{1, 1, 2, 1, 3}

// play starts a comparison of version a, in force: of edits (canary), with another version
// (compare), or both.
func play(t *testing.T, canary bool, compare bool, a string, others ...string) *playedJob {
	j := &playedJob{t: t, now: time.Unix(1_000_000, 0), versions: map[string]*playedVersion{},
		calls: stepCalls}
	for _, rows := range append(others, a) {
		j.versions[rows] = versionOf(t, rows)
	}
	j.inForce = j.versions[a]
	j.clock.Next.Store(never)
	config := Config{Evidence: Evidence{Key: "c", Comm: nccl.Comm{Nodes: 1, Ranks: 8}}, Versions: j, Change: time.Second,
		Canary: canary, Clock: &j.clock,
		Peers: &j.peers, Log: &j.log,
		Save: func(_ context.Context, e Evidence) {
			if e.At.Before(j.wall().Add(-time.Second)) {
				t.Errorf("saved at %v as of %v", j.wall(), e.At)
			}
			if j.saved = append(j.saved, e); e.Result != nil {
				j.notes = append(j.notes, *e.Result)
			}
		}}
	if compare {
		config.Other = j.versions[others[0]]
	}
	config.Peer, _ = j.peers.Add(func() (string, uint64) { return j.inForce.EffectDigest(), j.call })
	j.s = newScheduler(config)
	j.s.now = j.wall
	return j
}

func (j *playedJob) wall() time.Time { return j.now.Add(j.skew) }

// slower adds a communicator with longer steps, which does not take turns.
func (j *playedJob) slower(step time.Duration) (end func()) {
	other, remove := j.peers.Add(func() (string, uint64) { return "another", 0 })
	j.peers.setPace(other, pace{steps: inBlock(step, 0)})
	return remove
}

// run plays the job for so long.
func (j *playedJob) run(d time.Duration) {
	end, tick := j.now.Add(d), j.now
	for j.now.Before(end) {
		if j.pending != nil && !j.now.Before(j.comes) {
			wanted := j.wanted
			j.save(j.pending)
			j.proposed, j.wanted = true, wanted
		}
		if j.call >= j.clock.Next.Load() {
			head := j.clock.Head.Load()
			j.clock.Stamps[head%ClockStamps] = Stamp{j.call, j.calls[j.call%uint64(len(j.calls))],
				uint64(j.wall().UnixNano())}
			j.clock.Head.Store(head + 1)
			j.clock.Next.Store(never)
			if every := j.clock.Every.Load(); every != never {
				j.clock.Next.Store(j.call + every)
			}
		}
		j.call++
		j.now = j.now.Add(j.took(j.inForce))
		if !j.now.Before(tick) {
			j.s.tick(j.t.Context(), j.wall())
			tick = j.now.Add(j.s.pause())
		}
	}
}

// save brings a version into force, as an edit.
func (j *playedJob) save(v *playedVersion) {
	j.inForce, j.from, j.pending = v, j.call, nil
	j.proposed, j.wanted = false, v.EffectDigest()
	j.turns++
}

const (
	fastRows  = "allreduce,0,inf,ring,simple,8,-1,-1\n"
	slowRows  = "allreduce,0,inf,ring,simple,4,-1,-1\n"
	thirdRows = "allreduce,0,inf,ring,simple,2,-1,-1\n"
)

// byVersion is how long calls take, with noise.
func (j *playedJob) byVersion(micros map[string]float64) {
	dice := rand.New(rand.NewPCG(1, 2))
	j.took = func(v *playedVersion) time.Duration {
		for rows, us := range micros {
			if j.versions[rows] == v {
				return time.Duration(us * (1 + 0.02*dice.NormFloat64()) * float64(time.Microsecond))
			}
		}
		j.t.Fatalf("version %v is in force", v)
		return 0
	}
}

func (j *playedJob) last() Conclusion {
	j.t.Helper()
	if len(j.notes) == 0 {
		j.t.Fatalf("nothing is known; the log: %v", j.log)
	}
	return j.notes[len(j.notes)-1]
}

func TestComparison(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9700, "": 10000})
	j.run(10 * time.Minute)
	c := j.last()
	if c.State != Precise && c.State != Clear || !c.Faster() || c.Low > -0.03 || c.High < -0.03 || c.StepCalls != 5 ||
		c.Stays != "A" {
		t.Errorf("%+v", c)
	}
	if j.inForce != j.versions[fastRows] || j.turns < 2 {
		t.Errorf("%v is in force after %d turns", j.inForce, j.turns)
	}
	said := fmt.Sprintf("INFO %s against NCCL's default: step time %+.1f %% (", j.inForce, 100*c.Mean)
	if j.log.count(said) != 1 || j.log.count(": faster (") != 1 ||
		j.log.count("; "+j.inForce.String()+" stays active") != 1 {
		t.Errorf("the log: %v", j.log)
	}
	if j.clock.Next.Load() != never {
		t.Error("calls are stamped for ever")
	}
}

// An edit while versions take turns is what is compared from then on.
func TestComparisonOfEdit(t *testing.T) {
	j := play(t, false, true, fastRows, "", slowRows)
	j.byVersion(map[string]float64{fastRows: 9000, slowRows: 10500, "": 10000})
	j.run(25 * time.Second)
	j.save(j.versions[slowRows])
	j.run(10 * time.Minute)
	if c := j.last(); !c.Slower() || c.A.Version != j.versions[slowRows].EffectDigest() || c.B.Name != "NCCL's default" {
		t.Errorf("%+v", c)
	}
	if j.inForce != j.versions[slowRows] {
		t.Errorf("%v is in force: nobody has asked to take an edit back", j.inForce)
	}
	if j.log.count("WARN "+j.inForce.String()+" against NCCL's default: ") != 1 {
		t.Errorf("no warning of a slower policy; the log: %v", j.log)
	}
}

// Where changes take longer than blocks, as after many fast calls, blocks become longer.
func TestComparisonOfSlowChanges(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9700, "": 10000})
	j.slow = 13 * time.Second
	j.run(30 * time.Minute)
	if c := j.last(); !c.Faster() || c.BlockSeconds < 6 || j.inForce != j.versions[fastRows] {
		t.Errorf("%+v, the log: %v", c, j.log)
	}
}

// Where changes never come, or calls never repeat, the comparison says so and disturbs nobody.
func TestComparisonThatCannotBe(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9000, "": 10000})
	j.refuses = true
	j.run(10 * time.Minute)
	if c := j.last(); c.State != NoChange || j.log.count("given up") != 1 || j.log.count("WARN") != 1 {
		t.Errorf("%+v, the log: %v", c, j.log)
	}
	j = play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9000, "": 10000})
	j.calls = make([]uint64, 1<<20)
	for i := range j.calls {
		j.calls[i] = uint64(i)
	}
	j.run(30 * time.Minute)
	if len(j.notes) > 0 || j.turns > 0 || j.log.count("do not repeat") != 1 {
		t.Errorf("%v, %d turns, the log: %v", j.notes, j.turns, j.log)
	}
}

// The side that is tried does not stay in force where steps can no longer be told.
func TestComparisonThatCannotGoOn(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 10000, "": 10000})
	for j.turns == 0 || j.inForce == j.versions[fastRows] {
		j.run(10 * time.Millisecond)
	}
	j.calls = make([]uint64, 1<<20)
	for i := range j.calls {
		j.calls[i] = uint64(i)
	}
	if j.run(25 * time.Minute); j.inForce != j.versions[fastRows] {
		t.Errorf("%v is in force; the log: %v", j.inForce, j.log)
	}
}

// A call that no other step has, as for a log line, costs a step, not the comparison.
func TestComparisonWithExtraCalls(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9000, "": 10000})
	j.run(20 * time.Second)
	j.calls = append(j.calls, 9)
	j.run(2 * time.Second)
	j.calls = j.calls[:5]
	j.run(10 * time.Minute)
	if c := j.last(); !c.Faster() || c.StepCalls != 5 {
		t.Errorf("%+v", c)
	}
}

// A comparison that ends on a communicator with longer steps takes nothing from the others.
func TestComparisonKeepsBlocks(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 10000, "": 10000})
	end := j.slower(time.Second)
	j.run(2 * time.Minute)
	before := j.last()
	end()
	j.run(time.Minute)
	if c := j.last(); c.Pairs <= before.Pairs || c.Steps <= before.Steps {
		t.Errorf("%+v\nafter %+v", c, before)
	}
}

// Steps of an evaluation are not compared with those of training.
func TestComparisonWithEvaluation(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 990, "": 1000})
	j.run(5 * time.Second)
	phases := [][]uint64{{7, 8}, stepCalls}
	for i := range 4 {
		next := func() time.Duration { return nextBlock(j.now, j.s.length).Sub(j.now) }
		for nextBlock(j.now, j.s.length).UnixNano()/int64(j.s.length)%2 == 0 { // until the first block of a pair
			j.run(next())
		}
		j.run(next() + 300*time.Millisecond)
		j.calls = phases[i%2]
		j.run(10 * time.Second)
	}
	j.run(3 * time.Minute)
	if c := j.last(); c.State != Precise || !c.Faster() {
		t.Errorf("%+v", c)
	}
}

// Versions that mean the same are not compared, and whoever asked for it hears why.
func TestComparisonOfTheSame(t *testing.T) {
	j := play(t, false, true, fastRows, fastRows)
	j.byVersion(map[string]float64{fastRows: 9000})
	j.run(time.Minute)
	if j.log.count("WARN") != 1 || j.log.count("mean the same") != 1 {
		t.Errorf("the log: %v", j.log)
	}
}

// Calls that repeat with each layer are launched as fast as the host can; that the job's steps are
// shorter shows between them.
func TestComparisonOfLayers(t *testing.T) {
	j := play(t, false, true, fastRows, "")
	j.took = func(v *playedVersion) time.Duration {
		switch {
		case j.call%200 != 199:
			return 20 * time.Microsecond
		case v == j.versions[fastRows]:
			return 190 * time.Millisecond
		}
		return 200 * time.Millisecond
	}
	j.run(10 * time.Minute)
	if c := j.last(); !c.Faster() || c.Mean > -0.04 || c.Mean < -0.06 {
		t.Errorf("%+v", c)
	}
}

func TestComparisonSays(t *testing.T) {
	c := Conclusion{BlockSeconds: 16, StepSeconds: 0.5123,
		Result: Result{State: Precise, Pairs: 42, Steps: 1700, Mean: -0.031, Low: -0.036, High: -0.026}}
	for _, want := range []struct {
		change func(*Conclusion)
		text   string
	}{
		{func(*Conclusion) {}, "step time -3.1 % (-3.6 .. -2.6): faster"},
		{func(c *Conclusion) { c.State = Running }, "step time -3.1 % (-3.6 .. -2.6): faster so far"},
		{func(c *Conclusion) { c.Mean, c.Low, c.High = 0.001, -0.003, 0.005 },
			"step time +0.1 % (-0.3 .. +0.5): no significant difference"},
		{func(c *Conclusion) { c.State, c.Pairs = Running, 2 }, "not known yet, 2 of at least 6 pairs of blocks"},
		{func(c *Conclusion) { c.State, c.Pairs, c.Mean, c.Low, c.High = Clear, 2, 0.05, 0.04, 0.06 },
			"step time +5.0 % (+4.0 .. +6.0): slower"},
		{func(c *Conclusion) { c.State, c.Pairs = NoChange, 2 },
			"given up: the versions did not become active by turns"},
	} {
		changed := c
		want.change(&changed)
		if got := changed.Verdict(); got != want.text {
			t.Errorf("%q, want %q", got, want.text)
		}
	}
	if got := c.Effort(); !strings.HasPrefix(got, "42 pairs of blocks of 16s, 1700 steps of some 512ms") {
		t.Error(got)
	}
}
