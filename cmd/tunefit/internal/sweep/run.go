package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// attempts is how often a start may fail before it is given up. Machines fail by chance, too.
const attempts = 2

// batch runs what is left of a batch: all once, then what failed once more, each of its configurations by itself. A
// proof with a run that failed proves nothing, so its runs have one attempt.
func (s *Sweep) batch(ctx context.Context, b int) error {
	batch, attempts := s.journal.batches[b], attempts
	if batch.Kind == Prove {
		attempts = 1
	}
	for attempt := range attempts {
		for i := range batch.Starts {
			if err := s.finish(ctx, Run{Batch: b, Start: i, of: &batch.Starts[i], kind: batch.Kind},
				attempt); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish runs what is left of a start, unless it has failed more often than failures.
func (s *Sweep) finish(ctx context.Context, r Run, failures int) error {
	start := r.of
	_, failed, refused := s.left(start, start.Sizes)
	parts := []perfrun.Start{*start}
	if failed > 0 {
		parts = start.Split()
	}
	tried := failed > failures && (failures == 0 || len(parts) == 1)
	offered := func(row fit.Row) bool { return !s.notOffered[start.Key][row.Cell] }
	if refused || tried || len(start.Rows) > 0 && !slices.ContainsFunc(start.Rows, offered) {
		return nil
	}
	for k := range parts {
		left, failed, _ := s.left(start, parts[k].Sizes)
		if len(parts) > 1 && failed > 0 {
			continue
		}
		if err := s.measure(ctx, r, left); err != nil {
			return err
		}
	}
	return nil
}

// measure runs a start at some of its sizes, until a run does not end well.
func (s *Sweep) measure(ctx context.Context, r Run, sizes []uint64) error {
	key := r.of.Key
	unit := perfrun.TrimUnit(key)
	for _, step := range perfrun.Steps(sizes, unit) {
		if r.kind == Measure && s.reserved(key) {
			s.cutShort[key] = true
			return nil
		}
		if s.Budget > 0 && s.spent()+s.meanRun(key) > s.Budget {
			return errBudget
		}
		if err := s.preflight(ctx); err != nil {
			return err
		}
		r.Sizes = step.Sizes(unit)
		if outcome, err := s.run(ctx, r, step); err != nil || outcome != Measured {
			return err
		}
	}
	return nil
}

// run starts one process and waits for it, within what is left of the budget. The journal knows of it before and after.
func (s *Sweep) run(ctx context.Context, begin Run, step perfrun.Step) (Outcome, error) {
	if s.Budget > 0 {
		within, cancel := context.WithTimeoutCause(ctx, s.Budget-s.spent(), errBudget)
		defer cancel()
		ctx = within
	}
	begin.ID, begin.Job = len(s.journal.runs)+1, launch.Allocation()
	begin.Log = filepath.Join("logs", fmt.Sprintf("%05d-%s.log", begin.ID, begin.of.Name))
	dumps := s.dumps(&begin)
	argv, err := s.command(begin.of, step, begin.kind, dumps)
	if err := errors.Join(err, s.writePolicy(begin.of)); err != nil {
		return Failed, err
	}
	begin.Command = cli.ShellWords(argv)
	log, err := os.OpenFile(filepath.Join(s.Dir, begin.Log), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Failed, err
	}
	defer log.Close()
	begin.Begun = time.Now()
	if _, err := fmt.Fprintf(log, "%s\n# %s\n# begun %s\n", mark(begin.of, begin.kind), begin.Command,
		begin.Begun.Format(time.DateTime)); err != nil {
		return Failed, err
	}
	if err := s.journal.write(line{Begin: &begin}); err != nil {
		return Failed, err
	}
	r := s.journal.runs[begin.ID-1]
	if s.Now != nil {
		s.Now(s.step(r))
	}
	ended := s.process(argv, log).run(ctx)
	text := s.read(r)
	setUp := s.judge(ctx, r, text, ended)
	r.Seconds = time.Since(begin.Begun).Seconds()
	if err := s.journal.write(line{End: &ending{r.ID, r.End}}); err != nil {
		return Failed, err
	}
	s.Say("%s", s.report(r))
	if dumps {
		if err := s.keepTopology(); err != nil {
			return r.Outcome, err
		}
	}
	if r.Outcome == Stopped {
		return Stopped, cmp.Or(setUp, ended)
	}
	return r.Outcome, nil
}

// mark is the first line of a run's log.
func mark(start *perfrun.Start, kind Kind) string {
	return bench.Mark(start.Name, start.Key.Coll, start.Key.Comm, string(kind), start.ConfigsAt(start.Sizes))
}

// markKilled writes the end of a run that was going on when tunefit was killed.
func (s *Sweep) markKilled(r *Run) error {
	r.Outcome, r.Reason = Stopped, "tunefit was killed"
	if info, err := os.Stat(filepath.Join(s.Dir, r.Log)); err == nil {
		r.Seconds = max(0, info.ModTime().Sub(r.Begun).Seconds())
	}
	return s.journal.write(line{End: &ending{r.ID, r.End}})
}

// command makes the command of a start: the program's options, and the environment that decides.
func (s *Sweep) command(start *perfrun.Start, step perfrun.Step, kind Kind, dumps bool) (argv []string, err error) {
	perNode := start.Key.Ranks / start.Key.Nodes
	each := s.perProcess(perNode)
	args := s.Args
	if s.PerProcess == 0 {
		args = append([]string{"-g", strconv.Itoa(each)}, args...)
	}
	env := map[string]string{}
	if kind == Loaded {
		env["NCCL_TUNER_PLUGIN"] = s.Library
	} else if start.Policy != "" {
		policy, err := s.policyFile(start)
		if err != nil {
			return nil, err
		}
		env = perfrun.Tuned(s.Library, policy)
	}
	maps.Copy(env, s.Bounds)
	// NCCL's log of each call costs a little time, so runs whose times are promised do without.
	env["NCCL_DEBUG"], env["NCCL_DEBUG_SUBSYS"] = "INFO", "INIT,ENV"
	if kind == Measure {
		env["NCCL_DEBUG_SUBSYS"] += ",TUNING"
	}
	argv = slices.Concat([]string{s.program(start.Key)}, step.Args(), args)
	if dumps {
		if argv, err = s.dumping(argv, each); err != nil {
			return nil, err
		}
	}
	return s.Launcher.Command(launch.Program{
		Argv:  argv,
		Env:   env,
		Nodes: start.Key.Nodes, RanksPerNode: perNode / each,
	})
}

// program is the one of nccl-tests that measures a subject, as nodes find it.
func (s *Sweep) program(key fit.Key) string {
	program := perfrun.Program(key.Coll)
	if s.Programs != "" {
		program = filepath.Join(s.Programs, program)
	}
	return program
}

// policyFile is what decides a start, as ranks on other nodes find it.
func (s *Sweep) policyFile(start *perfrun.Start) (string, error) {
	return filepath.Abs(filepath.Join(s.Dir, "policies", start.Policy+".csv"))
}

// writePolicy makes the file.
func (s *Sweep) writePolicy(start *perfrun.Start) error {
	if len(start.Rows) == 0 { // of no policy, or one that is there
		return nil
	}
	name, err := s.policyFile(start)
	if err != nil {
		return err
	}
	return cli.WriteWhole(name, true, func(w io.Writer) error {
		for _, row := range start.Rows {
			if _, err := fmt.Fprintln(w, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// decisive are variables that would decide instead of what is measured, refuse it, or hide what ran. Runs get those
// that only bound channels back from Options.Bounds.
var decisive = []string{
	"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
	"NCCL_TUNER_PLUGIN", tuner.EnvConfigFile, tuner.EnvModelFile, tuner.EnvDeterministic,
	"NCCL_DEBUG_FILE",
}

// noteRemoved says which of them are set and kept from runs.
func (s *Sweep) noteRemoved() {
	var set []string
	for _, name := range decisive {
		if os.Getenv(name) != "" && s.Bounds[name] == "" {
			set = append(set, name)
		}
	}
	if len(set) > 0 {
		s.Say("runs do not get these variables, which would decide for them: %s", strings.Join(set, ", "))
	}
}

// cleaned removes them from an environment.
func cleaned(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(decisive, name)
	})
}

// errSilent ends a run that prints nothing more.
var errSilent = errors.New("silent")

// grace is what a launcher has to end its ranks.
const grace = 15 * time.Second

// process is a command whose whole tree is ended with it.
type process struct {
	argv, env []string
	mark      string // NAME=VALUE of env that no other process has
	output    *os.File
	silence   time.Duration // it is ended when its output does not grow for so long
	grace     time.Duration // that a launcher has to end its ranks, on other nodes, too, before it is killed
}

// process is a command of the sweep.
func (s *Sweep) process(argv []string, output *os.File) process {
	mark := s.mark()
	return process{argv: argv, env: append(cleaned(os.Environ()), mark), mark: mark, output: output,
		silence: s.Silence, grace: grace}
}

// run returns when nothing of the command runs any more on this machine: its own exit, ctx's cause, or errSilent.
func (p process) run(ctx context.Context) error {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.output, p.output
	ended, err := spawn(cmd)
	if err != nil {
		return err
	}
	defer killMarked(p.mark)
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

// killMarked kills all processes with a mark in their environment, wherever they have gone: those that ignore a
// signal, have a session of their own or lost their parent. One that a driver holds may not end; the next run shows it.
//
// One look may miss a process: while it begins another program (execve) it shows no environment, and one that a process
// left right before its end may not be in the list yet. So it looks until nothing was there several times in a row.
func killMarked(mark string) {
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
