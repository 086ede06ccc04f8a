package livejobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/metricstest"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

const (
	aa = `{"content":"aaaa","meaning":"aaaaaaaaaaaaaaaa"}`
	bb = `"content":"bbbb","meaning":"bbbbbbbbbbbbbbbb"`
)

// twoRanks is a communicator of two ranks on other machines.
func twoRanks(comm string, more map[string]string) map[string]string {
	all := map[string]string{
		"c/" + comm + "/init":   aa,
		"c/" + comm + "/slot/0": "x n1 11 1 1",
		"c/" + comm + "/slot/1": "x n2 22 1 1",
	}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// listed is what status prints of a rendezvous.
func listed(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	if err := (&View{Rendezvous: dir}).Run(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// here is an identity of a member in this process.
func here(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	space, noSpace := os.Readlink("/proc/self/ns/pid")
	boot, noBoot := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err := errors.Join(err, noSpace, noBoot); err != nil {
		t.Skipf("SKIPPED: this process cannot be named: %v", err)
	}
	return fmt.Sprintf("x %s %d %s 0 %s", host, os.Getpid(), strings.Trim(space, "pid:[]"),
		strings.ReplaceAll(string(boot), "-", "")[:16])
}

// A file that ranks refuse as it is now is told of in the table, below it, in JSON and to Prometheus.
func TestStatusOfABadFile(t *testing.T) {
	file := testlib.File(t, "p.csv", "allreduce,0,inf,rign,simple,2,-1,-1\n")
	key, digest, content := bundleOf(file, policyRow(1))
	all := map[string]string{key: content}
	for comm, ranks := range map[string][2]string{
		"0000000000000001-2": {here(t), here(t)}, "0000000000000002-2": {"x n1 11 1 1", "x n2 22 1 1"},
		"0000000000000003-2": {here(t), "x n2 22 1 1"},
	} {
		all["c/"+comm+"/init"] = fmt.Sprintf(`{"content":%q,"meaning":"aaaaaaaaaaaaaaaa"}`, digest)
		all["c/"+comm+"/slot/0"], all["c/"+comm+"/slot/1"] = ranks[0], ranks[1]
	}
	all["c/0000000000000001-2/left/0"], all["c/0000000000000001-2/left/1"] = "", ""
	dir := testlib.Records(t, all)
	shows := func(refused float64) (said string) {
		t.Helper()
		for _, f := range []View{{}, {JSON: true}, {Prometheus: true}} {
			var out strings.Builder
			f.Rendezvous = dir
			if err := f.Run(&out); (err != nil) != (refused > 0 && !f.Prometheus) {
				t.Errorf("%+v: %v", f, err)
			}
			said += out.String()
			if f.Prometheus {
				all, err := metricstest.Parse(metrics.Status, out.String())
				if got := all.Of("nccl_tuner_status_policy_refused").Sum(); err != nil || got != refused {
					t.Errorf("%v of them refuse a file, want %v: %v", got, refused, err)
				}
			}
		}
		return said
	}
	why := file + `:1:4: unknown algorithm "rign"`
	said := shows(2)
	if strings.Count(said, file+" cannot be used as it is now: "+why) != 1 ||
		strings.Count(said, "  file refused\n") != 2 ||
		strings.Count(said, `"why": "`+strings.ReplaceAll(why, `"`, `\"`)) != 2 {
		t.Errorf("%q is not in\n%s", why, said)
	}
	if err := os.WriteFile(file, []byte(policyRow(2)), 0o666); err != nil {
		t.Fatal(err)
	}
	if said := shows(0); strings.Contains(said, "refused\n") {
		t.Error(said)
	}
	// It is good, and anybody can change it: ranks on this machine refuse it. Of the others that is not known.
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if said := shows(1); !strings.Contains(said, "everybody can write to it") {
		t.Error(said)
	}
	// Ranks on other machines have a file of their own, and what is not here says nothing of it.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if said := shows(1); !strings.Contains(said, file+" cannot be used as it is now: there is no such file.\n") {
		t.Error(said)
	}
	testlib.AddRecords(t, dir, map[string]string{"c/0000000000000003-2/left/0": ""})
	shows(0)
}

// Looking leaves no trace.
func TestStatusWritesNothing(t *testing.T) {
	dir := testlib.Records(t, twoRanks("0000000000000007-2", nil))
	before := listing(t, dir)
	if err := errors.Join((&View{Rendezvous: dir, All: true, JSON: true}).Run(io.Discard),
		(&Cleanup{Rendezvous: dir, DryRun: true}).Run(io.Discard)); err != nil {
		t.Error(err)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(path + " " + info.ModTime().String() + "\n")
		return nil
	})
	return all.String()
}

// What others have written does not steer the terminal.
func TestStatusOfOthersRecords(t *testing.T) {
	dir := testlib.Records(t,
		twoRanks("0000000000000007-2",
			map[string]string{"p/0000000000000007-2.1": `{` + bb + `,"check":100,"switch":200}`,
				"c/0000000000000007-2/d/1.cannot-stage.0.1": "", "c/0000000000000007-2/why/1": "\x1b[2Jgone"}))
	out := listed(t, dir)
	if strings.Contains(out, "\x1b") || !strings.Contains(out, `cannot use it: \u001b[2Jgone`) {
		t.Errorf("%q", out)
	}
}

// silent is a store that never answers.
type silent struct{ agree.Records }

func (silent) Made(ctx context.Context, _ string) (map[string]time.Time, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that does not answer is named in plain words.
func TestStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver("etcd://host:2379/jobs")
		o.etcd = func(context.Context) ([]tuner.RendezvousView, []error, error) {
			return []tuner.RendezvousView{{Name: o.name, Records: silent{}}}, nil, nil
		}
		_, err := o.look(t.Context())
		if err == nil || err.Error() != "etcd://host:2379/jobs: no answer within 10s" {
			t.Error(err)
		}
	})
}
