package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// LateAfter is how long after an answer the next one is waited for; before the first one, the nodes may be in a queue.
const LateAfter = 30 * time.Second

// AskNodes runs a command on nodes by a launcher, which is a command line of the shell that the command is put after,
// and collects the answers. All else that is printed goes to log as it comes. What has not answered when the others
// have is not waited for.
func AskNodes(ctx context.Context, launcher string, command []string, log *Log, late time.Duration) (*Answers, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "exec "+launcher+" "+cli.ShellWords(command))
	// Launchers end what they started when they are asked to; those that are started by another one are asked, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = late
	pipe, feed := io.Pipe()
	cmd.Stdout, cmd.Stderr = feed, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launcher %q: %w", launcher, err)
	}
	answers := &Answers{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		timer := time.AfterFunc(time.Hour, cancel)
		timer.Stop()
		defer timer.Stop()
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			if answers.Read(line) {
				timer.Reset(late)
			} else if line != "" {
				_, _ = io.WriteString(log, line)
			}
			if err != nil {
				return // the end of what is printed
			}
		}
	}()
	ended := cmd.Wait()
	feed.Close()
	<-read
	if exit := (*exec.ExitError)(nil); ended != nil && !errors.As(ended, &exit) &&
		!errors.Is(ended, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil, fmt.Errorf("launcher %q: %w", launcher, ended)
	}
	return answers, nil
}

// ExpectedOf reads from a launcher's command line how many answers there should be: the nodes of srun, the processes
// of mpirun.
func ExpectedOf(launcher string) (want Expected) {
	fields := strings.Fields(launcher)
	for i, f := range fields {
		name, value, given := strings.Cut(f, "=")
		for _, short := range []string{"-N", "-n"} {
			if strings.HasPrefix(f, short) && len(f) > 2 && f[2] >= '0' && f[2] <= '9' {
				name, value, given = short, f[2:], true
			}
		}
		if !given && i+1 < len(fields) {
			value = fields[i+1]
		}
		n := 0
		if _, err := fmt.Sscanf(value, "%d", &n); err != nil || n < 1 {
			continue
		}
		srun := strings.Contains(launcher, "srun")
		switch name {
		case "-N", "--nodes":
			if srun {
				return Expected{Nodes: n}
			}
		case "-np", "--np", "-n", "--n", "--ntasks":
			want = Expected{Nodes: n, Processes: true}
		}
	}
	return want
}

// Log keeps what a launcher says, and passes it on.
type Log struct {
	io.Writer
	Text bytes.Buffer
	mu   sync.Mutex
}

func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Text.Write(text)
	return l.Writer.Write(text)
}
