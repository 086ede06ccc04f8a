package livejobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// A job under status and push, from its start to what it leaves behind.
func TestRunningJob(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "p.csv")
	os.WriteFile(policy, []byte(row(1)), 0o640)
	t.Setenv(tuner.EnvConfigFile, policy)
	t.Setenv(tuner.EnvRendezvous, "")
	j := start(t, 3, policy)

	s := j.status(t)
	if s == nil || s.Ranks != 3 || len(s.Members) != 3 || s.Policy != policy || s.Frozen || s.Ended ||
		len(s.Changes) != 0 || s.Since.IsZero() || time.Since(s.Since).Abs() > time.Minute {
		t.Fatalf("%+v", s)
	}
	for _, m := range s.Members {
		if m.Life != "running" || m.Left {
			t.Errorf("%+v", m)
		}
	}
	if said := j.says(t); !regexp.MustCompile(`^` + j.comm + ` +3 +\S+ +` + s.Version[:12] + ` +\d\d:\d\d:\d\d +` +
		policy + ` +-$`).MatchString(said) {
		t.Errorf("%q", said)
	}
	push := func(code int, text string, args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "new.csv")
		os.WriteFile(file, []byte(text), 0o600)
		out, said := tunefit(t, code, append([]string{"push", file}, args...)...)
		return out + said
	}
	holds := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(policy); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", policy, got, err)
		}
	}

	said := push(cli.ExitOK, row(2))
	holds(row(2))
	now := j.status(t)
	if now.Version == s.Version || len(now.Changes) == 0 || now.Changes[len(now.Changes)-1].State != "committed" {
		t.Errorf("%+v", now)
	}
	if !strings.Contains(said, fmt.Sprintf(": version %.12s is active in 1 communicator, after ", now.Version)) ||
		!strings.HasSuffix(said, "1 communicator runs on it\n") {
		t.Errorf("%q", said)
	}
	if info, err := os.Stat(policy); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	if said := push(cli.ExitOK, "# the same\n"+row(2)); !strings.Contains(said,
		"active already in 1 communicator: nothing changes") {
		t.Errorf("%q", said)
	}
	if said := push(cli.ExitFailed, row(2)+"allreduce,x,inf,rign,simple,2,-1,-1\n"); !strings.Contains(said,
		"new.csv:2:2: ") || !strings.Contains(said, "new.csv:2:4: unknown algorithm") ||
		!strings.HasSuffix(said, "nothing was written to "+policy+"\n") {
		t.Errorf("%q", said)
	}
	holds("# the same\n" + row(2))

	// A bad file that came in another way.
	os.WriteFile(policy, []byte("allreduce,0,inf,rign,simple,2,-1,-1\nx\n"), 0o640)
	if said := j.saysWith(t, cli.ExitFailed); !strings.Contains(said, policy+" cannot be used as it is now: "+policy+
		`:1:4: unknown algorithm "rign"`) || !strings.Contains(said, "and 2 problems more") ||
		!strings.Contains(said, "  file refused\n") {
		t.Errorf("%q", said)
	}

	resume := j.stop(t, 1)
	said = push(cli.ExitFailed, row(3), "--timeout", "3s")
	holds(row(3))
	if !strings.Contains(said, j.comm+" has not switched: ") ||
		!strings.Contains(said, "1 of 1 communicator has not switched") || !strings.Contains(said, j.process(1)) {
		t.Errorf("%q", said)
	}
	if said := j.says(t); !strings.Contains(said, "stopped by a signal or a debugger: "+j.process(1)+", of "+j.comm) {
		t.Errorf("%q", said)
	}
	resume()
	push(cli.ExitOK, row(3))

	j.kill(2)
	if said := push(cli.ExitFailed, row(4)); !strings.Contains(said, j.comm+" has not switched: "+j.process(2)) ||
		!strings.Contains(said, "dead") {
		t.Errorf("%q", said)
	}
	if said := j.says(t); !strings.Contains(said, "impossible: 1 rank dead") ||
		!strings.Contains(said, "dead: "+j.process(2)+", of "+j.comm) {
		t.Errorf("%q", said)
	}

	j.kill()
	if s := j.status(t); s != nil {
		t.Errorf("all are dead: %+v", s)
	}
	if said := push(cli.ExitOK, row(5)); !strings.Contains(said,
		"no job that can change its policy while it runs reads this file") {
		t.Errorf("%q", said)
	}
}

// An idle communicator agrees when it makes calls; until then push tells so. Others
// are not concerned.
func TestPushConcernsTheFileOnly(t *testing.T) {
	dir := t.TempDir()
	a, b, link := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv"), filepath.Join(dir, "link.csv")
	os.WriteFile(a, []byte(row(1)), 0o644)
	os.WriteFile(b, []byte(row(1)), 0o644)
	os.Symlink("a.csv", link)
	rendezvous := filepath.Join(dir, "meet")
	reader := start(t, 2, link, tuner.EnvRendezvous+"="+rendezvous)
	other := start(t, 2, b, tuner.EnvRendezvous+"="+rendezvous)
	other.stop(t, 0)
	file := filepath.Join(dir, "new.csv")
	os.WriteFile(file, []byte(row(2)), 0o644)
	out, said := tunefit(t, cli.ExitOK, "push", file, "--to", link, "--rendezvous", rendezvous)
	if !strings.Contains(out, "not concerned: 1 communicator of other files: "+b+"\n1 communicator has to switch: "+reader.comm+"\n") ||
		!strings.Contains(out, ": version ") || strings.Contains(out, other.comm) {
		t.Errorf("%s%s", out, said)
	}
	if to, err := os.Readlink(link); err != nil || to != "a.csv" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if text, _ := os.ReadFile(a); string(text) != row(2) {
		t.Errorf("%q", text)
	}
	out, _ = tunefit(t, cli.ExitOK, "push", file, "--to", b, "--rendezvous", rendezvous, "--timeout", "0")
	if !strings.HasSuffix(out, "1 communicator has to switch: "+other.comm+"\ntunefit status tells how it goes\n") {
		t.Errorf("%q", out)
	}
}

