package livejobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// pushedJobs is a folder above the rendezvous of jobs that read one file. Their ranks are on other machines.
type pushedJobs struct {
	pushed
	out strings.Builder
	w   *waiter
}

const jobComm = "0000000000000001-2"

// newPushedJobs has jobs of one communicator of two ranks each.
func newPushedJobs(t *testing.T, jobs ...string) *pushedJobs {
	p := &pushedJobs{pushed: newPushed(t)}
	for _, job := range jobs {
		p.start(t, job, p.before)
	}
	p.w = newRowWaiter(p.dir, p.file, &p.out)
	if err := p.w.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.w.Written = true
	return p
}

// start adds a job whose ranks have begun on a content.
func (p *pushedJobs) start(t *testing.T, job, content string) {
	t.Helper()
	all := twoRanks(jobComm, nil)
	for _, channels := range []int{1, 2} {
		key, _, text := bundleOf(p.file, policyRow(channels))
		all[key] = text
	}
	all["c/"+jobComm+"/init"] = fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, content)
	p.add(t, job, all)
}

func (p *pushedJobs) add(t *testing.T, job string, records map[string]string) {
	t.Helper()
	dir := filepath.Join(p.dir, job)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	testlib.AddRecords(t, dir, records)
}

func (p *pushedJobs) switches(t *testing.T, job string) {
	t.Helper()
	p.add(t, job, map[string]string{
		"p/" + jobComm + ".1": fmt.Sprintf(`{"content":%q,"meaning":"bbbbbbbbbbbbbbbb","check":100,"switch":200}`,
			p.after),
		"c/" + jobComm + "/d/1.commit.201.1": ""})
}

// look takes up what is there now.
func (p *pushedJobs) look(t *testing.T) {
	t.Helper()
	all, err := p.w.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.w.follow(all)
}

func (p *pushedJobs) says(t *testing.T, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(p.out.String(), text) {
			t.Errorf("%q is not in\n%s", text, p.out.String())
		}
	}
}

// Push waits for the jobs of all folders below, and names each by its folder: one that switches, one that ends, one
// that never will, and one that began on the earlier text meanwhile.
func TestPushOfSeveralJobs(t *testing.T) {
	p := newPushedJobs(t, "4711", "4712", "alice/run8")
	p.add(t, "alice/run8", map[string]string{"p/" + jobComm + ".1": `{"freeze":true}`})
	p.start(t, "4713", p.before)
	p.start(t, "4714", p.after) // has nothing to change
	p.switches(t, "4711")
	p.add(t, "4712", map[string]string{"c/" + jobComm + "/left/0": "", "c/" + jobComm + "/left/1": ""})
	p.w.reportWaiting()
	p.look(t)
	p.says(t, "waiting for 3 communicators of 3 jobs: 4711, 4712, alice/run8\n",
		"job 4713: 0x1 was created meanwhile, on the earlier version: push waits for it, too\n",
		"job 4712 has ended\n", "job 4711 has switched, with 1 communicator, after ")
	p.switches(t, "4713")
	f := Push{Timeout: time.Minute}
	if err := f.wait(t.Context(), p.w); err == nil {
		t.Error("alice/run8 never switches")
	}
	p.says(t, "job 4713 has switched, with 1 communicator", "job alice/run8: 0x1 has not switched: a second communicator",
		"\n2 of 3 jobs have switched; job alice/run8: 1 of 1 communicator has not\n")
	if strings.Contains(p.out.String(), "4714") || strings.Count(p.out.String(), "job 4711 has") != 1 {
		t.Error(p.out.String())
	}
	if p.w.count(); p.w.Switched || len(p.w.Jobs) != 3 || p.w.Jobs[1].Job != "alice/run8" ||
		p.w.NotSwitched[0].Rendezvous != filepath.Join(p.dir, "alice/run8") {
		t.Errorf("%+v", p.w.pushOutcome)
	}
}

