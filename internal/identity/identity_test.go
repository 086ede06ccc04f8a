package identity

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestParseProcess(t *testing.T) {
	p, err := Parse(WithRank(New(), 3))
	if err != nil || p.PID != os.Getpid() || p != self() {
		t.Errorf("%+v, %v", p, err)
	}
	if p.State() != Running {
		t.Errorf("this process is %s", p.State())
	}
	for _, bad := range []string{"", "x", "x host", "x host pid"} {
		if p, err := Parse(bad); err == nil {
			t.Errorf("%q names %v", bad, p)
		}
	}
	// Without the rest it cannot be told from others of the same number.
	if p, err := Parse("x host 12"); err != nil || p.String() != "host:12" || p.State() != Unknown {
		t.Errorf("%v, %v", p, err)
	}
}

// A process is dead only if that is certain.
func TestLife(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := self()
	child.PID = cmd.Process.Pid
	var err error
	if _, child.Started, err = procStat(child.PID); err != nil {
		t.Skipf("SKIPPED: no /proc here: %v", err)
	}
	is := func(p Process, want State) {
		t.Helper()
		if got := p.State(); got != want {
			t.Errorf("%+v is %s, want %s", p, got, want)
		}
	}
	is(child, Running)
	elsewhere, contained, later := child, child, child
	elsewhere.boot = "0123456789abcdef"
	contained.space++
	later.Started++
	is(elsewhere, Unknown)
	is(contained, Unknown)
	is(later, Dead) // its number was given to another one since
	renamed, unsaid := child, child
	renamed.Host += "x"
	is(renamed, Running) // containers that share the machine's processes have names of their own
	unsaid.boot = ""
	is(unsaid, Unknown)

	cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(child.PID, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(err, status)
	}
	is(child, Stopped)
	cmd.Process.Kill()
	// Until it is waited for it is a zombie.
	waitid(t, child.PID)
	is(child, Dead)
	cmd.Wait()
	is(child, Dead)
	is(elsewhere, Unknown) // another machine's of the same name, where nobody here has its number
	is(Process{Host: child.Host, space: child.space, boot: child.boot}, Unknown)
}

// waitid waits for a child's end and leaves it a zombie.
func waitid(t *testing.T, pid int) {
	t.Helper()
	const pPid, exited, noWait = 1, 4, 0x1000000
	if _, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPid, uintptr(pid), 0, exited|noWait, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
}

// Files are named as the process names them.
func TestProcessPath(t *testing.T) {
	const variable = "NCCL_TUNER_CONFIG_FILE"
	dir := t.TempDir()
	cmd := exec.Command("sleep", "1000")
	cmd.Dir, cmd.Env = dir, []string{variable + "=sub/../p.csv"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, _ := Parse(fmt.Sprintf("x %s %d %d 0 %s", self().Host, cmd.Process.Pid, self().space, self().boot))
	if got := p.Getenv(variable); got != "sub/../p.csv" {
		t.Errorf("%q", got)
	}
	if got := p.Getenv("NCCL_TUNER_CONFIG"); got != "" {
		t.Errorf("%q", got)
	}
	if got, ok := p.Path("sub/../p.csv"); !ok || got != dir+"/p.csv" {
		t.Errorf("%q", got)
	}
	if got, ok := p.Path("/x/p.csv"); !ok || got != "/x/p.csv" {
		t.Errorf("%q", got)
	}
	p.boot += "x"
	if got, ok := p.Path("/x/p.csv"); ok {
		t.Errorf("%q is known of another machine", got)
	}
}

// A rank is known where NCCL's profiler interface told it.
func TestIdentityHasRank(t *testing.T) {
	for _, rank := range []int{0, 7, -1} {
		if got := ParseRank(WithRank(New(), rank)); got != rank {
			t.Errorf("rank %d is read as %d", rank, got)
		}
	}
}
