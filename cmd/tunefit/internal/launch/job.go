package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

// job is an allocation of Slurm, which salloc holds as long as its shell runs. The shell ends with its input, a pipe
// from this process. So the job ends with this process, however that ends.
type job struct {
	id     string
	nodes  int
	list   string // of the nodes, as Slurm writes it
	until  time.Time
	salloc *exec.Cmd
	input  io.Closer
	said   chan string // what salloc says until the job runs; closed when salloc has ended
}

// hangUp ends salloc whether it waits for nodes or has them. SIGTERM does not always: with nodes salloc 22.05 passes
// it on to its shell, and sometimes never ends when that is ending by itself.
const hangUp = syscall.SIGHUP

// granted begins the line that the shell prints once the job has its nodes.
const granted = "tunefit-job "

// overLimits is what salloc says of a job that its partition never runs, and that salloc waits for all the same.
const overLimits = "Requested partition configuration not available now"

// hold returns when a job runs that has nodes and at least least left.
func (l *Launcher) hold(ctx context.Context, nodes int, least, limit time.Duration, say func(string)) error {
	if j := l.job; j != nil {
		runs, left := j.runs(ctx), time.Until(j.until)
		if runs && j.nodes >= nodes && left >= least {
			return nil
		}
		if runs {
			say(fmt.Sprintf("job %s is given back: it has %s for another %v", j.id, plural.Of(j.nodes, "node"),
				left.Round(time.Minute)))
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	argv := []string{"salloc", "--job-name=tunefit", "--nodes=" + strconv.Itoa(nodes), "--time=" + minutes(limit),
		"--kill-command=TERM"}
	if !has(l.Args, "--exclusive", "--oversubscribe", "-s") {
		argv = append(argv, "--exclusive") // other jobs on the nodes would change the times
	}
	argv = append(append(argv, l.jobArgs()...), "sh", "-c",
		`echo "`+granted+`$SLURM_JOB_ID $SLURM_JOB_NODELIST"; exec cat`)
	if err := l.start(argv); err != nil {
		return err
	}
	l.job.nodes = nodes
	last := ""
	for {
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), l.Close())
		case text, open := <-l.job.said:
			if !open {
				l.job = nil
				return fmt.Errorf("salloc gives no job: %s (%s)", last, cli.ShellWords(argv))
			}
			if what, ok := strings.CutPrefix(text, granted); ok {
				l.job.id, l.job.list, _ = strings.Cut(what, " ")
				l.job.until = time.Now().Add(limit)
				return nil
			}
			if strings.Contains(text, overLimits) {
				err := fmt.Errorf("%s: the partition does not allow %s for %v (see sinfo; --launch-args chooses "+
					"another one, --budget shortens the job)",
					text, plural.Of(nodes, "node"), limit.Round(time.Minute))
				return errors.Join(err, l.Close())
			}
			last = text
			say(text)
		}
	}
}

// start runs salloc, whose lines the job has.
func (l *Launcher) start(argv []string) error {
	j := &job{salloc: exec.Command(argv[0], argv[1:]...), said: make(chan string)}
	output, feed := io.Pipe()
	j.salloc.Stdout, j.salloc.Stderr = feed, feed
	var err error
	if j.input, err = j.salloc.StdinPipe(); err != nil {
		return err
	}
	ended, err := Start(j.salloc, hangUp)
	if err != nil {
		return err
	}
	go func() { feed.CloseWithError(<-ended) }()
	go func() {
		defer close(j.said)
		running := false
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if !running { // hold reads no further than the line of the running job
				j.said <- lines.Text()
			}
			running = running || strings.HasPrefix(lines.Text(), granted)
		}
	}()
	l.job = j
	return nil
}

// runs reports whether Slurm still runs the job. A controller that does not answer ends no job.
func (j *job) runs(ctx context.Context) bool {
	running, err := slurmSays(ctx, "squeue", "--noheader", "--me", "--states=RUNNING", "--format=%i")
	return err != nil || slices.Contains(strings.Fields(running), j.id)
}

// Close gives back what Prepare got.
func (l *Launcher) Close() error {
	j := l.job
	if j == nil {
		return nil
	}
	l.job = nil
	j.input.Close()
	for late := time.After(time.Minute); ; {
		_ = j.salloc.Process.Signal(hangUp) // again and again: salloc misses one before Slurm has answered
		select {
		case _, open := <-j.said:
			if !open {
				return nil
			}
		case <-time.After(time.Second):
		case <-late:
			return fmt.Errorf("job %s is not given back: salloc has not ended for a minute (look at squeue --me)", j.id)
		}
	}
}

// slurmSays runs one of Slurm's commands.
func slurmSays(ctx context.Context, argv ...string) (string, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	return strings.TrimSpace(string(out)), err
}