// A job whose folder cannot be looked at for a while has not ended. One whose folder was removed has.
func TestPushOfAJobOutOfSight(t *testing.T) {
	p := newPushedJobs(t, "4711", "4712")
	hidden, job := filepath.Join(t.TempDir(), "hidden"), filepath.Join(p.dir, "4711")
	if err := os.Rename(job, hidden); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job, nil, 0o600); err != nil { // a folder without permissions hides nothing from root
		t.Fatal(err)
	}
	p.look(t)
	if open := p.w.open(); len(open) != 2 || open[0].Why != "its rendezvous "+job+" cannot be looked at any more" {
		t.Errorf("%+v", open)
	}
	if err := os.Remove(job); err != nil {
		t.Fatal(err)
	}
	p.look(t)
	if open := p.w.open(); len(open) != 1 || open[0].Job != "4712" {
		t.Errorf("%+v", open)
	}
	p.says(t, "job 4711 has ended\n")
}

// What a job that was killed has left looks from here as a quiet job does. Push says since when, and what to do.
func TestPushOfWhatAJobLeft(t *testing.T) {
	p := newPushedJobs(t, "4711")
	p.look(t)
	if open := p.w.open(); len(open) != 1 || !strings.Contains(open[0].Why, "nothing was recorded since 20") ||
		!strings.Contains(open[0].Why, "if the job has ended, remove what it left") {
		t.Errorf("%+v", open)
	}
}

// Of two files of one name in the folders of other machines, either may be the one that was written.
func TestPushOfARelativeName(t *testing.T) {
	p := newPushed(t)
	for comm, name := range map[string]string{"0000000000000001-2": "p.csv", "0000000000000002-2": "other.csv"} {
		key, digest, content := bundleOf(name, policyRow(1))
		testlib.AddRecords(t, p.dir, twoRanks(comm, map[string]string{key: content,
			"c/" + comm + "/init": fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, digest)}))
	}
	var said strings.Builder
	err := (&Push{To: p.file, Rendezvous: p.dir, Timeout: time.Minute}).Run(&said,
		testlib.File(t, "new.csv", policyRow(2)))
	if err == nil || !strings.Contains(said.String(),
		"1 communicator reads a file that this machine cannot see, which may be this one: 0x1\n") ||
		!strings.Contains(said.String(), "1 communicator reads other files and is not concerned\n") {
		t.Errorf("%v: %s", err, said.String())
	}
}

// A job that compares its policy with NCCL's default, or with another file, reads its own file all the time.
func TestPushOfAJobThatCompares(t *testing.T) {
	for what, other := range map[string][2]string{"NCCL's default": {}, "another file": {"/site/other.csv", policyRow(3)}} {
		p := newPushedJobs(t, "4711")
		key, digest, content := bundleOf(other[0], other[1])
		p.add(t, "4711", map[string]string{key: content,
			"p/" + jobComm + ".1": fmt.Sprintf(`{"content":%q,"meaning":"cccccccccccccccc","check":100,"switch":200}`,
				digest),
			"c/" + jobComm + "/d/1.commit.201.1": ""})
		w := newRowWaiter(p.dir, p.file, &p.out)
		if err := w.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.targets) != 1 || w.targets[0].done || len(w.Unclear) > 0 || w.Others > 0 {
			t.Errorf("%s: %+v", what, w.pushOutcome)
		}
	}
}

// status begins with a line for each job.
func TestStatusOfSeveralJobs(t *testing.T) {
	p := newPushedJobs(t, "4711", "4712")
	p.add(t, "4711", twoRanks("0000000000000002-2", map[string]string{
		"p/0000000000000002-2.1": `{` + bb + `,"check":100,"switch":200,"slot":1}`}))
	got := strings.Join(strings.Fields(listed(t, p.dir)), " ")
	for _, want := range []string{
		"job communicators on version policy change 4711 2 2 hosts aaaaaaaaaaaa 2 files 1 to bbbbbbbbbbbb 4712 1 2 hosts " +
			"aaaaaaaaaaaa " + p.file + " - rendezvous ", "job 4711: 0x2: change 1 to version bbbbbbbbbbbb"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if got := listed(t, filepath.Join(p.dir, "4712")); !strings.HasPrefix(got, "rendezvous ") {
		t.Errorf("of one job:\n%s", got)
	}
}
