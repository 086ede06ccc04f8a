package livejobs_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// sharedSite is a folder that root has installed into, with several users of the machine.
type sharedSite struct{ dir, policy, live string }

// as prepares a command of a user, with little of this process's environment. who "": root.
func (s sharedSite) as(t *testing.T, who string, argv ...string) *exec.Cmd {
	t.Helper()
	u, err := user.Lookup(cmp.Or(who, "root"))
	if err != nil {
		t.Fatal(err)
	}
	uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SITE=" + s.dir}
	return cmd
}

// runs runs a command of a user, and returns what it says.
func (s sharedSite) runs(t *testing.T, who string, code int, argv ...string) string {
	t.Helper()
	cmd := s.as(t, who, argv...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s runs %q: exit code %d, want %d\n%s", who, argv, got, code, out)
	}
	return string(out)
}

// push has a user push a policy of one row.
func (s sharedSite) push(t *testing.T, who string, code, channels int) string {
	t.Helper()
	file := filepath.Join(s.dir, fmt.Sprintf("new%d.csv", channels))
	if err := os.WriteFile(file, []byte(row(channels)), 0o644); err != nil {
		t.Fatal(err)
	}
	return s.runs(t, who, code, "tunefit", "push", file, "--to", s.policy, "--rendezvous", s.live, "--timeout", "2m")
}

// start has a user start a job by the batch file, and returns when its ranks are there. end ends it, and returns what
// the doctor has said in it.
func (s sharedSite) start(t *testing.T, who string, id int) (end func() string) {
	t.Helper()
	cmd := s.as(t, who, filepath.Join(s.dir, "train.sbatch"), "rank", filepath.Join(s.dir, "lib", cli.LibraryName),
		filepath.Join(os.TempDir(), fmt.Sprintf("site-test-%d-%d", os.Getpid(), id)), "ranks=2", "contexts=2", "rate=200",
		"calls=50000", fmt.Sprintf("seed=%d", id))
	t.Cleanup(func() { os.Remove(cmd.Args[3]) })
	cmd.Env = append(cmd.Env, "SLURM_JOB_NUM_NODES=1", fmt.Sprintf("SLURM_JOB_ID=%d", id))
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	cmd.Stderr = cmd.Stdout
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		said.WriteString(lines.Text() + "\n")
	}
	fmt.Fprintln(in, "go")
	end = func() string {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the job of %s: %v\n%s", who, err, said.String())
		}
		return said.String()
	}
	return end
}

