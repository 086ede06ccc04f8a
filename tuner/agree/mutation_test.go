package agree

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A mutation is a wrong protocol, made by editing the sources. Each edit must
// find its text once, so that the list cannot silently become a list of nothing.
type mutation struct {
	name  string
	edits []edit
}

type edit struct{ file, old, new string }

var mutations = []mutation{
	{"no abort at S", []edit{{"background.go", "if m.isWaiting() {", "if false {"}}},
	{"give up at S without asking the store", []edit{{"background.go",
		"return m.decide(Decision{Abort: Stall})", "m.learn(Decision{Abort: Stall}); return 0"}}},
	{"guess after the stall limit", []edit{{"slow.go",
		"m.fail(fmt.Errorf(\"%w (waited %v for change %d)\", ErrStalled, waited.Round(time.Second), k))", "m.retired = append(m.retired, m.change.snapshot); m.next(idle)"}}},
	{"acknowledge when late", []edit{{"slow.go", "if n > m.change.Check {\n\t\tm.tooLate()\n\t\treturn\n\t}", ""}}},
	{"acknowledge after staging only", []edit{{"background.go",
		"wait := m.look()\n\tif wait > 0", "m.acknowledge(c)\n\twait := m.look()\n\tif wait > 0"}}},
	{"acknowledge the next change before the own switch", []edit{
		{"background.go", "return m.stepCommitted()", `if m.cfg.Poller.proposed(m.keys, m.k+1) {
			m.cfg.Store.PutOnce(m.ctx, m.keys.ack(m.k+1, 0, m.slot), nil)
		}
		return m.cfg.Timing.ActivePoll`}}},
	{"skip the hash", []edit{{"background.go", "if theirs != hash {", "if theirs != hash && false {"}}},
	{"commit without one acknowledgement", []edit{{"background.go", "len(agreed) == m.cfg.Ranks", "len(agreed) >= m.cfg.Ranks-1"}}},
	{"obey the own decision, not the one that stands", []edit{{"background.go", "m.learn(winner)", "_ = winner; m.learn(d)"}}},
	{"take a put that failed for one that landed", []edit{{"background.go",
		"if err != nil {\n\t\treturn m.cfg.Timing.ActivePoll\n\t}\n\twinner, err", "if err != nil {\n\t\tm.learn(d)\n\t\treturn 0\n\t}\n\twinner, err"}}},
	{"take an outdated view's absence for an abort", []edit{{"background.go",
		"return m.decide(Decision{Abort: Stall})", "if m.look() != 0 { m.learn(Decision{Abort: Stall}) }; return 0"}}},
	{"delete the decision", []edit{{"background.go",
		"ctx, end := m.op()\n\t\tm.cfg.Store.Remove(ctx, key)", "ctx, end := m.op()\n\t\tm.cfg.Store.Remove(ctx, m.keys.decision(m.k-1))\n\t\tm.cfg.Store.Remove(ctx, key)"}}},
	{"forget the promise", []edit{{"slow.go", "m.cfg.Counter.Trig.Store(m.change.Switch)", "m.cfg.Counter.Trig.Store(Never)"}}},
	{"switch when the commit is seen", []edit{
		{"slow.go", "m.cfg.Counter.Trig.Store(m.change.Switch)", "m.cfg.Counter.Trig.Store(n + 1)"},
		{"slow.go", "m.state == committed && n == m.change.Switch", "m.state == committed"}}},
	{"forget the promise in a move", []edit{{"propose.go", "m.ready(c.Check, c.Switch, 0)", "m.ready(c.Check, Never, 0)"}}},
	{"make a move too late", []edit{{"move.go", "n != m.At", "n < m.At"}}},
	{"leave a move where its change has ended", []edit{{"move.go", "func (m *Member) withdraw() { m.cfg.Counter.Move.State = MoveNone }", "func (m *Member) withdraw() {}"}}},
	{"ignore what a version means to this rank", []edit{{"propose.go", "meaning != c.Meaning", "meaning != c.Meaning && false"}}},
	{"let a duplicate communicator just be static", []edit{{"join.go", "err := m.walk(ctx); err != nil", "err := error(nil); err != nil"}}},
	{"two owners of one slot", []edit{{"join.go", "string(stands) == m.cfg.Identity", "len(stands) > 0"}}},
}

const mutantSeeds = "10000"

// TestMutations shows that the simulation finds what breaks the protocol: it
// builds each wrong protocol and expects its seeds to fail. Misalignment inside
// the window, which no edit of a source makes, is TestMutationMisaligned.
func TestMutations(t *testing.T) {
	if testing.Short() || thin > 1 {
		t.Skip("builds the package once per mutation: not with -short or -race")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("NOT TESTED: the mutations need the go command: %v", err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			overlay := m.overlay(t)
			cmd := exec.Command(goTool, "test", "-overlay", overlay, "-vet=off", "-count=1", "-timeout", "200s", "-run", "^TestSeeds$", ".")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", envSeeds+"="+mutantSeeds, envFirst+"=1")
			began := time.Now()
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("%s seeds find nothing wrong", mutantSeeds)
			}
			found := regexp.MustCompile(`(violation of invariant \d: |panic: deadlock).*`).Find(out)
			if found == nil {
				t.Fatalf("it fails, but not by a violation:\n%.3000s", out)
			}
			seed := regexp.MustCompile(`seed (\d+) fails`).FindSubmatch(out)
			t.Logf("found at seed %s after %v: %s", append(seed, nil, nil)[1], time.Since(began).Round(100*time.Millisecond), found)
		})
	}
}

// overlay writes the edited sources and the list that go test -overlay takes.
func (m mutation) overlay(t *testing.T) string {
	dir := t.TempDir()
	sources := map[string]string{}
	for _, e := range m.edits {
		text, ok := sources[e.file]
		if !ok {
			content, err := os.ReadFile(e.file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		if n := strings.Count(text, e.old); n != 1 {
			t.Fatalf("%s: %q is there %d times", e.file, e.old, n)
		}
		sources[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, text := range sources {
		original, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, file)
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLimitUnreachableDuplicate shows the other limit: of two communicators with
// one id, half of each finds no store, and the other halves fill the slots.
func TestLimitUnreachableDuplicate(t *testing.T) {
	p := usual(1)
	p.ranks, p.comms, p.aloneToo = 2, 2, true
	p.saved(30*time.Second, "B")
	p.calls = 3000
	p.joinAt = func(int) time.Duration { return time.Second }
	p.events = []event{{0, func(w *world) { w.lose(1, true); w.lose(3, true) }}}
	w := simulate(t, p)
	for _, id := range []int{0, 2} {
		if r := w.rank(id); r.last() != "B" {
			t.Errorf("rank %d ends on %q", id, r.last())
		}
	}
	for _, id := range []int{1, 3} {
		if r := w.rank(id); r.last() != "A" || !r.logged("cannot be reached") {
			t.Errorf("rank %d ends on %q", id, r.last())
		}
	}
	if len(w.check.violations) == 0 {
		t.Error("the checker does not see it")
	}
}
