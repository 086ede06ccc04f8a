package sweep_test

import (
	"bytes"
	"html/template"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// A person takes a row out and proves again. The sweep keeps that policy, proves it, and goes on with its proof. A
// policy as the sweep wrote it follows the measurements.
func TestSweepProvesAnEditedPolicy(t *testing.T) {
	c := newCluster(t)
	c.done("--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos", "ll,simple",
		"--channels", "4,32")
	const file = "policy.csv"
	proven := func() string {
		runs := c.runs()
		_, after, _ := strings.Cut(runs[len(runs)-1].Command, "NCCL_TUNER_PASSES=")
		name, _, _ := strings.Cut(after, " ")
		passes, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("the last run has no passes: %v", err)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(name), strings.Fields(string(passes))[1]))
		if err != nil {
			t.Fatalf("the last run has no policy: %v", err)
		}
		return string(text)
	}
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(c.dir, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	fitted := c.file(file)
	if !strings.HasPrefix(fitted, "# tunefit:simulated 2.30.7\n") {
		t.Errorf("the policy does not say that its times are a stand-in's:\n%s", fitted)
	}
	if when := regexp.MustCompile(`<dt>measured</dt><dd>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d`); !when.MatchString(
		c.file("report.html")) {
		t.Error("the report does not say when it was measured")
	}
	const edited = "allreduce,0,256K,ring,ll,32,1,8\n"
	write(file, edited)
	const kept = "policy.csv, which is not as this sweep wrote it"
	for _, args := range [][]string{nil, {"--prove=1"}, {"--prove=1"}} {
		_, errs := c.done(args...)
		if c.file(file) != edited || !strings.Contains(errs, kept) {
			t.Fatalf("%q: policy.csv is\n%s\nit was edited to\n%s\n%s", args, c.file(file), edited, errs)
		}
		if args != nil && (proven() != edited || !strings.Contains(c.file("report.html"),
			template.HTMLEscapeString(c.file("proof.txt")))) {
			t.Fatalf("%q: it proves\n%s", args, proven())
		}
	}
	if got := c.file("policies/fitted.csv"); got != fitted {
		t.Errorf("of the measurements it makes\n%s\nwant\n%s", got, fitted)
	}

	other := write("other.csv", "allreduce,0,1M,ring,ll,32,1,8\n")
	out, _ := c.done("--prove=1", "--policy", other)
	if proven() != "allreduce,0,1M,ring,ll,32,1,8\n" || c.file(file) != edited ||
		!strings.Contains(out, "NCCL_TUNER_CONFIG_FILE="+other+" ") {
		t.Errorf("--policy proves\n%s%s", proven(), out)
	}

	// A proof that was stopped goes on only if it is the same one.
	before := len(c.runs())
	journal := filepath.Join(c.dir, "journal.jsonl")
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.LastIndex(text, []byte(`{"begin"`)) // the policy's run
	for _, test := range []struct {
		args   []string
		policy string
		runs   int
	}{
		{[]string{"--prove=1", "--policy", other}, c.file("other.csv"), 1},
		{[]string{"--prove=2", "--policy", other}, c.file("other.csv"), 2},
		{[]string{"--prove=1"}, edited, 1},
		{nil, "", 0},
	} {
		if err := os.WriteFile(journal, text[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		c.done(test.args...)
		if got := len(c.runs()) - (before - 1); got != test.runs || test.policy != "" && proven() != test.policy {
			t.Errorf("%q: %d runs more, want %d, and it proves\n%swant\n%s", test.args, got, test.runs, proven(), test.policy)
		}
	}

	if err := os.Remove(filepath.Join(c.dir, file)); err != nil {
		t.Fatal(err)
	}
	if _, errs := c.done(); c.file(file) != fitted || strings.Contains(errs, kept) {
		t.Errorf("without policy.csv it writes\n%s%s", c.file(file), errs)
	}
	for _, args := range [][]string{{"--policy", other}, {"--prove", "--policy", "-"}} {
		tunefit(t, cli.ExitUsage, append([]string{"sweep", "-o", c.dir}, args...)...)
	}
	bad := testlib.File(t, "bad.csv", "allreduce,0,inf,rign,simple,-1,-1,-1\n")
	if code, _, errs := c.sweep("--prove", "--policy", bad); code != cli.ExitFailed ||
		!strings.Contains(errs, "bad.csv:1:4: unknown algorithm") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
