package livejobs_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// It prints again after each change, and ends at once with Ctrl-C.
func TestStatusWatch(t *testing.T) {
	dir := testlib.Records(t, map[string]string{
		"c/0000000000000007-2/init":   `{"content":"aaaa","meaning":"aaaaaaaaaaaaaaaa"}`,
		"c/0000000000000007-2/slot/0": "x n1 11 1 1",
		"c/0000000000000007-2/slot/1": "x n2 22 1 1",
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "status", "--watch", "--rendezvous", dir)
	cmd.Env = append(os.Environ(), testkit.AsTunefit+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("it ends without %q", want)
	}
	until("aaaaaaaaaaaa")
	testlib.AddRecords(t, dir,
		map[string]string{
			"p/0000000000000007-2.1": `{"content":"bbbb","meaning":"bbbbbbbbbbbbbbbb","check":100,"switch":200}`})
	until("0 of 2 acknowledged")
	testlib.AddRecords(t, dir, map[string]string{"c/0000000000000007-2/d/1.commit.201.1": ""})
	until("bbbbbbbbbbbb")
	cmd.Process.Signal(os.Interrupt)
	for lines.Scan() {
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != cli.ExitInterrupted {
		t.Errorf("Ctrl-C ends it with %v", cmd.ProcessState)
	}
}

func TestBadLiveCommandLines(t *testing.T) {
	t.Setenv(tuner.EnvConfigFile, "")
	t.Setenv(tuner.EnvModelFile, "")
	t.Setenv(tuner.EnvRendezvous, "")
	dir := t.TempDir()
	good := testlib.File(t, "p.csv", row(1))
	file, meet := testlib.File(t, "file", ""), t.TempDir()
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", filepath.Join(testlib.Root, "policy/fit/testdata/small.csv"), "-o", model)
	badEtcd := "etcd://host: this tunefit is built without etcd; run tunefit-etcd"
	if tuner.HasEtcd {
		badEtcd = `etcd://host: "host" is not host:port`
	}
	const exclude = "--watch, --json and --prometheus exclude each other"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status", "x"}, cli.ExitUsage, `unexpected argument "x" (needed: flags only)`},
		{[]string{"status", "--rendezvous", dir + "/none"}, cli.ExitFailed,
			"there is no rendezvous " + dir + "/none: "},
		{[]string{"status", "--rendezvous", file}, cli.ExitFailed, file + " is no rendezvous: not a directory"},
		{[]string{"status", "--rendezvous", "ftp://host"}, cli.ExitFailed,
			"ftp://host is not understood (allowed: a directory, etcd://"},
		{[]string{"status", "--rendezvous", "etcd://host"}, cli.ExitFailed, badEtcd},
		{[]string{"status", "--prometheus", "--json"}, cli.ExitUsage, exclude},
		{[]string{"status", "--prometheus", "--watch", "--rendezvous", dir + "/none"}, cli.ExitUsage, exclude},
		{[]string{"status", "--json", "--watch", "--rendezvous", dir + "/none"}, cli.ExitUsage, exclude},
		{[]string{"gc", "--older-than", "1h"}, cli.ExitUsage, "--older-than 1h0m0s: too short"},
		{[]string{"gc", "--rendezvous", dir + "/none"}, cli.ExitFailed, "there is no rendezvous"},
		{[]string{"push"}, cli.ExitUsage, "0 arguments given"},
		{[]string{"push", good}, cli.ExitUsage, "Name it with --to, or set " + tuner.EnvConfigFile},
		{[]string{"push", "model.json"}, cli.ExitUsage, "or set " + tuner.EnvModelFile},
		{[]string{"push", good, "--to", dir, "--rendezvous", meet}, cli.ExitFailed,
			dir + " is a directory (needed: the file that the job reads)"},
		{[]string{"push", good, "--to", model, "--rendezvous", meet}, cli.ExitFailed,
			good + " is a policy and " + model + " a model, which stays as it is"},
		{[]string{"push", model, "--to", good, "--rendezvous", meet}, cli.ExitFailed,
			model + " is a model and " + good + " a policy, which stays as it is"},
		{[]string{"push", good, "--to", "/dev/null", "--rendezvous", meet}, cli.ExitFailed,
			"/dev/null is not a regular file"},
		{[]string{"push", good, "--to", dir + "/none/p.csv", "--rendezvous", meet}, cli.ExitFailed,
			"there is no folder " + dir + "/none\nnothing was written to "},
		{[]string{"push", good + "x", "--to", dir + "/new.csv", "--rendezvous", meet}, cli.ExitFailed,
			"nothing was written to " + dir + "/new.csv"},
		{[]string{"push", file, "--to", dir + "/new.csv", "--rendezvous", meet}, cli.ExitFailed, file + " has no rows"},
		{[]string{"push", good, "--to", dir + "/new.csv", "--rendezvous", dir + "/none/none"}, cli.ExitFailed,
			"there is no rendezvous"},
		{[]string{"push", good, "--to", dir + "/new.csv", "--rendezvous", meet, "--timeout", "-1s"}, cli.ExitUsage,
			`--timeout=-1s: not a duration (allowed: 0 and more, as 30s, 5m, 1h30m)`},
	} {
		out, said := tunefit(t, c.code, c.args...)
		if out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q printed %q and said %q, want %q", c.args, out, said, c.says)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("written: %v", left)
	}
}
