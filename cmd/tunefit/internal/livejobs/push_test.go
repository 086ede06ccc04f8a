package livejobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// bundleOf is the content of a version as ranks record it, and its key and digest.
func bundleOf(policy, text string) (key, digest, content string) {
	head, _ := json.Marshal(map[string]any{"Policy": policy, "PolicyLen": len(text)})
	content = "nccl-tuner-go bundle 1\n" + string(head) + "\n" + text
	digest = agree.DigestOf([]byte(content))
	return "blob/" + digest, digest, content
}

func policyRow(channels int) string {
	return fmt.Sprintf("allreduce,0,inf,ring,simple,%d,-1,-1\n", channels)
}

// pushed is a rendezvous of communicators that read one file, of which the ranks are on
// other machines.
type pushed struct{ dir, file, before, after string }

func newPushed(t *testing.T, comms ...string) pushed {
	p := pushed{file: testlib.File(t, "p.csv", policyRow(1))}
	all := map[string]string{}
	for channels, digest := range map[int]*string{1: &p.before, 2: &p.after} {
		key, d, content := bundleOf(p.file, policyRow(channels))
		all[key], *digest = content, d
	}
	for _, comm := range comms {
		all["c/"+comm+"/init"] = fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, p.before)
		var ranks int
		fmt.Sscanf(comm[strings.Index(comm, "-"):], "-%d", &ranks)
		for slot := range ranks {
			all[fmt.Sprintf("c/%s/slot/%d", comm, slot)] = fmt.Sprintf("x n%d 11 1 1", slot)
		}
	}
	p.dir = testlib.Records(t, all)
	return p
}

// newRowWaiter waits for a policy of one row.
func newRowWaiter(rendezvous, file string, out io.Writer) *waiter {
	w := newWaiter(rendezvous, watchedFile{path: file}, out)
	w.text = []byte(policyRow(2))
	return w
}

// Nobody makes a collective on a communicator that a rank has ended: push does not wait for it.
func TestPushWaitsForNoneThatCannotSwitch(t *testing.T) {
	const ending = "0000000000000002-2"
	p := newPushed(t, ending)
	testlib.AddRecords(t, p.dir, map[string]string{"c/" + ending + "/left/0": ""})
	var said strings.Builder
	f := Push{To: p.file, Rendezvous: p.dir, Timeout: time.Second}
	if err := f.Run(&said, testlib.File(t, "new.csv", policyRow(2))); err != nil {
		t.Fatal(err)
	}
	if out := said.String(); !strings.Contains(out, "no job that can change its policy") {
		t.Error(out)
	}
}

// Before the first job there is no folder where jobs meet. The policy is put in place for it.
func TestPushBeforeTheFirstJob(t *testing.T) {
	dir := t.TempDir()
	f := Push{To: filepath.Join(dir, "p.csv"), Rendezvous: filepath.Join(dir, "live"), Timeout: time.Second}
	var said strings.Builder
	if err := f.Run(&said, testlib.File(t, "new.csv", policyRow(2))); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(f.To); string(text) != policyRow(2) || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if out := said.String(); !strings.Contains(out, f.Rendezvous+" does not exist yet") {
		t.Error(out)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("%v, %v", left, err)
	}
}

// Communicators that end meanwhile are not counted among those that run on the file.
func TestPushCountsNoneThatEnded(t *testing.T) {
	const stays, ends = "0000000000000001-2", "0000000000000002-2"
	for _, switches := range []bool{true, false} {
		p := newPushed(t, stays, ends)
		var out strings.Builder
		w := newRowWaiter(p.dir, p.file, &out)
		if err := w.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		testlib.AddRecords(t, p.dir, map[string]string{"c/" + ends + "/left/0": "", "c/" + ends + "/left/1": ""})
		if switches {
			testlib.AddRecords(t, p.dir, map[string]string{
				"p/" + stays +
					".1": fmt.Sprintf(`{"content":%q,"meaning":"bbbbbbbbbbbbbbbb","check":100,"switch":200}`, p.after),
				"c/" + stays + "/d/1.commit.201.1": "",
			})
		} else {
			testlib.AddRecords(t, p.dir, map[string]string{"c/" + stays + "/left/1": ""})
		}
		f := Push{Timeout: time.Minute}
		if err := f.wait(t.Context(), w); err != nil {
			t.Error(err)
		}
		want := "\n1 communicator runs on it\n"
		if !switches {
			want = "\nnothing runs on it yet: it takes effect when a communicator is created\n"
		}
		if !strings.Contains(out.String(), "0x2 has ended\n") || !strings.HasSuffix(out.String(), want) {
			t.Errorf("%s", out.String())
		}
	}
}

