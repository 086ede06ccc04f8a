package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// LateAfter is how long AskNodes waits for the next answer. It waits for the first as long as the launcher runs, since
// the job may be in a queue.
const LateAfter = 30 * time.Second

// AskNodes starts a command on nodes and collects the answers. The launcher is a command line of the shell, to which
// AskNodes appends the command. All other output goes to log as it comes. AskNodes ends when no answer has come for the
// time late.
func AskNodes(ctx context.Context, launcher string, command []string, log io.Writer,
	late time.Duration) (*Answers, error) {
	log = &oneByOne{Writer: log}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "exec "+launcher+" "+cli.ShellWords(command))
	// A signal to the group also reaches a launcher that another one started. Launchers then end what they started.
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
				return
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

var (
	nodeOption    = regexp.MustCompile(`\s(?:-N|--nodes)[ =]?([1-9][0-9]*)`)
	processOption = regexp.MustCompile(`\s(?:-n|-np|--n|--np|--ntasks)[ =]?([1-9][0-9]*)`)
)

// NodesOf reads from a launcher's command line on how many nodes it starts one process each: the nodes of srun, else
// the number of processes. 0: it does not say.
func NodesOf(launcher string) int {
	m := nodeOption.FindStringSubmatch(launcher)
	if m == nil || !strings.Contains(launcher, "srun") { // mpirun's -N is another number
		m = processOption.FindStringSubmatch(launcher)
	}
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// oneByOne is a writer for several goroutines.
type oneByOne struct {
	io.Writer
	mu sync.Mutex
}

func (w *oneByOne) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Writer.Write(text)
}
