package tuner

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/trial"
)

// playedJob is a job whose versions take turns, without a communicator: it makes the calls of
// steps, puts what is proposed in force after a while, and stamps calls as the host does.
type playedJob struct {
	t     *testing.T
	d     *comparison
	log   recorder
	clock Clock
	now   time.Time
	call  uint64
	calls []uint64 // hashes of a step's

	inForce  *version
	from     uint64
	proposed bool   // it has come by a turn
	wanted   string // the meaning of the latest edit
	pending  *version
	comes    time.Time
	refuses  bool // no change ever comes
	versions map[string]*version
	took     func(*version) time.Duration // a call
	notes    []Comparison
	turns    int
}

func (j *playedJob) Propose(v agree.Version) {
	if j.refuses || j.pending == j.versions[v.Meaning] {
		return
	}
	j.pending, j.comes = j.versions[v.Meaning], j.now.Add(700*time.Millisecond)
	if j.pending == j.inForce {
		j.pending = nil
	}
}

func (j *playedJob) InForce() agree.InForce {
	return agree.InForce{Snapshot: &snapshot{version: j.inForce}, From: j.from, Proposed: j.proposed, Wanted: j.wanted}
}

func (j *playedJob) Note(_ context.Context, text []byte) error {
	var c Comparison
	if err := json.Unmarshal(text, &c); err != nil {
		j.t.Error(err)
	}
	j.notes = append(j.notes, c)
	return nil
}

// play starts a comparison of version a, in force, with what the settings say.
func play(t *testing.T, s settings, a string, others ...string) *playedJob {
	j := &playedJob{t: t, now: time.Unix(1_000_000, 0), versions: map[string]*version{}, calls: []uint64{1, 1, 2, 1, 3}}
	p := New(env())
	for _, rows := range append(others, a) {
		content := Bundle{Policy: Source{Name: "p.csv", Text: []byte(rows)}}.encode()
		if rows == "" {
			content = noFiles.content
		}
		v, err := p.versionFrom(content, agree.DigestOf(content), Log{})
		if err != nil {
			t.Fatal(err)
		}
		j.versions[v.Meaning()], j.versions[rows] = v, v
	}
	j.inForce = j.versions[a]
	j.clock.Next.Store(never)
	c := &Comm{plugin: p, settings: s, log: j.log.log(), info: CommInfo{ID: 7, Ranks: 8, Nodes: 1, Clock: &j.clock,
		NewStamps: func() *[ClockStamps]Stamp { return new([ClockStamps]Stamp) }}}
	j.d = &comparison{comm: c, log: c.log, member: j, clock: &j.clock, change: time.Second, lag: time.Second, now: func() time.Time { return j.now }, others: func() []standing { return nil }}
	if s.compare != "" {
		j.d.other = j.versions[others[0]]
	}
	return j
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
			j.clock.Stamps[head%ClockStamps] = Stamp{j.call, j.calls[j.call%uint64(len(j.calls))], uint64(j.now.UnixNano())}
			j.clock.Head.Store(head + 1)
			j.clock.Next.Store(never)
			if every := j.clock.Every.Load(); every != never {
				j.clock.Next.Store(j.call + every)
			}
		}
		j.call++
		j.now = j.now.Add(j.took(j.inForce))
		if !j.now.Before(tick) {
			j.d.tick(j.t.Context(), j.now)
			tick = j.now.Add(j.d.pause())
		}
	}
}

// save brings a version into force, as an edit.
func (j *playedJob) save(v *version) {
	j.inForce, j.from, j.pending = v, j.call, nil
	j.proposed, j.wanted = false, v.Meaning()
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
	j.took = func(v *version) time.Duration {
		for rows, us := range micros {
			if j.versions[rows] == v {
				return time.Duration(us * (1 + 0.02*dice.NormFloat64()) * float64(time.Microsecond))
			}
		}
		j.t.Fatalf("version %v is in force", v)
		return 0
	}
}

func (j *playedJob) last() Comparison {
	j.t.Helper()
	if len(j.notes) == 0 {
		j.t.Fatalf("nothing is known; the log: %v", j.log)
	}
	return j.notes[len(j.notes)-1]
}

