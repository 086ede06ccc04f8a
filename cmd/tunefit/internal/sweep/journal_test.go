package sweep

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

var begun = []line{
	{Batch: &Batch{Kind: Verify, Channels: []int{8}, Starts: []perfrun.Start{{Name: "a",
		Key: fit.Key{Coll: nccl.CollAllGather, Comm: nccl.Comm{Nodes: 2, Ranks: 16}}, Sizes: []uint64{1 << 10, 1 << 20},
		Passes: []perfrun.Pass{{}, {Policy: "p", Rows: []fit.Row{{Config: nccl.Config{Channels: 8}}}}}}}}},
	{Begin: &Run{ID: 1, Sizes: []uint64{1 << 10}, Command: "all_gather_perf -b 1024", Log: "logs/1.log"}},
	{End: &ending{1, End{Seconds: 2.5, Outcome: Failed, Reason: "exit status 1"}}},
	{Begin: &Run{ID: 2, Sizes: []uint64{1 << 20}, Log: "logs/2.log"}},
}

func written(t *testing.T) (dir string, j *journal) {
	t.Helper()
	dir = t.TempDir()
	j, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range begun {
		if err := j.write(l); err != nil {
			t.Fatal(err)
		}
	}
	return dir, j
}

func TestJournalIsReadAgain(t *testing.T) {
	dir, j := written(t)
	if _, err := openJournal(dir); err == nil ||
		!strings.Contains(err.Error(), "another tunefit sweep works in this folder") {
		t.Errorf("opened twice: %v", err)
	}
	j.close()
	again, err := openJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if !reflect.DeepEqual(again.batches, j.batches) || !reflect.DeepEqual(again.runs, j.runs) || len(j.runs) != 2 ||
		len(j.batches[0].Starts[0].Passes) != 2 {
		t.Errorf("read %+v %+v, written %+v %+v", again.batches, again.runs, j.batches, j.runs)
	}
}

// Wherever tunefit is killed while it writes, what was whole before is there, and the next lines follow it.
func TestJournalCutAnywhere(t *testing.T) {
	dir, j := written(t)
	j.close()
	name := filepath.Join(dir, "journal.jsonl")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		if err := os.WriteFile(name, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(dir)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
		lines := strings.Count(string(whole[:cut]), "\n")
		for _, l := range begun[lines:] {
			if err := j.write(l); err != nil {
				t.Fatal(err)
			}
		}
		j.close()
		if text, err := os.ReadFile(name); err != nil || string(text) != string(whole) {
			t.Fatalf("cut after %d bytes it goes on to %s", cut, text)
		}
	}
}

func TestJournalOfSomethingElse(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n": "journal.jsonl:1: invalid character",
		"{}\n":    "does not follow",
		`{"begin":{"run":1,"log":"logs/1.log"}}` + "\n":                   "does not follow",
		`{"batch":{"starts":[{"name":"a"}]}}` + "\n" + `{"run":1}` + "\n": "journal.jsonl:2: ",
		`{"batch":{"starts":[{}]}}` + "\n":                                `journal.jsonl:1: name of start 0 is ""`,
		`{"batch":{"starts":[{"name":"a"},{"name":"../../a"}]}}` + "\n":   `:1: name of start 1 is "../../a"`,
		`{"batch":{"starts":[{"name":"a","policy":"/tmp/p"}]}}` + "\n":    `:1: policy of start 0 is "/tmp/p"`,
		`{"begin":{"run":1,"log":"logs/../../x.log"}}` + "\n":             `:1: log is "logs/../../x.log" (allowed: `,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := openJournal(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A run that the disk has no room to write down is an error: nobody would know of it later.
func TestJournalOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	j := &journal{file: full, of: map[subjectKey][]*Run{}}
	if err := j.write(begun[0]); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want %v", err, syscall.ENOSPC)
	}
}

// The verification has its part of the budget, but not before anything was measured that it could verify.
func TestBudgetIsNotAllForTheVerification(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 2) // of 6 s each
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for budget, want := range map[time.Duration]bool{0: false, 20 * time.Second: true, 30 * time.Second: false,
		time.Hour: false} {
		s.Budget = budget
		if s.reserved(o.Keys[0]) != want {
			t.Errorf("of %v, 12 s spent, the rest is for the verification: %v", budget, !want)
		}
	}
}

