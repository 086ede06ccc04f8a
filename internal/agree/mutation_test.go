package agree

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
)

// A mutation is a wrong protocol, made by editing the sources. Each edit must
// find its text once, so that the list cannot silently become a list of nothing.
type mutation struct {
	name  string
	edits []edit
	// seed is one that finds it. If it does no more, those after it are tried; the nightly run begins at 1.
	seed int
	// scenarios are tests to run beside the seeds, which seldom come to what it takes.
	scenarios []string
}

type edit struct{ file, old, new string }

var mutations = []mutation{
	{"wait for the others without a bound", []edit{{"arrival.go", "if timeout {\n\t\treturn m.decide(Decision{Abort: Stall})\n\t}", ""}}, 571, nil},
	{"give up the wait without asking the store", []edit{{"arrival.go",
		"return m.decide(Decision{Abort: Stall})", "m.obey(Decision{Abort: Stall}, true); return 0"}}, 741, nil},
	{"guess after the stall limit", []edit{{"trigger.go",
		"m.fail(fmt.Errorf(\"%w (waited %v for change %d)\", ErrStalled, waited.Round(time.Second), k))", "m.retired = append(m.retired, m.change.snapshot); m.next(idle)"}}, 3184, nil},
	{"say that a rank has arrived, and go on", []edit{{"trigger.go",
		"if m.state == arrived && n >= m.arrival.at {", "if m.state == arrived && n > m.arrival.at {"}}, 28, nil},
	{"take any call for the barrier", []edit{{"barrier.go", "call != m.lastCall || m.cfg.Uniform", "true"}}, 1, []string{"TestScenario21MisalignedInsideWindow"}},
	{"commit whatever the calls were", []edit{{"background.go", "if theirs != hash {", "if theirs != hash && false {"}}, 745, nil},
	{"commit without one rank", []edit{{"background.go", "len(agreed) == m.cfg.Ranks", "len(agreed) >= m.cfg.Ranks-1"}}, 53, nil},
	{"arrive by proxy though the calls differ", []edit{{"barrier.go", "counter.Seq.Load() != at.at || counter.Hash.Load() != before", "counter == nil"}}, 2756, nil},
	{"arrive by proxy of another thread", []edit{{"barrier.go", "m.passedBy != thread ||", ""}}, 1, []string{"TestScenario43RanksOfOneProcess"}},
	{"arrive by proxy though behind", []edit{{"barrier.go", "m.passedAt < since ||", ""}}, 1, []string{"TestScenario43RanksOfOneThread"}},
	{"obey the own decision, not the one that stands", []edit{{"background.go",
		"found, lookErr := m.readDecision()", "m.obey(d, true)\n\tfound, lookErr := true, error(nil)"}}, 1120, nil},
	{"decide by a record, not by the token", []edit{{"background.go",
		"err := m.cfg.Store.Move(ctx, m.keys.token(k, c.Tag), m.keys.decisions()+\"/\"+d.name(k))",
		"_ = c\n\t_, err := m.cfg.Store.PutOnce(ctx, m.keys.decisions()+\"/\"+d.name(k), nil)"}}, 1, nil},
	{"obey any decision where records have vanished", []edit{{"background.go", "err != nil || mark != c.Token {", "err != nil || mark != c.Token && false {"}}, 1, []string{"TestScenario46OlderCopyRestored"}},
	{"obey a foreign decision once arrived by proxy", []edit{{"obey.go", "m.arrival.attempted && !fromToken", "m.arrival.attempted && !fromToken && false"}}, 1, []string{"TestScenario52ForeignDecisionAfterProxy"}},
	{"delete the decision", []edit{{"background.go",
		"ctx, end := m.op()\n\t\t_ = m.cfg.Store.Remove(ctx, key)", `ctx, end := m.op()
		names, _ := m.cfg.Store.List(ctx, m.keys.decisions())
		for _, name := range names {
			m.cfg.Store.Remove(ctx, m.keys.decisions()+"/"+name)
		}
		m.cfg.Store.Remove(ctx, key)`}}, 96, nil},
	{"leave a prepared promise where its change has ended", []edit{{"promise.go", "func (m *Member) dropPrepared() { m.cfg.Counter.Promise.State = PromiseNone }", "func (m *Member) dropPrepared() {}"}}, 125, nil},
	{"ignore what a version means to this rank", []edit{{"propose.go", "snapshot.Meaning() != c.Meaning", "snapshot.Meaning() != c.Meaning && false"}}, 63, nil},
	{"let a duplicate communicator just be static", []edit{{"join.go", "err := m.joinAsDuplicate(ctx); err != nil", "err := error(nil); err != nil"}}, 3932, nil},
	{"two owners of one slot", []edit{{"join.go", "won = err == nil && string(stands) == m.cfg.Identity", "won = err == nil && len(stands) > 0"}}, 64, nil},
}

const mutantSeeds = "4000"

// TestMutations shows that the simulation finds what breaks the protocol: it
// builds each wrong protocol and expects its seeds to fail.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short (builds the package once per mutation)")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("NOT TESTED: the mutations need the go command: %v", err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			overlay := m.overlay(t)
			first := m.seed
			if os.Getenv(golden.EnvNightly) != "" {
				first = 1
			}
			cmd := exec.Command(goTool, "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", "-ldflags=-s -w", "-timeout", "600s", "-run", "^("+strings.Join(append([]string{"TestSeeds"}, m.scenarios...), "|")+")$", ".")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", envSeeds+"="+mutantSeeds, fmt.Sprintf("%s=%d", envFirst, first))
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
