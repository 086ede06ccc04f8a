package livejobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if err := p.w.begin(t.Context()); err != nil {
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

func (p pushed) add(t *testing.T, job string, records map[string]string) {
	t.Helper()
	dir := filepath.Join(p.dir, job)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	testlib.AddRecords(t, dir, records)
}

// switches has a communicator of a job change to the new content.
func (p pushed) switches(t *testing.T, job, comm string) {
	t.Helper()
	p.add(t, job, map[string]string{
		"p/" + comm + ".1": fmt.Sprintf(`{"content":%q,"meaning":"bbbbbbbbbbbbbbbb","check":100,"switch":200}`,
			p.after),
		"c/" + comm + "/d/1.commit.201.1": ""})
}

// look takes up what is there now.
func (p *pushedJobs) look(t *testing.T) {
	t.Helper()
	all, err := p.w.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.w.take(all)
	p.w.report()
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
	if open := p.w.NotSwitched; len(open) != 2 || open[0].Why != "its rendezvous "+job+" cannot be looked at any more" {
		t.Errorf("%+v", open)
	}
	if err := os.Remove(job); err != nil {
		t.Fatal(err)
	}
	p.look(t)
	if open := p.w.NotSwitched; len(open) != 1 || open[0].Job != "4712" ||
		!strings.Contains(p.out.String(), "job 4711 has ended\n") {
		t.Errorf("%+v: %s", open, p.out.String())
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
		if err := w.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.targets) != 1 || w.targets[0].done || len(w.Unclear) > 0 || w.Others > 0 {
			t.Errorf("%s: %+v", what, w.pushOutcome)
		}
	}
}
