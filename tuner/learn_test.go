package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// watched are shapes to which calls are added as NCCL asks about them.
type watched struct {
	*shapes
	calls map[uint64]int
	step  time.Duration
}

func watch(unchecked ...nccl.Coll) watched {
	return watched{&shapes{base: "base", all: map[uint64]*shape{}, checked: func(c nccl.Coll, a nccl.Algo) bool {
		return nccl.ChannelsAreChecked(c, a, 1, len(unchecked) > 0)
	}}, map[uint64]int{}, 0}
}

// call adds n calls of a step with a table of tree and ring: LL, LL128, Simple each.
func (w watched) call(coll nccl.Coll, bytes uint64, pipeOps, n, rule int, micros ...float32) {
	q := policy.Query{Call: nccl.Call{Coll: coll, Bytes: bytes}, PipeOps: pipeOps,
		Costs: nccl.Costs{Micros: micros, NumProto: nccl.NumProtos}}
	w.add("base", q, policy.Decision{Rule: rule})
	w.add("another version", q, policy.Decision{Rule: 7})
	if n > 0 {
		w.calls[agree.HashCall(int(coll), bytes, pipeOps)] += n
	}
}

func (w watched) tried(settled ...nccl.Range) (all, left []string) {
	factors, left := w.factors(w.calls, w.step, func(_ nccl.Coll, r nccl.Range) bool {
		return len(settled) > 0 && settled[0].Min <= r.Min && r.Max <= settled[0].Max
	})
	for _, f := range factors {
		text := fmt.Sprintf("%s %d-%d x%g:", f.Coll, f.Min, f.Max, f.CallsPerStep)
		for _, a := range f.Arms {
			text += " " + a.Config.String() + ","
		}
		all = append(all, strings.TrimSuffix(text, ","))
	}
	return all, left
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is tried is what takes most of the predicted time: NCCL's default, what NCCL predicts to take at most twice as
// long for all calls of a kind, by the worst table of each, and fewer channels.
func TestFactors(t *testing.T) {
	w := watch()
	w.call(nccl.CollAllReduce, 4<<20, 1, 10, -1, -1, -1, 190, 230, 150, 100)
	w.call(nccl.CollAllReduce, 1<<20, 1, 20, -1, -1, -1, 90, 45, 60, 50) // another choice
	w.call(nccl.CollAllReduce, 8<<20, 1, 5, -1, -1, -1, 450, 390, 250, 200)
	w.call(nccl.CollAllReduce, 4, 1, 1, -1, 1, 2, 3, 4, 5, 6) // 5 % of the time
	w.call(nccl.CollReduceScatter, 64<<20, 1, 1, -1, -1, -1, -1, -1, -1, 900)
	all, left := w.tried()
	same(t, "tried", all,
		"allreduce 4194304-8388608 x15: ring/simple, ring/ll128, ring/simple 16 ch, ring/simple 8 ch, ring/simple 4 ch",
		"reducescatter 67108864-67108864 x1: ring/simple, ring/simple 16 ch, ring/simple 8 ch, ring/simple 4 ch",
		"allreduce 1048576-1048576 x20: ring/ll, ring/simple, ring/ll128, tree/simple, ring/ll 16 ch, ring/ll 8 ch, "+
			"ring/ll 4 ch")
	same(t, "left out", left)
	w.call(nccl.CollAllReduce, 4<<20, 1, 0, -1, -1, -1, 100, 10000, 10000, 10000) // FP8 with the guard
	if all, left = w.tried(); len(all) != 3 || len(left) != 1 || strings.Contains(all[0], "4194304") {
		t.Errorf("%v, %v", all, left)
	}
}

// What the user has decided, what NCCL decides for several calls together and what an earlier job has tried is left
// alone, and said.
func TestFactorsLeftOut(t *testing.T) {
	w := watch(nccl.CollAllGather)
	w.call(nccl.CollAllReduce, 4<<20, 1, 10, 0, -1, -1, 190, 230, 150, 100)
	w.call(nccl.CollAllReduce, 8<<20, 4, 2, -1, -1, -1, 190, 230, 150, 100)
	w.call(nccl.CollAllReduce, 16<<20, 1, 3, -1, -1, -1, 190, 230, 150, 100)
	w.call(nccl.CollAllReduce, 32<<20, 1, 4, -1, -1, -1, 190, 230, 100, 100)
	w.call(nccl.CollAllGather, 64<<20, 1, 48, -1, -1, -1, -1, -1, 150, 100)
	w.call(nccl.CollBroadcast, 64<<20, 1, 0, -1, -1, -1, -1, -1, 150, 100)
	w.call(nccl.CollAllReduce, 16<<20, 0, 0, -1, -1, -1, 190, 230, 150, 100) // of 2.31, before that of the same call
	all, left := w.tried(nccl.Range{Min: 16 << 20, Max: 16 << 20})
	same(t, "tried", all, "allgather 67108864-67108864 x48: ring/simple, ring/ll128") // its channels are not checked
	same(t, "left out", left, "1 call signature that no step has: made once, or captured in a CUDA graph",
		"10 calls of a step: calls that the policy decides",
		"2 calls of a step: calls in groups, which NCCL decides together",
		"3 calls of a step: calls that an earlier job has tried",
		"4 calls of a step: calls of which NCCL's default is not known, or not always the same")
}

// What cannot matter to a step is not tried.
func TestFactorsThatCannotMatter(t *testing.T) {
	w := watch()
	w.call(nccl.CollAllReduce, 64<<20, 1, 10, -1, -1, -1, -1, -1, 400, 300)
	w.call(nccl.CollAllGather, 4<<20, 1, 10, -1, -1, -1, -1, -1, 80, 70)
	w.call(nccl.CollReduceScatter, 1<<20, 1, 10, -1, -1, -1, -1, -1, 40, 30)
	for step, want := range map[time.Duration]int{time.Millisecond: 3, 200 * time.Millisecond: 2, time.Second: 1, time.Hour: 0} {
		w.step = step
		if all, left := w.tried(); len(all) != want || (len(left) == 1) != (want < 3) {
			t.Errorf("a step takes %v: %v are tried, left out: %v", step, all, left)
		}
	}
}

func arm(config string) trial.Arm {
	c, err := nccl.ParseConfig(config)
	if err != nil {
		panic(err)
	}
	return trial.Arm{Config: c}
}

const learningKind = "5d1f0c2a9be47360"

func learningComm(t testing.TB, policyText string, settings settings) (*Communicator, *policyfile.Version, *recorder) {
	t.Helper()
	var log recorder
	plugin, _ := newOn(learningKind, env())
	c := &Communicator{plugin: plugin, info: CommInfo{Comm: nccl.Comm{Nodes: 2, Ranks: 16}, NCCL: nccl.Only(23007)},
		log: log.log(), settings: settings}
	c.learning = newLearning(settings, c.plugin, c.key(), c.info, c.log)
	base := policyfile.None
	if policyText != "" {
		content := policyfile.Bundle{Policy: policyfile.Source{Name: "p.csv", Text: []byte(policyText)}}.Encode()
		var err error
		if base, err = c.plugin.loader.Decode(content, agree.DigestOf(content), telemetry.Log{}); err != nil {
			t.Fatal(err)
		}
	}
	return c, base, &log
}

// What is tried comes after the user's rows, whatever columns these have.
func TestVersionsOfArms(t *testing.T) {
	factors := []trial.Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: 1024, Max: 4096},
		Arms: []trial.Arm{arm("tree/ll"), arm("ring/ll128/8")}},
		{Coll: nccl.CollAllGather, Range: nccl.Range{Min: 7, Max: 7}, Arms: []trial.Arm{arm("ring/simple"), arm("ring/ll")}}}
	const want = learnedHeader + "allreduce,1024,4096,ring,ll128,8,2,16,,\nallgather,7,7,ring,ll,-1,2,16,,\n"
	for _, base := range []string{"", "allreduce,0,1024,tree,ll,-1,-1,-1", "# mine\nalgorithm,collective\n!tree,reduce\n"} {
		c, v, _ := learningComm(t, base, settings{})
		got, err := c.learning.with(v, factors, []int{1, 1})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := policyfile.DecodeBundle(got.Content()); err != nil || string(b.Added.Text) != want || string(b.Policy.Text) != base {
			t.Errorf("%q, want %q after %q (%v)", b.Added.Text, want, b.Policy.Text, err)
		}
		p := got.Engine().Policy
		if n := len(p.Rules); p.Place(n-1) != "learned.csv:3" || n > 2 && !strings.HasPrefix(p.Place(0), "p.csv:") {
			t.Errorf("%s, %s", p.Place(0), p.Place(n-1))
		}
		if got, err := c.learning.with(v, factors, []int{0, 0}); got != v || err != nil {
			t.Errorf("%v, %v: what was in force is another version", got, err)
		}
	}
}

