package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
)

// job is one that does nothing but hold nodes. Its name is in the state file before it is submitted, so that there is no moment
// in which a killed tunefit leaves a job that nobody finds.
type job struct {
	name  string
	id    string // once it was seen to run
	nodes string // a list in Slurm's words
}

var jobName = regexp.MustCompile(`^tunefit-[0-9a-f]{16}$`)

// The queue is asked soon at first, for many jobs start at once, and then less often: the controller serves the whole site.
const (
	firstAsked  = 200 * time.Millisecond
	mostBetween = 10 * time.Second
	// A job that ends at once, as where a node's prolog fails, would be submitted again and again.
	mostSubmitted = 3
)

// neverRuns are the reasons of a waiting job that do not go away by themselves.
var neverRuns = []string{"PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS"}

// queued is what squeue says of a job.
type queued struct {
	id, state, reason string
	nodes             int
	left              time.Duration
	start             string // when it would, as far as Slurm knows
	list              string // the nodes that it has
}

// hold returns when a job runs that has nodes and at least least left.
func (l *Launcher) hold(ctx context.Context, nodes int, least, limit time.Duration, say func(string)) error {
	if l.job.name == "" {
		if err := l.takeOver(); err != nil {
			return err
		}
	}
	l.job.id = ""
	start, said, pause, submitted := time.Now(), "", firstAsked, 0
	tell := func(text string) {
		if text != said {
			said = text
			say(text)
		}
	}
	for {
		var q *queued
		var err error
		if l.job.name != "" {
			q, err = l.asked(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil: // the controller restarts, or is busy: the job does not end of that
			tell("Slurm does not answer: " + err.Error())
		case q == nil && submitted == mostSubmitted:
			return fmt.Errorf("%d jobs ended before they could be used (look at what Slurm says of the last ones: sacct --name=%s)", submitted, l.job.name)
		case q == nil:
			submitted++
			if err := l.submit(ctx, nodes, limit); err != nil {
				return err
			}
			pause = firstAsked
			continue
		case q.nodes < nodes || q.state == "RUNNING" && q.left < least:
			tell(fmt.Sprintf("job %s is given back: it has %s for another %v", q.id, cli.CountOf(q.nodes, "node"), q.left.Round(time.Minute)))
			if err := l.giveBack(); err != nil {
				return err
			}
			continue
		case slices.Contains(neverRuns, q.reason):
			err := fmt.Errorf("job %s of %s never runs, says Slurm: %s (look at the limits of the partition, sinfo, and of the account; choose others by more arguments)", q.id, cli.CountOf(q.nodes, "node"), q.reason)
			return errors.Join(err, l.giveBack())
		case q.state == "RUNNING":
			if said != "" {
				say(fmt.Sprintf("job %s runs, after %v", q.id, time.Since(start).Round(time.Second)))
			}
			l.job.id, l.job.nodes = q.id, q.list
			return nil
		default:
			text := fmt.Sprintf("job %s waits for %s: %s", q.id, cli.CountOf(q.nodes, "node"), strings.ToLower(q.state))
			if q.reason != "" && q.reason != "None" {
				text += ", " + q.reason
			}
			if q.start != "" && q.start != "N/A" {
				text += ", expected to start at " + q.start
			}
			tell(text)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
			pause = min(2*pause, mostBetween)
		}
	}
}

// takeOver reads the name of the job that a killed tunefit submitted, or chooses one.
func (l *Launcher) takeOver() error {
	if l.StateFile == "" {
		return nil
	}
	text, err := openregular.Read(l.StateFile, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	name := strings.TrimSpace(string(text))
	if !jobName.MatchString(name) {
		return fmt.Errorf("%s: %q is not the name of a job of tunefit's (look for such a job with squeue --me, cancel it, and remove the file)", l.StateFile, name)
	}
	l.job.name = name
	return nil
}

// submit writes down the job's name and submits it. It asks for whole nodes, for who else is on them is measured, too.
func (l *Launcher) submit(ctx context.Context, nodes int, limit time.Duration) error {
	if l.job.name == "" {
		l.job.name = fmt.Sprintf("tunefit-%016x", rand.Uint64())
		if l.StateFile != "" {
			if err := os.WriteFile(l.StateFile, []byte(l.job.name+"\n"), 0o644); err != nil {
				return err
			}
		}
	}
	argv := []string{"sbatch", "--parsable", "--job-name=" + l.job.name, "--nodes=" + strconv.Itoa(nodes), "--time=" + minutes(limit),
		"--no-requeue", "--output=/dev/null", "--error=/dev/null"}
	if !has(l.Args, "--exclusive", "--oversubscribe", "-s") {
		argv = append(argv, "--exclusive")
	}
	argv = append(append(argv, l.jobArgs()...), "--wrap", "exec sleep infinity")
	_, err := slurmSays(ctx, argv...)
	return err
}

// asked returns what the queue knows of the job; nil if it is over.
func (l *Launcher) asked(ctx context.Context) (*queued, error) {
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	out, err := slurmSays(ctx, "squeue", "--noheader", "--name="+l.job.name, "--user="+me.Uid, "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,REQUEUED",
		"--format=%i|%T|%r|%D|%L|%S|%N")
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(out, "\n")
	if line == "" {
		return nil, nil
	}
	f := strings.Split(line, "|")
	if len(f) != 7 {
		return nil, fmt.Errorf("squeue says %q (needed: 7 fields)", line)
	}
	q := &queued{id: f[0], state: f[1], reason: f[2], left: timeLeft(f[4]), start: f[5], list: f[6]}
	if q.nodes, err = strconv.Atoi(f[3]); err != nil {
		return nil, fmt.Errorf("squeue says %q: %w", line, err)
	}
	return q, nil
}

// timeLeft reads Slurm's [days-][[hours:]minutes:]seconds. What is none, as UNLIMITED, is long.
func timeLeft(text string) time.Duration {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	total, err := strconv.Atoi(days)
	if err != nil {
		return forever
	}
	total *= 24
	units := strings.Split(clock, ":")
	for len(units) < 3 {
		units = append([]string{"0"}, units...)
	}
	for i, u := range units {
		n, err := strconv.Atoi(u)
		if err != nil {
			return forever
		}
		if i > 0 {
			total *= 60
		}
		total += n
	}
	return time.Duration(total) * time.Second
}

const forever = time.Duration(1<<63 - 1)

// giveBack cancels the job and forgets it.
func (l *Launcher) giveBack() error {
	if l.job.name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := slurmSays(ctx, "scancel", "--quiet", "--name="+l.job.name)
	if err == nil && l.StateFile != "" {
		err = os.Remove(l.StateFile)
	}
	if err != nil {
		return fmt.Errorf("job %s is not given back: %w", l.job.name, err)
	}
	l.job = job{}
	return nil
}

// slurmSays runs one of Slurm's commands.
func slurmSays(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var refused strings.Builder
	cmd.Stderr = &refused
	out, err := cmd.Output()
	if err != nil {
		if text := strings.TrimSpace(refused.String()); text != "" {
			err = errors.New(strings.ReplaceAll(text, "\n", "; "))
		}
		return "", fmt.Errorf("%s: %w", cli.ShellWords(argv), err)
	}
	return strings.TrimSpace(string(out)), nil
}
