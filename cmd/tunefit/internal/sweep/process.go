package sweep

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// errSilent ends a run that prints nothing more.
var errSilent = errors.New("silent")

// grace is what a launcher has to end its ranks.
const grace = 15 * time.Second

// process is a command whose whole tree is ended with it.
type process struct {
	argv, env []string
	mark      string // NAME=VALUE of env that no other process has
	dir       string
	output    *os.File
	silence   time.Duration // it is ended when its output does not grow for so long
	grace     time.Duration // that a launcher has to end its ranks, on other nodes, too, before it is killed
}

// run returns when nothing of the command runs any more on this machine: its own exit, ctx's cause, or errSilent.
func (p process) run(ctx context.Context) error {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, p.dir, p.output, p.output
	ended, err := spawn(cmd)
	if err != nil {
		return err
	}
	defer endMarked(p.mark)
	stop := func(reason error) error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(p.grace):
			_ = cmd.Process.Kill()
			<-ended
		}
		return reason
	}
	size, since := int64(-1), time.Now()
	watch := time.NewTicker(min(time.Second, p.silence/4))
	defer watch.Stop()
	for {
		select {
		case exit := <-ended:
			return exit
		case <-ctx.Done():
			return stop(context.Cause(ctx))
		case now := <-watch.C:
			if info, err := p.output.Stat(); err == nil && info.Size() != size {
				size, since = info.Size(), now
			} else if now.Sub(since) > p.silence {
				return stop(errSilent)
			}
		}
	}
}

// spawn starts a command that Ctrl-C does not reach, since it is for this process, and that is ended with this process.
// What Wait returns comes from ended.
func spawn(cmd *exec.Cmd) (ended <-chan error, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started, exit := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started the command
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exit <- cmd.Wait()
		}
	}()
	return exit, <-started
}

// endMarked kills all processes with a mark in their environment, wherever they have gone: those that ignore a
// signal, have a session of their own or lost their parent. One that a driver holds may not end; the next run shows it.
//
// One look may miss a process: while it begins another program (execve) it shows no environment, and one that a process
// left right before its end may not be in the list yet. So it looks until nothing was there several times in a row.
func endMarked(mark string) {
	clean := 0
	for deadline := time.Now().Add(10 * time.Second); clean < cleanLooks && time.Now().Before(deadline); {
		pids := marked(mark)
		if clean++; len(pids) > 0 {
			clean = 0
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond) // the kernel needs a moment to end them
	}
}

// cleanLooks are a few milliseconds, in which a process has begun another program.
const cleanLooks = 3

func marked(mark string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name) // nothing once it has ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && pid != os.Getpid() && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
