package launch

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Run runs a command that starts ranks until it ends, with its output and its errors, in order, in out. When ctx ends it is
// asked to end by SIGTERM, at which srun and mpirun end their ranks on all nodes, and after patience all processes of this
// machine that came of it are killed. It is asked, too, if this process is killed. The error is ctx's, or that of exec.Cmd's Wait.
func Run(ctx context.Context, argv []string, env []string, dir string, out io.Writer, patience time.Duration) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, dir, out, out
	// A session of its own tells its processes from all others, also those that launchers put into process groups.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = patience
	started, ended := make(chan error), make(chan struct{})
	var exit error // once it has ended
	go func() {
		runtime.LockOSThread() // the kernel means the thread, not the process, whose death sends the signal
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			if exit = cmd.Wait(); errors.Is(exit, exec.ErrWaitDelay) {
				exit = nil // it ended well, and left a process that holds its output
			}
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	defer killSession(cmd.Process.Pid)
	select {
	case <-ended:
		return exit
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(patience):
		killSession(cmd.Process.Pid)
		<-ended
	}
	return ctx.Err()
}

// killSession kills what is left of a session, until nothing is: a process may make another one while the list is read. One that
// hangs in a driver cannot be killed, and is not waited for.
func killSession(session int) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		left := ofSession(session)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// ofSession lists the processes of a session that have not ended.
func ofSession(session int) (pids []int) {
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + p.Name() + "/stat")
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(stat), ") ") // a name may hold anything, and the last ) ends it
		for strings.Contains(after, ") ") {
			_, after, _ = strings.Cut(after, ") ")
		}
		f := strings.Fields(after) // state, parent, group, session
		if len(f) > 3 && f[3] == strconv.Itoa(session) && f[0] != "Z" && f[0] != "X" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// exitOf says how a command ended: its exit code, or 128 and the signal's number as a shell has it; 0 if it did so well, -1 if it
// was not started.
func exitOf(err error) int {
	if err == nil {
		return 0
	}
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return -1
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// ExitCode says how a program ended that Run ran: its exit code, 128 and the number of the signal that ended it, or -1 if there
// is neither. Of Slurm it is that of the rank that ended badly first: srun ends with the largest, which is that of a rank that it
// ended itself, or with 0 when a node is lost.
func (l *Launcher) ExitCode(err error, log []byte) int {
	code := exitOf(err)
	if l.kind != Slurm {
		return code
	}
	if m := firstOfSlurm.FindSubmatch(log); m != nil {
		how := string(m[2])
		if n, err := strconv.Atoi(strings.TrimPrefix(how, "Exited with exit code ")); err == nil {
			return n
		}
		how, _, _ = strings.Cut(how, " (core dumped)")
		for s := syscall.Signal(1); s < 32; s++ {
			if strings.EqualFold(s.String(), how) {
				return 128 + int(s)
			}
		}
	}
	if code == 0 && abortedBySlurm.Match(log) {
		return -1
	}
	return code
}

var (
	firstOfSlurm   = regexp.MustCompile(`srun: error: (\S+): tasks? [0-9,-]+: ([^\n]+)`)
	abortedBySlurm = regexp.MustCompile(`srun: (?:error: Node failure on |Job step aborted)`)
)