// Jobs with folders of their own, below one that is named: each is told of by its folder.
func TestPushOfSeveralJobs(t *testing.T) {
	dir := t.TempDir()
	policy, live, file := filepath.Join(dir, "p.csv"), filepath.Join(dir, "live"), filepath.Join(dir, "new.csv")
	os.WriteFile(policy, []byte(row(1)), 0o644)
	jobs := map[string]*job{}
	for _, name := range []string{"4711", "4712", "alice/run8"} {
		meet := filepath.Join(live, name)
		os.MkdirAll(meet, 0o700)
		jobs[name] = start(t, 2, policy, tuner.EnvRendezvous+"="+meet)
	}
	push := func(code, channels int) string {
		t.Helper()
		os.WriteFile(file, []byte(row(channels)), 0o644)
		out, said := tunefit(t, code, "push", file, "--to", policy, "--rendezvous", live)
		return out + said
	}
	if said := push(cli.ExitOK, 2); !strings.Contains(said, "3 communicators have to switch: job 4711: ") ||
		!strings.Contains(said, "\njob alice/run8: version ") || !strings.HasSuffix(said, "\n3 communicators run on it\n") {
		t.Error(said)
	}
	jobs["4711"].kill()
	jobs["4712"].kill(1)
	dead := "job 4712: " + jobs["4712"].comm + " has not switched: " + jobs["4712"].process(1)
	if said := push(cli.ExitFailed, 3); !strings.Contains(said, dead) ||
		!strings.Contains(said, "\njob alice/run8: version ") ||
		!strings.Contains(said, "\n1 of 2 communicators has not switched; ") {
		t.Errorf("want %q in %s", dead, said)
	}
}

// gc removes what ended, and nothing of what may live.
func TestGC(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "p.csv")
	os.WriteFile(policy, []byte(row(1)), 0o644)
	rendezvous := filepath.Join(dir, "meet")
	env := tuner.EnvRendezvous + "=" + rendezvous
	live, ended, half := start(t, 2, policy, env), start(t, 2, policy, env), start(t, 2, policy, env)
	ended.kill()
	half.kill(0)
	elsewhere := filepath.Join(rendezvous, "c/00000000000000ab-2")
	os.MkdirAll(filepath.Join(elsewhere, "slot"), 0o700)
	os.WriteFile(filepath.Join(elsewhere, "init"), []byte(`{"content":"x","meaning":"y"}`), 0o600)
	os.WriteFile(filepath.Join(elsewhere, "slot/0"), []byte("x another.host 1 2 3"), 0o600)
	unnamed := filepath.Join(rendezvous, "blob/0123")
	os.WriteFile(unnamed, []byte("x"), 0o600)

	there := func(comm string) bool {
		return (&job{comm: comm}).status(t, "--all", "--rendezvous", rendezvous) != nil
	}
	gc := func(args ...string) string {
		t.Helper()
		out, said := tunefit(t, cli.ExitOK, append([]string{"gc", "--rendezvous", rendezvous}, args...)...)
		return out + said
	}
	if said := gc(); !strings.Contains(said, ended.comm+" of 2 ranks: stays, its last record is younger than 1m0s") ||
		!there(ended.comm) {
		t.Errorf("%q", said)
	}
	long := time.Now().Add(-48 * time.Hour)
	filepath.WalkDir(rendezvous, func(path string, _ os.DirEntry, _ error) error {
		return os.Chtimes(path, long, long)
	})
	if said := gc("--dry-run"); !strings.Contains(said,
		ended.comm+" of 2 ranks: would be removed, all its ranks have ended") || !there(ended.comm) {
		t.Errorf("%q", said)
	}
	said := gc()
	if !strings.Contains(said, ended.comm+" of 2 ranks: removed, all its ranks have ended") || there(ended.comm) ||
		!strings.Contains(said,
			"0xab of 2 ranks: stays, this machine cannot see whether it lives: another.host:1 (rank index 0)") ||
		!there("0xab") ||
		!strings.Contains(said, "0 versions of policies removed; 2 communicators live here") || !there(live.comm) ||
		!there(half.comm) {
		t.Errorf("%q", said)
	}
	if _, err := os.Stat(unnamed); err != nil { // who lives may count on it
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(rendezvous, "*/*"+strings.TrimPrefix(ended.comm, "0x")+"*")); len(
		left) != 0 {
		t.Errorf("%q", left)
	}
	if s := live.status(t, "--rendezvous", rendezvous); s == nil || s.Policy != policy || s.Version == "" {
		t.Errorf("%+v", s)
	}
	if gc("--older-than", "72h"); !there("0xab") {
		t.Error("removed before its time")
	}
	if said := gc("--older-than", "24h"); there("0xab") || !there(live.comm) || !there(half.comm) {
		t.Errorf("%q", said)
	}
	// The job that lives can still change.
	os.WriteFile(filepath.Join(dir, "new.csv"), []byte(row(2)), 0o644)
	half.kill()
	tunefit(t, cli.ExitOK, "push", filepath.Join(dir, "new.csv"), "--to", policy, "--rendezvous", rendezvous)
	live.kill()
	filepath.WalkDir(rendezvous, func(path string, _ os.DirEntry, _ error) error {
		return os.Chtimes(path, long, long)
	})
	if said := gc(); !strings.Contains(said, "2 versions of policies removed; 0 communicators live here") ||
		there(live.comm) || there(half.comm) {
		t.Errorf("%q", said)
	}
}