// A job leaves what it has proven for the next one, which goes on from what is open.
func TestLearnedIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "learn")
	c, base, log := learningComm(t, "allreduce,0,1024,tree,ll,-1,-1,-1\n", settings{learn: dir})
	e := trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, Comm: c.info.Comm,
		NCCL: c.info.NCCL.String(), Machine: c.plugin.loader.Fingerprint(), At: time.Unix(1_000_000, 0),
		State: trial.Stopped,
		Factors: []trial.Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: 4096, Max: 8192},
			Arms: []trial.Arm{arm("tree/ll"), arm("ring/ll128")}}}}
	a := &e.Factors[0].Arms[1]
	a.Effect, a.Error, a.Blocks = -0.02, 0.002, 9
	save := func(e trial.Evidence) {
		t.Helper()
		if err := c.learning.save(e); err != nil {
			t.Fatal(err)
		}
	}
	save(e)
	tried := nccl.Range{Min: 4096, Max: 4096}
	if open, settled, _ := c.learning.earlier(e); len(open) != 1 || settled(nccl.CollAllReduce, tried) {
		t.Errorf("%v is open", open)
	}
	if v := c.learning.withLearned(base); v != base {
		t.Errorf("%v: nothing is proven", v)
	}
	e.State, e.Factors[0].Arms[1].Proven = trial.Learned, true
	save(e)
	if open, settled, _ := c.learning.earlier(e); len(open) > 0 || !settled(nccl.CollAllReduce, tried) {
		t.Errorf("%v is open", open)
	}
	text, _ := os.ReadFile(filepath.Join(dir, LearnedFile))
	const comment, row = "# -2.0 % of the step (-2.4 .. -1.6), 9 blocks of ring/ll128, 1970-01-12", "allreduce,4096,8192,ring,ll128,-1,2,16,2.30.7"
	if want := comment + "\n" + row + ",topo.fingerprint == '" + e.Machine + "'\n"; !strings.HasSuffix(string(text), want) {
		t.Errorf("%q, want %q", text, want)
	}
	// What is damaged is left out, and named.
	bad := filepath.Join(dir, "bad.json")
	write(t, bad, `{"format":"nccl-tuner-go learning","version":2,"nodes":2,"ranks":16,`+
		`"nccl":"2.30.7","machine":"`+e.Machine+`"}`)
	if all, err := c.learning.kept(); len(all) != 1 || err != nil ||
		log.count("WARN TUNER/Go: left out: "+bad+": its version is 2") != 1 {
		t.Errorf("%+v, %v, the log: %v", all, err, log)
	}
	os.Chmod(bad, 0o666)
	if all, err := c.learning.kept(); len(all) != 1 || err != nil || log.count("everybody can write to it") != 1 {
		t.Errorf("%+v, %v, the log: %v", all, err, log)
	}
	os.Remove(bad)
	// Where the directory does not answer, it cannot be said what is in it.
	answer := make(chan struct{})
	c.plugin.timeouts.Do(c.learning.path("*.json"), 0, func() error { <-answer; return nil })
	if _, _, err := c.learning.earlier(e); err == nil {
		t.Error("no error")
	}
	close(answer)
	for c.plugin.timeouts.Do(c.learning.path("*.json"), learnLimit, func() error { return nil }) != nil { // until it has
		runtime.Gosched()
	}
	// The proof stays where another communicator that tries the same has not come so far, and what tries something else
	// has a file of its own.
	for _, factors := range [][]trial.Factor{e.Factors, nil} {
		other := trial.Evidence{Format: e.Format, Version: e.Version, Comm: e.Comm, State: trial.Nothing, NCCL: e.NCCL,
			Machine: e.Machine, Factors: factors}
		save(other)
	}
	if all, err := c.learning.kept(); len(all) != 2 || all[0].State != trial.Learned || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	c.learning.rows = nil
	b, _ := policyfile.DecodeBundle(c.learning.withLearned(base).Content())
	used := learnedHeader + comment + "\n" + row + ",\n" // without the condition: nodes may differ in what is down
	if string(b.Policy.Text) != "allreduce,0,1024,tree,ll,-1,-1,-1\n" || string(b.Added.Text) != used {
		t.Errorf("%q, %q", b.Policy.Text, b.Added.Text)
	}
	// Beside the rows of this machine there may be others.
	const other = "0000000000000000"
	rows, err := c.learning.usable([]byte(string(text) + "allreduce,0,1,ring,ll,-1,2,16,,topo.fingerprint == '" + other + "'\n"))
	if got := learnedHeader + string(rows); got != used || err != nil {
		t.Errorf("%q, %v, want %q", got, err, used)
	}
	path := filepath.Join(dir, LearnedFile)
	write(t, path, strings.TrimSuffix(string(text), "\n")) // as an editor may leave it
	c.learning.rows = nil
	if v, err := c.learning.with(c.learning.withLearned(base), e.Factors, []int{1}); err != nil || len(v.Engine().Policy.Rules) != 3 {
		t.Errorf("%v: a row that is tried is not a line of its own", err)
	}
	for text, says := range map[string]string{
		strings.ReplaceAll(string(text), e.Machine, other): "WARN TUNER/Go: " + path + " is not used: it has 1 row, and none for this machine " +
			"(needed: when is \"topo.fingerprint == '" + e.Machine,
		"collective,algorithm\nallreduce,ring\n":                                                   "WARN TUNER/Go: " + path + " is not used: its first line is not \"collective,min",
		learnedHeader + "allreduce,0,1,rign,ll,-1,2,16,,topo.fingerprint == '" + e.Machine + "'\n": "WARN TUNER/Go: " + path + " is not used: learned.csv:2:4: unknown algorithm",
	} {
		write(t, path, text)
		if c.learning.rows = nil; c.learning.withLearned(base) != base || log.count(says) != 1 {
			t.Errorf("%q: no %q in the log: %v", text, says, log)
		}
	}
	large := strings.Repeat("# a comment\n", policyfile.MaxLiveBytes/12+1)
	write(t, filepath.Join(dir, LearnedFile), string(text)+large)
	if c.learning.rows = nil; c.learning.withLearned(base) != base || log.count(" is not used: larger than 8 MiB") != 1 {
		t.Errorf("the log: %v", log)
	}
}