// newSharedSite installs what root installs: the library, tunefit, the recipes. srun is a stand-in that runs a command
// on this machine.
func newSharedSite(t *testing.T) sharedSite {
	t.Helper()
	testlib.NeedPlugin(t)
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can play several users: NOTHING IS TESTED OF A SITE WITH SEVERAL")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755),
		os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.Mkdir(filepath.Join(dir, "lib"), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]string{"lib/" + cli.LibraryName: testlib.Library, "bin/rank": testlib.Rank, "bin/test": self,
		"site.sh": recipe("site.sh"), "train.sbatch": recipe("train.sbatch")}
	texts := map[string]string{
		"bin/tunefit": "#!/bin/sh\n" + testkit.AsTunefit + "=1 exec " + cli.ShellWord(dir) + "/bin/test \"$@\"\n",
		"bin/srun":    "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n",
	}
	for name, from := range programs { // the originals may be where other users cannot read
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	return sharedSite{dir, filepath.Join(dir, "policy.csv"), filepath.Join(dir, "live")}
}

// Users are alice, bob and a colleague who pushes, by names that every machine has.
const alice, bob, colleague = "daemon", "bin", "games"

// The first day of a site with several users, by docs/OPERATIONS.md: root prepares it, two users run jobs, and a
// colleague pushes policies once root lets him. Nobody else can.
func TestSharedSite(t *testing.T) {
	s := newSharedSite(t)
	job := func(who string, code int) string {
		t.Helper()
		return s.runs(t, who, code, "env", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_ID=4711", "bash", "train.sbatch", "true")
	}
	must := func(said string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("no %q in\n%s", w, said)
			}
		}
	}
	listing := func() string { return s.runs(t, "", 0, "find", ".", "-printf", `%p %m %u %g %l\n`) }

	must(job(alice, 1), "the ranks have no place to meet", "Ask the owner of "+s.dir+" to run ")

	// Root alone decides.
	s.runs(t, "", 0, "./site.sh", s.dir)
	must(s.runs(t, alice, 0, "tunefit", "gc", "--rendezvous", s.live), s.live+": nothing there")
	s.push(t, "", 0, 2)
	s.runs(t, "", 0, "./site.sh", s.dir)
	if text, err := os.ReadFile(s.policy); string(text) != row(2) || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	must(job(alice, 0), "policy.csv, 1 row; version ")
	must(s.push(t, colleague, 1, 3), "permission denied", "push as root, who owns the folder")

	// Root lets the colleague push.
	s.runs(t, "", 0, "./site.sh", s.dir, colleague)
	once := listing()
	s.runs(t, "", 0, "./site.sh", s.dir, colleague)
	if twice := listing(); twice != once {
		t.Errorf("%s, and once more:\n%s", once, twice)
	}
	ends := map[string]func() string{alice: s.start(t, alice, 4711), bob: s.start(t, bob, 4712)}
	// He may not look into the folders of others, so he cannot be told that they have switched. Root can.
	must(s.push(t, colleague, 3, 4), "policy.csv written", "not looked at: ", "not known whether all jobs")
	must(s.push(t, "", 0, 4), "holds this already")
	must(s.runs(t, alice, 0, "tunefit", "status", "--rendezvous", s.live), "4711.", "not looked at: ")
	must(s.runs(t, colleague, 1, "tunefit", "status", "--rendezvous", s.live), "not known whether communicators live",
		"not looked at: ")
	must(s.runs(t, "", 1, "tunefit", "gc", "--rendezvous", s.live), "and only root may decide")
	must(s.runs(t, alice, 1, "tunefit", "gc", "--rendezvous", s.live), "1 communicator lives here", "4712.")
	must(s.push(t, bob, 1, 5), "permission denied", "push as "+colleague+", who owns the folder")
	for _, deed := range []string{"rm -r live/4711.*", "mv live/4711.* live/mine", "echo >policy/policy.csv",
		"ln -sf /dev/null policy.csv", "echo >lib/" + cli.LibraryName} {
		s.runs(t, bob, 1, "sh", "-c", deed+" || exit 1")
	}
	for who, end := range ends {
		said := end()
		must(said, "policy.csv, 1 row; version ")
		if strings.Contains(said, "only root and user") {
			t.Errorf("%s: %s", who, said)
		}
	}
	if left, err := os.ReadDir(s.live); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}

	// A job that is not told of the colleague refuses his policy, and the doctor says what to do.
	said := s.runs(t, alice, 1, "env", tuner.EnvConfigFile+"="+s.policy, tuner.EnvStrict+"=1", "tunefit", "doctor")
	must(said, "only root and user", "-> if whoever can change it may decide for the job: "+tuner.EnvFilesTrust+"=1")

	// Where root has no rights, as on many file servers, the owner of SITE prepares it for his own pushes.
	own := filepath.Join(s.dir, "own")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	must(s.runs(t, alice, 1, "./site.sh", own), own+" belongs to root, and "+alice+" is neither that user nor root")
	must(s.runs(t, alice, 1, "./site.sh", own+"/new"), alice+" cannot make "+own+"/new: root runs this, or ")
	must(s.runs(t, "", 1, "./site.sh", own, "nobody-of-that-name"), "there is no user nobody-of-that-name here")
	s.runs(t, "", 0, "chown", colleague, own)
	must(s.runs(t, colleague, 1, "./site.sh", own, bob), "only root can let "+bob+" push: without USER, "+colleague+" pushes")
	s.runs(t, colleague, 0, "./site.sh", own)
	if to, err := os.Readlink(filepath.Join(own, "policy.csv")); to != "policy/policy.csv" || err != nil {
		t.Error(to, err)
	}
	tunefit(t, cli.ExitOK, "check", filepath.Join(own, "policy.csv"))

	// Another one takes over, with the policy that is in force.
	s.runs(t, "", 0, "./site.sh", s.dir, bob)
	s.push(t, bob, 0, 6)
	must(s.push(t, colleague, 1, 7), "permission denied")
	s.runs(t, "", 0, "./site.sh", s.dir) // and root again
	must(s.push(t, bob, 1, 7), "permission denied")
	if text, err := os.ReadFile(s.policy); string(text) != row(6) || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// A real Slurm runs the batch file for two users, on the policy of a third.
func TestSharedSiteBySlurm(t *testing.T) {
	s := newSharedSite(t)
	if err := os.Remove(filepath.Join(s.dir, "bin/srun")); err != nil {
		t.Fatal(err)
	}
	testlib.Slurm(t, 2)
	s.runs(t, "", 0, "./site.sh", s.dir, colleague)
	s.push(t, colleague, 0, 2)
	for _, who := range []string{alice, bob} {
		log := filepath.Join(s.live, who) // a place where both may write
		said := s.runs(t, who, 0, "env", "SLURM_CONF="+os.Getenv("SLURM_CONF"), "sbatch", "--wait", "--nodes=2",
			"--ntasks-per-node=2", "--output="+log, "train.sbatch", "sh", "-c",
			`stat -c "%U %a $NCCL_TUNER_FILES_TRUST" "$NCCL_TUNER_RENDEZVOUS"`)
		text, err := os.ReadFile(log)
		if err != nil || strings.Count(string(text), who+" 700 1\n") != 4 ||
			!strings.Contains(string(text), "policy.csv, 1 row; version ") {
			t.Errorf("%v: %s%s", err, said, text)
		}
	}
}