// A version is in force from the call that was decided, as the ranks' logs say, which may come after the proposed one.
func TestSwitchIsTheDecidedCall(t *testing.T) {
	c := newCommunicator("",
		agree.Communicator{
			Changes: []agree.Change{{K: 1, Proposal: &agree.Proposal{Check: 400, Switch: 493},
				Decision: &agree.Decision{Commit: true, At: 494}}}},
		func(agree.VersionID) *policyfile.Bundle { return nil })
	if said := lastSwitch(c); said != "call 494" {
		t.Errorf("said %s, want 494", said)
	}
}

// A file that this machine cannot see, of a container say, may be the one that is written, and so may be that of a
// job in a folder that was not looked at: then push does not say that all is well.
func TestPushSaysWhatItCannotKnow(t *testing.T) {
	const comm = "0000000000000001-2"
	for what, c := range map[string]struct {
		change func(t *testing.T, p *pushed)
		want   []string
	}{
		"a container's file": {func(t *testing.T, p *pushed) {
			p.file = testlib.File(t, "policy.csv", policyRow(1))
		}, []string{"1 communicator reads a file that this machine cannot see, which may be this one: 0x1\n",
			"none is known to read this file\n"}},
		"a folder that was not looked at": {func(t *testing.T, p *pushed) {
			if err := os.Mkdir(filepath.Join(p.dir, "run9\nall is well"), 0o700); err != nil {
				t.Fatal(err)
			}
			testlib.AddRecords(t, p.dir, map[string]string{"c/" + comm + "/left/0": ""})
		}, []string{"not looked at: ", "control characters in the name", "none is known to read this file\n"}},
	} {
		t.Run(what, func(t *testing.T) {
			p := newPushed(t, comm)
			if err := os.Remove(p.file); err != nil {
				t.Fatal(err)
			}
			c.change(t, &p)
			for timeout, want := range map[time.Duration]error{time.Minute: cli.ErrUnseen, 0: nil} {
				var said strings.Builder
				err := (&Push{To: p.file, Rendezvous: p.dir, Timeout: timeout}).Run(&said,
					testlib.File(t, "new.csv", policyRow(2)))
				if !errors.Is(err, want) {
					t.Errorf("--timeout %v: %v", timeout, err)
				}
				for _, want := range c.want {
					if !strings.Contains(said.String(), want) {
						t.Errorf("%q is not in\n%s", want, said.String())
					}
				}
			}
		})
	}
}

// A file that was removed is found again by the name that the ranks have for it, through links, too.
func TestPushFindsWhoReadsAFileThatIsGone(t *testing.T) {
	link := filepath.Join(t.TempDir(), "site")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(link, "policy.csv")
	key, digest, content := bundleOf(file, policyRow(1))
	all := twoRanks("0000000000000001-2", map[string]string{key: content})
	all["c/0000000000000001-2/init"] = fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, digest)
	var said strings.Builder
	if err := (&Push{To: file, Rendezvous: testlib.Records(t, all)}).Run(&said,
		testlib.File(t, "new.csv", policyRow(2))); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(said.String(), "1 communicator has to switch; tunefit status tells how it goes\n") {
		t.Error(said.String())
	}
}

// A script reads the same from JSON as a person from the text.
func TestPushJSON(t *testing.T) {
	p := newPushed(t, "0000000000000001-2")
	for again, source := range []string{testlib.File(t, "new.csv", policyRow(2)), p.file} {
		var said strings.Builder
		if err := (&Push{To: p.file, Rendezvous: p.dir, JSON: true}).Run(&said, source); err != nil {
			t.Fatal(err)
		}
		var got pushOutcome
		if err := json.Unmarshal([]byte(said.String()), &got); err != nil {
			t.Fatalf("%v\n%s", err, said.String())
		}
		if got.File != p.file || got.Communicators != 1 || got.Switched ||
			len(got.NotSwitched) != 1 || got.Written != (again == 0) {
			t.Errorf("%+v", got)
		}
	}
}

