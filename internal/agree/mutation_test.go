package agree

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// A mutation is a wrong protocol, made by editing functions. Each edit must
// find its text there once, so that the list cannot silently become a list of nothing.
type mutation struct {
	name  string
	edits []edit
	// seed is one that finds it. If it does no more, those after it are tried; the nightly run begins at 1.
	seed int
	// scenario is a test that finds what the seeds seldom come to. The nightly run tries the seeds beside it.
	scenario string
}

// An edit replaces text of a function, or of a method as RECEIVER.NAME. WRONG in the new text is true where the mutation
// is in force: one build has all of them.
type edit struct{ function, old, new string }

var mutations = []mutation{
	{"wait for the others without a bound",
		[]edit{{"stepArrived", "if timeout {", "if timeout && !WRONG {"}}, 28,
		""},
	{"give up the wait without asking the store", []edit{{"stepArrived",
		"return m.decide(c, Decision{Abort: Stall})",
		"if WRONG { m.applyDecision(c.k, Decision{Abort: Stall}, true); return 0 }\nreturn m.decide(c, Decision{Abort: " +
			"Stall})"}}, 233, ""},
	{"guess after the stall limit", []edit{{"await",
		"m.fail(fmt.Errorf(\"%w (waited",
		"if WRONG { m.dropStaged(); m.next(idle); return }\nm.fail(fmt.Errorf(\"%w (waited"}}, 3181, ""},
	{"say that a rank has arrived, and go on", []edit{{"obey",
		"if m.change.state == arrived && n >= m.change.arrival.at && m.failed == nil {",
		"if m.change.state == arrived && n >= m.change.arrival.at && m.failed == nil && !(WRONG && n == m.change.arrival.at) {"}}, 24, ""},
	{"take any call for the barrier",
		[]edit{{"change.vote", "at.call != c.lastPassed.call || uniform",
			"at.call != c.lastPassed.call || uniform || WRONG"}}, 1, "TestScenario21MisalignedInsideWindow"},
	{"commit whatever the calls were",
		[]edit{{"countReports", "if theirs != hash {", "if theirs != hash && !WRONG {"}}, 285, ""},
	{"forget calls of long ago",
		[]edit{{"Hash", "return c.Last.Load() + c.All.Load()",
			"if WRONG { return c.Last.Load() }\nreturn c.Last.Load() + c.All.Load()"}}, 1673, ""},
	{"commit without one rank",
		[]edit{{"countReports", "len(agreed) == m.cfg.Ranks",
			"len(agreed) == m.cfg.Ranks || WRONG && len(agreed) == m.cfg.Ranks-1"}}, 141, ""},
	{"arrive by proxy though the calls differ",
		[]edit{{"arriveByProxy", "counter.Seq.Load() != at.at || counter.Hash() != call.before",
			"!WRONG && (counter.Seq.Load() != at.at || counter.Hash() != call.before)"}}, 9318, ""},
	{"arrive by proxy of another thread",
		[]edit{{"arriveByProxy", "c.lastPassed.thread != call.thread ||", "c.lastPassed.thread != call.thread && !WRONG ||"}}, 1,
		"TestScenario43RanksOfOneProcess"},
	{"arrive by proxy though behind",
		[]edit{{"arriveByProxy", "c.lastPassed.tick < of.lastPassed.tick ||",
			"c.lastPassed.tick < of.lastPassed.tick && !WRONG ||"}},
		1, "TestScenario43RanksOfOneThread"},
	{"obey the own decision, not the one that stands", []edit{{"decide",
		"found, lookErr := m.readDecision(c)",
		"if WRONG { m.applyDecision(c.k, d, true); return 0 }\nfound, lookErr := m.readDecision(c)"}}, 233, ""},
	{"decide by a record, not by the token", []edit{{"decide",
		"err := m.cfg.Store.Move(ctx, m.keys.token(c.k, c.Tag), m.keys.decision(c.k, d))", `var err error
		if decision := m.keys.decision(c.k, d); WRONG {
			_, err = m.cfg.Store.PutOnce(ctx, decision, nil)
		} else {
			err = m.cfg.Store.Move(ctx, m.keys.token(c.k, c.Tag), decision)
		}`}}, 7, ""},
	{"obey any decision where records have vanished",
		[]edit{{"readDecision", "err != nil || mark != c.Token {", "err != nil || mark != c.Token && !WRONG {"}}, 1,
		"TestScenario46OlderCopyRestored"},
	{"obey a foreign decision once arrived by proxy",
		[]edit{{"applyDecision", "c.arrival.attempted && !tokenVerified", "c.arrival.attempted && !tokenVerified && !WRONG"}}, 1,
		"TestScenario52ForeignDecisionAfterProxy"},
	{"delete the decision", []edit{{"removeObsolete",
		"ctx, end := m.op()\n\t\t_ = m.cfg.Store.Remove(ctx, key)", `ctx, end := m.op()
		if WRONG {
			names, _ := m.cfg.Store.List(ctx, m.keys.dir(kindDecision))
			for _, name := range names {
				m.cfg.Store.Remove(ctx, m.keys.dir(kindDecision)+"/"+name)
			}
		}
		_ = m.cfg.Store.Remove(ctx, key)`}}, 4, ""},
	{"ignore what a version means to this rank",
		[]edit{{"stage", "snapshot.EffectDigest() != v.EffectDigest", "snapshot.EffectDigest() != v.EffectDigest && !WRONG"}}, 88, ""},
	{"let a duplicate communicator just be static",
		[]edit{{"checkJoined", "if m.slot < 0 {", "if m.slot < 0 && !WRONG {"}}, 1, ""},
	{"let a duplicate start beside a change",
		[]edit{{"checkJoined", "alone == nil && !first.Freeze", "alone == nil && !first.Freeze && !WRONG"}}, 1, ""},
	{"start alone where the store does not answer",
		[]edit{{"Join", "if err := m.join(ctx); err != nil {", `err := m.join(ctx)
	if WRONG && errors.Is(err, ErrUnreachable) && m.inForce.Snapshot == nil {
		m.change.state, err = static, nil
		m.inForce.Snapshot, _ = m.stage(ctx, m.cfg.Own, m.cfg.OwnContent)
	}
	if err != nil {`}}, 1, "TestScenario30StoreDownAtInit"},
	{"join what is being removed",
		[]edit{{"checkJoined", "err := m.checkEnded(ctx); err != nil",
			"err := m.checkEnded(ctx); err != nil && !WRONG"}}, 1, "TestScenario54JoinDuringRemoval"},
	{"end beside a duplicate",
		[]edit{{"mayEnd", "!first.Freeze", "(WRONG || !first.Freeze)"}}, 1,
		"TestScenario54JoinDuringRemoval"},
	{"two owners of one slot", []edit{{"claimSlot", "won = err == nil && bytes.Equal(stands, record)",
		"won = err == nil && (bytes.Equal(stands, record) || WRONG && len(stands) > 0)"}}, 113, ""},
	{"let each rank find out the communicator's name", []edit{{"Ranks.Name",
		"return m.putFirst(r.ctx, m.keys.dir(kindName), name)", `if WRONG {
				return name, nil
			}
			return m.putFirst(r.ctx, m.keys.dir(kindName), name)`}}, 1, "TestScenarioNamesOfDuplicates"},
}