// A release that is not known is none in evidence, and its rows are for all.
func TestLearnedWithUnknownRelease(t *testing.T) {
	dir := t.TempDir()
	c, base, log := learningComm(t, "", settings{learn: dir})
	c.learning.release = nccl.Releases{}
	c.plugin, _ = newOn("", env()) // nor is the machine known
	c.learning.loader = c.plugin.loader
	e, proven := c.learning.newEvidence(), arm("ring/ll")
	proven.Proven, e.State = true, trial.Learned
	e.Factors = []trial.Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Max: 8},
		Arms: []trial.Arm{arm("tree/ll"), proven}}}
	if err := c.learning.save(e); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "learning-2n-16r-unknown-*.json"))
	text, _ := os.ReadFile(filepath.Join(dir, LearnedFile))
	if e.NCCL != "" || len(files) != 1 || !strings.HasSuffix(string(text), "\nallreduce,0,8,ring,ll,-1,2,16,,\n") {
		t.Errorf("%q, %v, %q", e.NCCL, files, text)
	}
	if c.learning.withLearned(base) == base || log.count("WARN") > 0 {
		t.Errorf("the row is not used; the log: %v", log)
	}
}

func TestLearnSettings(t *testing.T) {
	for _, c := range []struct {
		env    []string
		learn  string
		budget float64
		warns  string
	}{
		{[]string{EnvLearn, "d"}, "d", 0.01, ""},
		{[]string{EnvLearn, "d", EnvBudget, "2.5"}, "d", 0.025, ""},
		{[]string{EnvLearn, "d", EnvBudget, "2.5%"}, "d", 0.025, ""},
		{[]string{EnvLearn, "d", EnvBudget, "100"}, "d", 1, ""},
		{[]string{EnvLearn, "d", EnvBudget, "101"}, "d", 0.01, EnvBudget},
		{[]string{EnvLearn, "d", EnvBudget, "0"}, "d", 0.01, EnvBudget + `="0" is not understood (allowed: percent`},
		{[]string{EnvLearn, "d", EnvBudget, "NaN"}, "d", 0.01, EnvBudget},
		{[]string{EnvLearn, "d", EnvCanary, "1"}, "", 0.01, EnvLearn + "=d is not used"},
		{[]string{EnvLearn, "d", EnvCompare, "nccl"}, "", 0.01, EnvLearn + "=d is not used"},
	} {
		var log recorder
		s, ok := readSettings(env(c.env...), log.log())
		if s.learn != c.learn || s.learnBudget != c.budget || ok != (c.warns == "") ||
			c.warns != "" && log.count(c.warns) != 1 {
			t.Errorf("%v: %+v, %v, the log: %v", c.env, s, ok, log)
		}
	}
	if o := (&Communicator{settings: settings{learn: "d", reload: reloadNew}}).notLive(); !strings.HasSuffix(o.text,
		"not live, and so nothing is learned ("+EnvLearn+")") {
		t.Errorf("%q", o.text)
	}
}