// A slip of the hand changes nothing: push says which files and rendezvous there are. What only looks like one is for
// two teams, or comes before the first job.
func TestPushOfATypo(t *testing.T) {
	const comm = "0000000000000001-2"
	for what, c := range map[string]struct {
		to, rendezvous string // in the folder of the file, and beside the rendezvous
		there          bool   // the file is
		want           string // "": it is written
	}{
		"the file": {"p.cvs", "", false, "p.cvs does not exist yet, and no running job reads it; a running job reads " +
			"FILE (1 communicator).\n  What to do: name the file that the jobs read with --to"},
		"another team's file": {"q.csv", "", true, ""},
		"the rendezvous": {"p.csv", "mete", true,
			"and jobs that read this file meet beside it: MEET.\n"},
		"another team's rendezvous":     {"q.csv", "mete", true, ""},
		"another team before its first": {"q.csv", "mete", false, ""},
	} {
		t.Run(what, func(t *testing.T) {
			p := newPushed(t, comm)
			above := t.TempDir()
			meet := filepath.Join(above, "meet")
			if err := os.Rename(p.dir, meet); err != nil {
				t.Fatal(err)
			}
			to, rendezvous := filepath.Join(filepath.Dir(p.file), c.to), meet
			if c.rendezvous != "" {
				rendezvous = filepath.Join(above, c.rendezvous)
			}
			before := policyRow(1)
			if !c.there {
				before = ""
			} else if err := os.WriteFile(to, []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, force := range []bool{false, true} {
				var said strings.Builder
				f := Push{To: to, Rendezvous: rendezvous, Force: force, JSON: true}
				err := f.Run(&said, testlib.File(t, "new.csv", policyRow(2)))
				var got pushOutcome
				if err := json.Unmarshal([]byte(said.String()), &got); err != nil {
					t.Fatalf("%v\n%s", err, said.String())
				}
				want := strings.NewReplacer("FILE", p.file, "MEET", meet).Replace(c.want)
				now, _ := os.ReadFile(to)
				if want == "" || force {
					if err != nil || string(now) != policyRow(2) || got.Error != "" {
						t.Errorf("--force=%v: %v, %+v, %q", force, err, got, now)
					}
				} else if err == nil || !strings.Contains(err.Error(), want) || string(now) != before ||
					got.Error != err.Error() || got.Written || got.Switched {
					t.Errorf("%v, %+v, %q, want %q", err, got, now, want)
				}
			}
		})
	}
}

// etcd has prefixes instead of folders.
func TestAboveRendezvous(t *testing.T) {
	for name, want := range map[string]string{"": "", "/a/live/": "/a", "live": ".",
		"etcd://h:2379/jobs/4711": "etcd://h:2379/jobs", "etcds://h:2379,i:2379/a/b/c/": "etcds://h:2379,i:2379/a/b",
		"etcd://h:2379/jobs": "", "etcd://h:2379": "",
		"etcd://h:2379/": ""} {
		if got := aboveRendezvous(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Push repeats what check warns of, and what this machine makes doubtful. What was simulated it does not deploy.
func TestPushWarns(t *testing.T) {
	const release = "collective,algorithm,nccl\nallreduce,ring,2.29\nallgather,ring,\n"
	for what, c := range map[string]struct {
		text, want string
		refused    bool
	}{
		"nothing":         {policyRow(1), "", false},
		"check's":         {policyRow(1) + policyRow(2), "new.csv:2: warning: ", false},
		"simulated":       {"# tunefit:simulated 2.30.7\n" + policyRow(1), "are simulated, not measured", true},
		"another release": {release, "1 of 2 rows is for other releases than NCCL 2.30.7 of this machine", false},
		"measured with another release": {"# tunefit:measured 2.29.7\n" + policyRow(1),
			"it was measured with NCCL 2.29.7, and this machine has 2.30.7", false},
		"measured with this one": {"# tunefit:measured 2.29.7, 2.30.7\n" + policyRow(1), "", false},
		"another machine":        {policyRow(1), "it was measured on another kind of machine (", false},
	} {
		t.Run(what, func(t *testing.T) {
			source := testlib.File(t, "new.csv", c.text)
			if what == "another machine" {
				topologies := filepath.Join(testlib.Root, "configs/topo")
				t.Setenv("NCCL_TUNER_TOPO_FILE", filepath.Join(topologies, "dgx-h100.xml"))
				text, err := os.ReadFile(filepath.Join(topologies, "dgx-a100.xml"))
				if err == nil {
					err = os.WriteFile(filepath.Join(filepath.Dir(source), "topology.xml"), text, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, force := range []bool{false, true} {
				var said, warned strings.Builder
				to := filepath.Join(t.TempDir(), "p.csv")
				f := Push{To: to, Rendezvous: t.TempDir(), Force: force, JSON: true, Stderr: &warned,
					Installed: func() nccl.Version { return nccl.Reference }}
				err := f.Run(&said, source)
				var got pushOutcome
				if err := json.Unmarshal([]byte(said.String()), &got); err != nil {
					t.Fatalf("%v\n%s", err, said.String())
				}
				if all := strings.Join(got.Warnings, "\n"); !strings.Contains(all, c.want) ||
					(all == "") != (c.want == "") || strings.TrimSpace(warned.String()) != all {
					t.Errorf("%q and %q, want %q", all, warned.String(), c.want)
				}
				_, none := os.Stat(to)
				if refused := c.refused && !force; (err != nil) != refused || (none != nil) != refused {
					t.Errorf("--force=%v: %v, %v", force, err, none)
				}
			}
		})
	}
}

// However often push looks, it says a thing once: what it cannot look at, whose file it cannot see, who came late, and
// who has ended or switched.
func TestPushSaysAThingOnce(t *testing.T) {
	file := testlib.File(t, "p.csv", policyRow(1))
	var out strings.Builder
	w := newRowWaiter("", file, &out)
	w.began = time.Now()
	w.unseen = []error{errors.New("/live/4711: permission denied")}
	late, ends, unclear := twoMembers(t), twoMembers(t), &Communicator{Name: "0x3", Rendezvous: "/live/3"}
	late.Name, late.Rendezvous, late.Key, late.Policy = "0x1", "/live/1", "1", file
	ends.Name, ends.Rendezvous, ends.Key, ends.Policy = "0x2", "/live/2", "2", file
	unclear.Members = []member{{Life: identity.Unknown}}
	for look := range 4 {
		ends.Ended = look > 1
		w.follow([]*Communicator{late, ends, unclear})
	}
	seen := map[string]int{}
	for line := range strings.Lines(out.String()) {
		seen[line]++
	}
	for line, times := range seen {
		if times > 1 {
			t.Errorf("said %d times: %s", times, line)
		}
	}
	for _, want := range []string{"not looked at: /live/4711: permission denied", "this machine cannot see", "0x1 was created",
		"0x2 was created", "job /live/2 has ended"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Where a rank is stopped, nothing comes by itself: push says which process waits to be continued.
func TestPushOfAStoppedRank(t *testing.T) {
	c := twoMembers(t)
	for what, acknowledged := range map[string]map[int]bool{"none has acknowledged": {}, "it has": {1: true}} {
		c.Members[1].Life = identity.Stopped
		c.pending = &change{Change: agree.Change{K: 1, Proposal: &agree.Proposal{}, Acks: acknowledged}}
		for i := range c.Members {
			if _, is := acknowledged[i]; !is {
				c.pending.Missing = append(c.pending.Missing, i)
			}
		}
		var said target
		newRowWaiter("", "p.csv", io.Discard).judge(&said, c)
		if !strings.Contains(said.Why, "Stopped by a signal or a debugger: ") ||
			strings.Contains(said.Why, "nothing while") ||
			!strings.HasSuffix(said.Why, fmt.Sprintf(".\n  What to do: kill -CONT %d", c.Members[1].PID)) {
			t.Errorf("%s: %s", what, said.Why)
		}
		if said := fmt.Sprint(c.findings()); strings.Contains(said, "nothing while") {
			t.Errorf("%s: %s", what, said)
		}
	}
}

// twoMembers is a communicator of this process and its parent.
func twoMembers(t *testing.T) *Communicator {
	t.Helper()
	c := &Communicator{Communicator: agree.Communicator{Ranks: 2}}
	for i, pid := range []int{os.Getpid(), os.Getppid()} {
		name := strings.Replace(here(t), fmt.Sprintf(" %d ", os.Getpid()), fmt.Sprintf(" %d ", pid), 1)
		process, err := identity.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		c.Members = append(c.Members, member{Slot: agree.Slot{Index: i, Identity: name}, Process: process,
			Life: identity.Running})
	}
	return c
}