const (
	mutantSeeds = "4000"
	envMutation = "AGREE_MUTATION" // the name of the one that is in force
)

// TestMutations shows that the simulation finds what breaks the protocol: the tests of each
// wrong protocol must fail.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	program := buildMutations(t)
	nightly := os.Getenv(nccltest.EnvNightly) != ""
	run := func(seed int, seeds, tests string, env ...string) ([]byte, error) {
		cmd := exec.Command(program, "-test.failfast", "-test.timeout=30m", "-test.run=^("+tests+")$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", envFirst, seed), envSeeds+"="+seeds)
		cmd.Env = append(cmd.Env, env...)
		return cmd.CombinedOutput()
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out, err := run(1, "100", "TestSeeds|TestScenario01PlainChange"); err != nil {
			t.Errorf("without any mutation the tests fail, too:\n%.3000s", out)
		}
	})
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			first, tests := m.seed, m.scenario
			switch {
			case nightly:
				first, tests = 1, strings.Trim("TestSeeds|"+m.scenario, "|")
			case m.scenario == "":
				tests = "TestSeeds"
			}
			began := time.Now()
			// NIGHTLY lets a scenario try all its seeds.
			out, err := run(first, mutantSeeds, tests, envMutation+"="+m.name, nccltest.EnvNightly+"=1")
			if err == nil {
				t.Fatalf("%s with %s seeds finds nothing wrong", tests, mutantSeeds)
			}
			found := regexp.MustCompile(`(violation of invariant \d: |panic: deadlock).*`).Find(out)
			if found == nil {
				t.Fatalf("it fails, but not by a violation:\n%.3000s", out)
			}
			seed := regexp.MustCompile(`seed (\d+) fails`).FindSubmatch(out)
			t.Logf("found at seed %s after %v: %s", append(seed, nil, nil)[1],
				time.Since(began).Round(100*time.Millisecond), found)
		})
	}
}

// buildMutations builds this package's tests from the edited sources.
func buildMutations(t *testing.T) (program string) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("NOT TESTED: the mutations need the go command: %v", err)
	}
	dir := t.TempDir()
	sources := map[string]string{
		"inforce.go": fmt.Sprintf("package agree\nimport \"os\"\nvar mutationInForce = os.Getenv(%q)\n", envMutation)}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		} else if !strings.HasSuffix(name, "_test.go") {
			sources[name] = string(text)
		}
	}
	for _, m := range mutations {
		for _, e := range m.edits {
			file, from, to := function(t, sources, e.function)
			text := sources[file]
			if n := strings.Count(text[from:to], e.old); n != 1 {
				t.Fatalf("%s: %q is there %d times", e.function, e.old, n)
			}
			wrong := strings.ReplaceAll(e.new, "WRONG", fmt.Sprintf("(mutationInForce == %q)", m.name))
			sources[file] = text[:from] + strings.Replace(text[from:to], e.old, wrong, 1) + text[to:]
		}
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
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "agree.test")
	build := exec.Command(goTool, "test", "-c", "-overlay", path, "-vet=off", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// function finds the one function or method of a name in the sources.
func function(t *testing.T, sources map[string]string, name string) (file string, from, to int) {
	t.Helper()
	receiver, method, is := strings.Cut(name, ".")
	if !is {
		receiver, method = "", name
	}
	found := 0
	for of, text := range sources {
		fileSet := token.NewFileSet()
		parsed, err := parser.ParseFile(fileSet, of, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is || f.Name.Name != method ||
				receiver != "" && (f.Recv == nil || !strings.HasSuffix(types.ExprString(f.Recv.List[0].Type), receiver)) {
				continue
			}
			found++
			file, from, to = of, fileSet.Position(f.Pos()).Offset, fileSet.Position(f.End()).Offset
		}
	}
	if found != 1 {
		t.Fatalf("there are %d functions %s", found, name)
	}
	return file, from, to
}
