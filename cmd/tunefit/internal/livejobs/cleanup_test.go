package livejobs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// The ranks of another machine that has this one's name are not dead because nobody
// here has their numbers: the first process namespace has one number everywhere.
func TestGCOfAnotherMachineOfTheSameName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Skipf("SKIPPED: no /proc here: %v", err)
	}
	space := strings.Trim(link, "pid:[]")
	for name, boot := range map[string]string{"another boot id": "0123456789abcdef", "no boot id": ""} {
		t.Run(name, func(t *testing.T) {
			const comm = "00000000000000ab-2"
			const none = 1 << 30 // more than any process's number
			dir := testlib.Records(t, map[string]string{
				"c/" + comm + "/init":   aa,
				"c/" + comm + "/slot/0": fmt.Sprintf("x %s %d %s 3 %s", host, none, space, boot),
				"c/" + comm + "/slot/1": fmt.Sprintf("y %s %d %s 3 %s", host, none+1, space, boot),
			})
			long := time.Now().Add(-48 * time.Hour)
			filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
				return os.Chtimes(path, long, long)
			})
			before := listing(t, dir)
			var out strings.Builder
			if err := (&Cleanup{Rendezvous: dir}).Run(&out); err != nil {
				t.Error(err)
			}
			if want := "0xab of 2 ranks: stays, this machine cannot see whether it lives: " +
				host; !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in\n%s", want, out.String())
			}
			if after := listing(t, dir); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// Where others can write, a link of theirs could lead gc elsewhere.
func TestGCOfAForeignRendezvous(t *testing.T) {
	t.Setenv(tuner.EnvTrust, "")
	dir := testlib.Records(t, twoRanks("00000000000000ab-2", nil))
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	c := &Cleanup{Rendezvous: dir}
	if err := c.Run(io.Discard); err == nil ||
		!strings.Contains(err.Error(), dir+" is not this user's alone: everybody can write to it") {
		t.Error(err)
	}
	t.Setenv(tuner.EnvTrust, "1")
	if err := c.Run(io.Discard); err != nil {
		t.Error(err)
	}
}

// gc looks where status does: below the folder above those of several jobs, too.
func TestGCBelow(t *testing.T) {
	const comm = "00000000000000ab-2"
	dir := testlib.Records(t,
		twoRanks(comm, map[string]string{"c/" + comm + "/left/0": "", "c/" + comm + "/left/1": ""}))
	long := time.Now().Add(-48 * time.Hour)
	filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error { return os.Chtimes(path, long, long) })
	var out strings.Builder
	if err := (&Cleanup{Rendezvous: filepath.Dir(dir)}).Run(&out); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "c/*"))
	if !strings.Contains(out.String(), "0xab of 2 ranks: removed, all its ranks have ended\n"+dir+": ") ||
		len(left) > 0 {
		t.Errorf("%s, left: %q", out.String(), left)
	}
}

// One job's folder that others can write to hides no other job.
func TestGCGoesOn(t *testing.T) {
	t.Setenv(tuner.EnvTrust, "")
	above := t.TempDir()
	const comm = "00000000000000ab-2"
	long := time.Now().Add(-48 * time.Hour)
	for _, job := range []string{"4711", "4712"} {
		dir := filepath.Join(above, job)
		testlib.AddRecords(t, dir, twoRanks(comm, map[string]string{"c/" + comm + "/left/0": "",
			"c/" + comm + "/left/1": ""}))
		filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error { return os.Chtimes(path, long, long) })
	}
	if err := os.Chmod(filepath.Join(above, "4711"), 0o777); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := (&Cleanup{Rendezvous: above, DryRun: true, JSON: true}).Run(&out)
	refused := strings.SplitN(fmt.Sprint(err), "\n", 2)[0]
	want := strings.NewReplacer("ABOVE", above, "REFUSED", refused).Replace(`{
  "dry_run": true,
  "places": [
    {
      "rendezvous": "ABOVE/4711",
      "removed": false,
      "communicators": [],
      "records_removed": 0,
      "versions_removed": 0,
      "communicators_here": 0,
      "error": "REFUSED"
    },
    {
      "rendezvous": "ABOVE/4712",
      "removed": false,
      "communicators": [
        {
          "communicator": "0xab",
          "ranks": 2,
          "removed": true,
          "why": "all its ranks have ended"
        }
      ],
      "records_removed": 5,
      "versions_removed": 0,
      "communicators_here": 0
    }
  ],
  "not_looked_at": []
}
`)
	if !strings.Contains(refused, "4711 is not this user's alone") || out.String() != want {
		t.Errorf("%v: %s\nwant %s", err, out.String(), want)
	}
	out.Reset()
	err = (&Cleanup{Rendezvous: above}).Run(&out)
	if err == nil || !strings.Contains(err.Error(), "4711 is not this user's alone") ||
		!strings.Contains(out.String(), "4712: 5 records of 1 communicator and ") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A communicator that has removed its own records leaves one, for as long as a job may run.
func TestGCOfWhatHasEnded(t *testing.T) {
	dir := testlib.Records(t, map[string]string{"ended/00000000000000ab-2": "", "ended/00000000000000ac-2": ""})
	long := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "ended/00000000000000ab-2"), long, long); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		Cleanup
		left int
	}{{Cleanup{}, 2}, {Cleanup{OlderThan: minOlderThan, DryRun: true}, 2}, {Cleanup{OlderThan: minOlderThan}, 1}} {
		c.Rendezvous = dir
		if err := c.Run(io.Discard); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "ended/*")); len(left) != c.left {
			t.Errorf("%+v: %q are left", c.Cleanup, left)
		}
	}
	common := t.TempDir() // where jobs of all users meet, and none has
	if err := os.Chmod(common, 0o777); err != nil {
		t.Fatal(err)
	}
	for json, want := range map[bool]string{true: `"note": "nothing there"`, false: common + ": nothing there\n"} {
		var out strings.Builder
		f := Cleanup{Rendezvous: common, JSON: json}
		if err := f.Run(&out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v %s, want %s", err, &out, want)
		}
	}
}
