package launch

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// exitOf returns a command's exit code, or like a shell 128 plus the number of the signal that ended it. It returns
// -1 if the command was not started.
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
// exit code, 128 plus the number of the signal that ended it, or -1 if there is neither. Under Slurm it is that of the
// first rank that failed. srun itself returns the largest code, even of a rank that it ended, and 0 when a node is
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
