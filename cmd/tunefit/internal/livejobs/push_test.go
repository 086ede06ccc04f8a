package livejobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
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
	w.text, w.limit = []byte(policyRow(2)), time.Minute
	return w
}

// transcript is what pushes say, each below what it is about.
type transcript struct {
	strings.Builder
	names map[string]string // of folders and files of this run, by what stands for them
}

var seconds = regexp.MustCompile(`after [0-9.]+ s|since 20[0-9: -]+`)

// add adds what was said in a scenario, and the error it ended with.
func (tr *transcript) add(scenario, said string, err error) {
	if err != nil && !errors.Is(err, cli.ErrFailed) && !errors.Is(err, cli.ErrUnseen) {
		said += "tunefit: " + err.Error() + "\n"
	}
	for _, name := range slices.Sorted(maps.Keys(tr.names)) {
		said = strings.ReplaceAll(said, tr.names[name], name)
	}
	said = seconds.ReplaceAllStringFunc(said, func(text string) string { return strings.Fields(text)[0] + " TIME" })
	fmt.Fprintf(tr, "== %s: exit code %d\n%s\n", scenario,
		cli.ExitCode(&cobra.Command{}, err, io.Discard), said)
}

// What push says to a person in each situation; -update writes it anew.
func TestPushSays(t *testing.T) {
	const comm, other = "0000000000000001-2", "0000000000000002-2"
	next := testlib.File(t, "new.csv", policyRow(2))
	tr := &transcript{names: map[string]string{}}
	push := func(scenario string, p pushed, timeout time.Duration) {
		t.Helper()
		var said strings.Builder
		err := (&Push{To: p.file, Rendezvous: p.dir, Timeout: timeout}).Run(&said, next)
		tr.names["FOLDER"], tr.names["MEET"] = filepath.Dir(p.file), p.dir
		tr.add(scenario, said.String(), err)
	}

	dir := t.TempDir()
	push("before the first job there is no folder where jobs meet",
		pushed{dir: filepath.Join(dir, "live"), file: filepath.Join(dir, "p.csv")}, time.Second)
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("%v, %v", left, err)
	}

	p := newPushed(t, comm)
	testlib.AddRecords(t, p.dir, map[string]string{"c/" + comm + "/left/0": ""})
	push("a communicator that a rank has ended", p, time.Second)

	p = newPushed(t, comm)
	push("no time to wait", p, 0)
	push("no time, and nothing to write", p, 0)

	p = newPushed(t, comm)
	if err := os.Remove(p.file); err != nil {
		t.Fatal(err)
	}
	p.file = filepath.Join(t.TempDir(), "policy.csv")
	if err := os.WriteFile(p.file, []byte(policyRow(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	push("the file of a container, which this machine cannot see", p, time.Minute)
	push("the file of a container, and no time to wait", p, 0)

	p = newPushed(t, comm)
	testlib.AddRecords(t, p.dir, map[string]string{"c/" + comm + "/left/0": ""})
	if err := os.Mkdir(filepath.Join(p.dir, "run9\nall is well"), 0o700); err != nil {
		t.Fatal(err)
	}
	push("a folder that was not looked at", p, time.Minute)

	p = pushed{file: filepath.Join(t.TempDir(), "site/policy.csv")}
	tr.names["TARGET"] = t.TempDir()
	if err := os.Symlink(tr.names["TARGET"], filepath.Dir(p.file)); err != nil {
		t.Fatal(err)
	}
	key, digest, content := bundleOf(p.file, policyRow(1))
	p.dir = testlib.Records(t, twoRanks(comm, map[string]string{key: content,
		"c/" + comm + "/init": fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, digest)}))
	push("a file that was removed, through a link", p, 0)

	// Of two files of one name in the folders of other machines, either may be the one that was written.
	p = newPushed(t)
	for comm, name := range map[string]string{comm: "p.csv", other: "other.csv"} {
		key, digest, content := bundleOf(name, policyRow(1))
		testlib.AddRecords(t, p.dir, twoRanks(comm, map[string]string{key: content,
			"c/" + comm + "/init": fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, digest)}))
	}
	push("relative names on other machines", p, time.Minute)

	// Communicators that end meanwhile are not counted among those that run on the file.
	for _, scenario := range []string{"one of two switches, one ends", "both end"} {
		p = newPushed(t, comm, other)
		var out strings.Builder
		w := newRowWaiter(p.dir, p.file, &out)
		if err := w.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		testlib.AddRecords(t, p.dir, map[string]string{"c/" + other + "/left/0": "", "c/" + other + "/left/1": ""})
		if scenario == "both end" {
			testlib.AddRecords(t, p.dir, map[string]string{"c/" + comm + "/left/1": ""})
		} else {
			p.switches(t, "", comm)
		}
		err := w.wait(t.Context())
		tr.names["MEET"] = p.dir
		tr.add(scenario, out.String(), err)
	}

	// One job switches, one ends, one never will, one began on the earlier text meanwhile, and one on the new text.
	jobs := newPushedJobs(t, "4711", "4712", "alice/run8")
	jobs.add(t, "alice/run8", map[string]string{"p/" + jobComm + ".1": `{"freeze":true}`})
	jobs.start(t, "4713", jobs.before)
	jobs.start(t, "4714", jobs.after)
	jobs.switches(t, "4711", jobComm)
	jobs.add(t, "4712", map[string]string{"c/" + jobComm + "/left/0": "", "c/" + jobComm + "/left/1": ""})
	jobs.look(t)
	jobs.switches(t, "4713", jobComm)
	err := jobs.w.wait(t.Context())
	tr.names["MEET"] = jobs.dir
	tr.add("several jobs", jobs.out.String(), err)

	// What a job that was killed has left looks from here as a quiet job does.
	jobs = newPushedJobs(t, "4711")
	jobs.look(t)
	jobs.w.limit = time.Nanosecond
	tr.names["MEET"], tr.names["FOLDER"] = jobs.dir, filepath.Dir(jobs.file)
	err = jobs.w.wait(t.Context())
	tr.add("a job that was killed on other machines", jobs.out.String(), err)

	testkit.Golden(t, "testdata/push.txt", tr.String())
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
		"the file": {"p.cvs", "", false, "p.cvs does not exist yet, and no running job reads it; they read " +
			"FILE.\n  What to do: name the file that the jobs read with --to"},
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

// However often push looks, it says a thing once: what it cannot look at, whose file it cannot see, and who has ended.
func TestPushSaysAThingOnce(t *testing.T) {
	file := testlib.File(t, "p.csv", policyRow(1))
	var out strings.Builder
	w := newRowWaiter("", file, &out)
	w.began = time.Now()
	w.unseen = []error{errors.New("/live/4711: permission denied")}
	stays, ends, unclear := twoMembers(t), twoMembers(t), &Communicator{Name: "0x3", Rendezvous: "/live/3"}
	stays.Name, stays.Rendezvous, stays.Key, stays.Policy = "0x1", "/live/1", "1", file
	ends.Name, ends.Rendezvous, ends.Key, ends.Policy = "0x2", "/live/2", "2", file
	unclear.Members = []member{{Life: identity.Unknown}}
	for look := range 4 {
		ends.Ended = look > 1
		w.take([]*Communicator{stays, ends, unclear})
		w.report()
	}
	const want = "not looked at: /live/4711: permission denied\n" +
		"0x3: they read a file that this machine cannot see; it may be this one\njob /live/2 has ended\n"
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
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
		newRowWaiter("", "p.csv", io.Discard).judge(&said, c, nil)
		if !strings.Contains(said.Why, "Stopped by a signal or a debugger: ") ||
			strings.Contains(said.Why, "nothing while") ||
			!strings.HasSuffix(said.Why, fmt.Sprintf(".\n  What to do: kill -CONT %d", c.Members[1].PID)) {
			t.Errorf("%s: %s", what, said.Why)
		}
		if said := fmt.Sprint(findings([]*Communicator{c})); strings.Contains(said, "nothing while") {
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
