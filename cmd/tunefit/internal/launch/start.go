package launch

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a command that Ctrl-C does not reach, since it is for this process, and that gets a signal if this
// process is killed. What Wait returns comes from ended.
func Start(cmd *exec.Cmd, orphaned syscall.Signal) (ended <-chan error, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned}
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
