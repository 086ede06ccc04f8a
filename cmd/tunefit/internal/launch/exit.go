package launch

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// exitOf says how a command ended: its exit code, or 128 and the signal's number as a shell has it; 0 if it did so
// well, -1 if it was not started.
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

// ExitCode reads how a launcher's command ended from the error of exec.Cmd and from its output. It is the program's
// exit code, 128 plus the number of the signal that ended it, or -1 if there is neither. Under Slurm it is that of
// the first rank that ended badly: srun itself returns the largest code, of a rank that it ended, or 0 when a node is
// lost.
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