// A budget below what a start is assumed to take has one start. Later ones are begun if the budget reaches for them.
func TestBudgetReachesForAStart(t *testing.T) {
	for _, test := range []struct {
		runs   int // of 6 s each
		budget time.Duration
		want   bool
	}{{0, 0, true}, {0, 5 * time.Second, true}, {2, 14 * time.Second, false}, {2, 30 * time.Second, true}, {2, 0, true}} {
		o := optionsOf(t, t.TempDir(), test.runs)
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if s.Budget = test.budget; s.affords(o.Keys[0]) != test.want {
			t.Errorf("after %d runs a budget of %v reaches for one more: %v", test.runs, test.budget, !test.want)
		}
		s.Close()
	}
}

// What is left to run ends at nothing, whatever a subject was expected to take.
func TestWorkLeft(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 3)
	o.Proof = 15
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key, proof := o.Keys[0], 3
	if got, _ := s.ahead(); got != proof+1 {
		t.Errorf("%d left after 3 of 4, before the proof of %d", got, proof)
	}
	several := func(name string, key fit.Key) perfrun.Start {
		return perfrun.Start{Name: name, Key: key, Sizes: o.Sizes, Passes: make([]perfrun.Pass, 4)}
	}
	write := func(lines ...line) {
		t.Helper()
		for _, l := range lines {
			if err := s.journal.write(l); err != nil {
				t.Fatal(err)
			}
		}
	}
	ended := func(id int) line { return line{End: &ending{id, End{Seconds: 6, Outcome: Measured}}} }
	write(line{Batch: &Batch{Kind: Verify, Starts: []perfrun.Start{several("a", key), several("b", key)}}},
		line{Begin: &Run{ID: 4, Batch: 3, Sizes: o.Sizes, Log: "logs/4.log"}}, ended(4))
	if got, _ := s.ahead(); got != proof+1 {
		t.Errorf("%+v left in the middle of the verification", got)
	}
	s.conclude(key)
	if got, _ := s.ahead(); got != proof {
		t.Errorf("%+v left after all but the proof", got)
	}
	write(line{Batch: &Batch{Kind: Prove, Starts: []perfrun.Start{several("c", key), several("d", key)}}},
		line{Begin: &Run{ID: 5, Batch: 4, Sizes: o.Sizes, Log: "logs/x.log"}}, ended(5))
	if got, _ := s.ahead(); got != 1 {
		t.Errorf("%+v left after one of the proof's two", got)
	}
}

// A budget that is spent names what it did not reach: what is not verified, and what it was too short for.
func TestBudgetThatIsSpent(t *testing.T) {
	o := optionsOf(t, t.TempDir(), 100)
	o.Budget = time.Hour
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	said := func(want string) {
		t.Helper()
		if got := s.unfinished(); !strings.HasPrefix(got, "the budget of 1h0m0s is spent"+want) {
			t.Errorf("got  %s\nwant ...%s", got, want)
		}
	}
	const mend = " (to continue: the same command with a larger --budget"
	first, second := o.Keys[0], o.Keys[1]
	said("; not measured to the end: " + first.String() + ", " + second.String() + mend + ", by about ")
	for i, key := range o.Keys {
		b := Batch{Kind: Verify, Starts: []perfrun.Start{{Name: "a", Key: key, Sizes: o.Sizes, Passes: []perfrun.Pass{{}}}}}
		run := Run{ID: 101 + i, Batch: 100 + i, Sizes: o.Sizes, Log: "logs/a.log"}
		for _, l := range []line{{Batch: &b}, {Begin: &run},
			{End: &ending{run.ID, End{Seconds: 6, Outcome: Measured}}}} {
			if err := s.journal.write(l); err != nil {
				t.Fatal(err)
			}
		}
		if s.concluded[key] = true; i == 0 {
			said("; not measured to the end: " + second.String() + mend)
		}
	}
	said(mend + ")")
	s.cutShort[first] = true
	said("; not measured to the end: " + first.String() + mend + ")")
	s.Settings = []string{"NCCL_NTHREADS=256"}
	said("; not measured to the end: " + first.String() + ", the comparison of settings" + mend)
}