func TestComparison(t *testing.T) {
	j := play(t, settings{compare: compareNCCL, record: t.TempDir()}, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9700, "": 10000})
	j.run(10 * time.Minute)
	c := j.last()
	if c.State != trial.Precise && c.State != trial.Clear || !c.Faster() || c.Low > -0.03 || c.High < -0.03 || c.StepCalls != 5 || c.Stays != "A" {
		t.Errorf("%+v", c)
	}
	if j.inForce != j.versions[fastRows] || j.turns < 2 {
		t.Errorf("%v is in force after %d turns", j.inForce, j.turns)
	}
	if j.log.count("p.csv (version "+j.inForce.Meaning()[:12]+") against NCCL alone: step time -3.") != 1 || j.log.count(": faster (") != 1 {
		t.Errorf("the log: %v", j.log)
	}
	if j.clock.Next.Load() != never {
		t.Error("calls are stamped for ever")
	}
	files, _ := filepath.Glob(filepath.Join(j.d.comm.settings.record, "*"))
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	text, err := os.ReadFile(files[0])
	var written Comparison
	if err != nil || json.Unmarshal(text, &written) != nil || written.Mean != c.Mean || written.State != c.State {
		t.Errorf("%v %s", err, text)
	}
}

// An edit while versions take turns is what is compared from then on.
func TestComparisonOfEdit(t *testing.T) {
	j := play(t, settings{compare: compareNCCL}, fastRows, "", slowRows)
	j.byVersion(map[string]float64{fastRows: 9000, slowRows: 10500, "": 10000})
	j.run(25 * time.Second)
	j.save(j.versions[slowRows])
	j.run(10 * time.Minute)
	if c := j.last(); !c.Slower() || c.A.Version != j.versions[slowRows].Meaning() || c.B.Name != "NCCL alone" {
		t.Errorf("%+v", c)
	}
	if j.inForce != j.versions[slowRows] {
		t.Errorf("%v is in force: nobody has asked to take an edit back", j.inForce)
	}
	if j.log.count(EnvRecord) > 0 {
		t.Errorf("nobody has asked for a record: %v", j.log)
	}
}

// Where changes never come, or calls never repeat, the comparison says so and disturbs nobody.
func TestComparisonThatCannotBe(t *testing.T) {
	j := play(t, settings{compare: compareNCCL}, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9000, "": 10000})
	j.refuses = true
	j.run(10 * time.Minute)
	if c := j.last(); c.State != trial.NoChange || j.log.count("given up") != 1 {
		t.Errorf("%+v, the log: %v", c, j.log)
	}
	j = play(t, settings{compare: compareNCCL}, fastRows, "")
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

// The side that is tried does not stay in force where steps can no longer be told, or take too long.
func TestComparisonThatCannotGoOn(t *testing.T) {
	for name, stop := range map[string]func(*playedJob){
		"calls do not repeat": func(j *playedJob) {
			j.calls = make([]uint64, 1<<20)
			for i := range j.calls {
				j.calls[i] = uint64(i)
			}
		},
		"steps are long": func(j *playedJob) { j.d.comm.plugin.paces.set(&comparison{}, pace{step: time.Hour}) },
	} {
		j := play(t, settings{compare: compareNCCL}, fastRows, "")
		j.byVersion(map[string]float64{fastRows: 10000, "": 10000})
		for j.turns == 0 || j.inForce == j.versions[fastRows] {
			j.run(10 * time.Millisecond)
		}
		stop(j)
		j.run(25 * time.Minute)
		if j.inForce != j.versions[fastRows] {
			t.Errorf("%s: %v is in force; the log: %v", name, j.inForce, j.log)
		}
		if c := j.d.comm.found.Load(); name == "steps are long" && c.State != trial.NoChange {
			t.Errorf("%s: metrics and status say %q", name, c.State)
		}
	}
}

// A call that no other step has, as for a log line, costs a step, not the comparison.
func TestComparisonWithExtraCalls(t *testing.T) {
	j := play(t, settings{compare: compareNCCL}, fastRows, "")
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

// A comparison that ends on a communicator with longer steps leaves the others as they are.
func TestComparisonKeepsBlocks(t *testing.T) {
	j := play(t, settings{compare: compareNCCL}, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 10000, "": 10000})
	slower := &comparison{}
	j.d.comm.plugin.paces.set(slower, pace{step: time.Second})
	j.run(2 * time.Minute)
	before := j.last()
	j.d.comm.plugin.paces.set(slower, pace{})
	j.run(time.Minute)
	if c := j.last(); c.Pairs <= before.Pairs || c.BlockSeconds != before.BlockSeconds {
		t.Errorf("%+v\nafter %+v", c, before)
	}
}

// Steps of an evaluation are not compared with those of training.
func TestComparisonWithEvaluation(t *testing.T) {
	j := play(t, settings{compare: compareNCCL}, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 990, "": 1000})
	j.run(5 * time.Second)
	phases := [][]uint64{{7, 8}, {1, 1, 2, 1, 3}}
	for i := range 4 {
		for j.d.blocks.Next(j.now).UnixNano()/int64(j.d.blocks.Length)%2 == 0 { // until the first block of a pair
			j.run(j.d.blocks.Next(j.now).Sub(j.now))
		}
		j.run(j.d.blocks.Next(j.now).Sub(j.now) + 300*time.Millisecond)
		j.calls = phases[i%2]
		j.run(10 * time.Second)
	}
	j.run(3 * time.Minute)
	if c := j.last(); c.State != trial.Precise || !c.Faster() {
		t.Errorf("%+v", c)
	}
}

// Whoever asked for a comparison that cannot be hears why: a warning, with the variable.
func TestComparisonRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.csv")
	write(t, bad, "collective,algorithm\nallreduce,rign\n")
	for _, compare := range []string{bad, bad + ".none"} {
		j := play(t, settings{compare: compare}, fastRows, fastRows)
		if v := j.d.comm.compared(); v != nil {
			t.Errorf("%s: %v", compare, v)
		}
		if j.log.count("WARN") < 2 || j.log.count("WARN TUNER/Go: NCCL_TUNER_COMPARE="+compare+" cannot be used") != 1 || j.log.count(EnvConfigFile) != 0 {
			t.Errorf("the log: %v", j.log)
		}
	}
	j := play(t, settings{compare: "p.csv"}, fastRows, fastRows)
	j.byVersion(map[string]float64{fastRows: 9000})
	j.run(time.Minute)
	if j.log.count("WARN") != 1 || j.log.count("mean the same") != 1 {
		t.Errorf("the log: %v", j.log)
	}
	j = play(t, settings{compare: compareNCCL, record: bad}, fastRows, "")
	j.byVersion(map[string]float64{fastRows: 9900, "": 10000})
	j.run(10 * time.Minute)
	if len(j.notes) < 3 || j.log.count("WARN TUNER/Go: NCCL_TUNER_RECORD="+bad+": the comparison is not written: not a directory") != 1 {
		t.Errorf("%d notes, the log: %v", len(j.notes), j.log)
	}
	for want, s := range map[string]settings{
		"NCCL_TUNER_RELOAD=new, not live, and so nothing is compared (":   {canary: true, configFile: "p.csv", reload: reloadNew},
		"neither NCCL_TUNER_CONFIG_FILE nor NCCL_TUNER_MODEL_FILE is set": {compare: compareNCCL},
	} {
		if o := (&Comm{settings: s}).obstacle(); !strings.HasPrefix(o.text, want) {
			t.Errorf("%q, want %q", o.text, want)
		}
	}
}

// Calls that repeat with each layer are launched as fast as the host can; that the job's steps are
// shorter shows between them.
func TestComparisonOfLayers(t *testing.T) {
	j := play(t, settings{compare: compareNCCL}, fastRows, "")
	j.took = func(v *version) time.Duration {
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
	c := Comparison{BlockSeconds: 16, StepSeconds: 0.5123, Result: trial.Result{State: trial.Precise, Pairs: 42, Steps: 1700, Mean: -0.031, Low: -0.036, High: -0.026}}
	for _, want := range []struct {
		change func(*Comparison)
		text   string
	}{
		{func(*Comparison) {}, "step time -3.1 % (-3.6 .. -2.6): faster"},
		{func(c *Comparison) { c.State = trial.Running }, "step time -3.1 % (-3.6 .. -2.6): faster so far"},
		{func(c *Comparison) { c.Mean, c.Low, c.High = 0.001, -0.003, 0.005 }, "step time +0.1 % (-0.3 .. +0.5): no difference is proven"},
		{func(c *Comparison) { c.State, c.Pairs = trial.Running, 2 }, "not known yet, 2 of at least 6 pairs of blocks"},
		{func(c *Comparison) { c.State, c.Pairs, c.Mean, c.Low, c.High = trial.Clear, 2, 0.05, 0.04, 0.06 }, "step time +5.0 % (+4.0 .. +6.0): slower"},
		{func(c *Comparison) { c.State, c.Pairs = trial.NoChange, 2 }, "given up: the versions did not come into force by turns, or a step takes too long"},
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
