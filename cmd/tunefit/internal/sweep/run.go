package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// attempts is how often a configuration may fail before it is given up. Machines fail by chance, too.
const attempts = 2

// batch runs the starts of a batch that have not ended, each once; what was stopped runs again. Where a start of
// several passes or the default breaks off, the rest of the batch is left: what it lacks is planned anew. A proof goes
// on, to say all that fails.
func (s *Sweep) batch(ctx context.Context, b int) error {
	batch := s.journal.batches[b]
	for i := range batch.Starts {
		start := &batch.Starts[i]
		configs := start.ConfigsAt(start.Sizes)
		if len(configs) > 0 && len(slices.DeleteFunc(configs, s.account(start.Key).givenUp)) == 0 {
			continue // nothing is left of it
		}
		for _, step := range start.Steps() {
			r := s.journal.last(start, step.Sizes(perfrun.TrimUnit(start.Key)))
			if r == nil || r.Outcome == Stopped {
				if batch.Kind == Measure && s.reserved(start.Key) {
					return nil
				}
				if !s.affords(start.Key) {
					return errBudget
				}
				if err := s.preflight(ctx); err != nil {
					return err
				}
				var err error
				if r, err = s.run(ctx, b, i, step); err != nil {
					return err
				}
			}
			if came := r.reach(); came.died {
				if batch.Kind != Prove && (len(start.Passes) > 1 || came.at == fit.ByDefault) {
					return nil
				}
				break
			}
		}
	}
	return nil
}

// number is that of a subject's next start, from 1.
func (s *Sweep) number(key fit.Key) (n int) {
	for _, b := range s.batches(key) {
		n += len(b.Starts)
	}
	if group := s.From.Of(key); group != nil {
		n += group.Starts()
	}
	return n + 1
}

// run starts one process and waits for it, within what is left of the budget. The journal knows of it before and after.
func (s *Sweep) run(ctx context.Context, batch, start int, step perfrun.Step) (*Run, error) {
	if s.Budget > 0 {
		within, cancel := context.WithTimeoutCause(ctx, s.Budget-s.spent(), errBudget)
		defer cancel()
		ctx = within
	}
	of := &s.journal.batches[batch].Starts[start]
	begin := Run{ID: len(s.journal.runs) + 1, Batch: batch, Start: start, Sizes: step.Sizes(perfrun.TrimUnit(of.Key)),
		Job: launch.Allocation(), of: of, kind: s.journal.batches[batch].Kind}
	begin.Log = filepath.Join("logs", fmt.Sprintf("%05d-%s.log", begin.ID, of.Name))
	dumps := s.dumps(&begin)
	argv, files, err := s.command(&begin, step, dumps)
	for name, text := range files {
		if _, is := os.Stat(name); errors.Is(is, os.ErrNotExist) { // one that is there says the same
			err = errors.Join(err, cli.WriteText(name, text))
		}
	}
	if err != nil {
		return nil, err
	}
	begin.Command = cli.ShellWords(argv)
	log, err := os.OpenFile(filepath.Join(s.Dir, begin.Log), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	begin.Begun = time.Now()
	if _, err := fmt.Fprintf(log, "%s\n# %s\n# begun %s\n", begin.mark(), begin.Command,
		begin.Begun.Format(time.DateTime)); err != nil {
		return nil, err
	}
	if err := s.journal.write(line{Begin: &begin}); err != nil {
		return nil, err
	}
	r := s.journal.runs[begin.ID-1]
	process := s.process(argv, log)
	if s.Now != nil {
		s.Now(s.step(r, 0))
		process.now = func() { s.Now(s.step(r, s.passesIn(r))) }
	}
	ended := process.run(ctx)
	text := s.read(r)
	setUp := s.judge(ctx, r, text, ended)
	r.Seconds = time.Since(begin.Begun).Seconds()
	if err := s.journal.write(line{End: &ending{r.ID, r.End}}); err != nil {
		return nil, err
	}
	r.settle()
	s.Say("%s", s.report(r))
	if dumps {
		if err := s.keepTopology(); err != nil {
			return nil, err
		}
	}
	if r.Outcome == Stopped {
		return nil, cmp.Or(setUp, ended)
	}
	return r, nil
}

// settle takes what a run that broke off measured for no verification: others come after it.
func (r *Run) settle() {
	if r.found == nil || r.Outcome != Stopped && !r.reach().died {
		return
	}
	for i := range r.found.Samples {
		r.found.Samples[i].Verify = false
	}
}

// mark is the first line of a run's log.
func (r *Run) mark() string {
	var only []nccl.Config
	if len(r.of.Passes) == 1 {
		only = r.of.ConfigsAt(r.Sizes)
	}
	return bench.Mark(r.of.Name, r.of.Key.Coll, r.of.Key.Comm, string(r.kind), only, r.of.Setting)
}

// markKilled writes the end of a run that was going on when tunefit was killed.
func (s *Sweep) markKilled(r *Run) error {
	r.Outcome, r.Reason = Stopped, "tunefit was killed"
	if info, err := os.Stat(filepath.Join(s.Dir, r.Log)); err == nil {
		r.Seconds = max(0, info.ModTime().Sub(r.Begun).Seconds())
	}
	return s.journal.write(line{End: &ending{r.ID, r.End}})
}

// command makes the command of a run, of the program's options and the environment that decides, and the files that its
// ranks read.
func (s *Sweep) command(r *Run, step perfrun.Step, dumps bool) (argv []string, files map[string][]byte, err error) {
	key, passes := r.of.Key, r.of.Passes
	perNode := key.Ranks / key.Nodes
	each := s.perProcess(perNode)
	args := s.Args
	if s.PerProcess == 0 {
		args = append([]string{"-g", strconv.Itoa(each)}, args...)
	}
	if len(passes) > 1 {
		args = append([]string{cmp.Or(s.cycles, "-N"), strconv.Itoa(len(passes))}, args...)
	}
	env, files, err := s.decisions(passes)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(env, s.Bounds)
	var unset []string
	for name, value := range bench.SettingOf(r.of.Setting) {
		if env[name] = value; value == "" {
			delete(env, name)
			unset = append(unset, name)
		}
	}
	slices.Sort(unset)
	// NCCL's log of each call costs a little time, so runs whose times are promised do without.
	env["NCCL_DEBUG"], env["NCCL_DEBUG_SUBSYS"] = "INFO", "INIT,ENV"
	if r.kind == Measure || r.kind == Try {
		env["NCCL_DEBUG_SUBSYS"] += ",TUNING"
	}
	argv = slices.Concat([]string{s.program(key)}, step.Args(), args)
	if dumps {
		if argv, err = s.dumping(argv, each); err != nil {
			return nil, nil, err
		}
	}
	argv, err = s.Launcher.Command(launch.Program{Argv: argv, Env: env, Unset: unset, Nodes: key.Nodes,
		RanksPerNode: perNode / each})
	return argv, files, err
}

// program is the one of nccl-tests that measures a subject, as nodes find it.
func (s *Sweep) program(key fit.Key) string {
	program := perfrun.Program(key.Coll)
	if s.Programs != "" {
		program = filepath.Join(s.Programs, program)
	}
	return program
}

// decisions returns the environment in which passes are decided, and the files that ranks read for that, by name: a
// policy for each pass, and of several passes a list. They are named by what they say, so that a rank that reads one
// late reads the same.
func (s *Sweep) decisions(passes []perfrun.Pass) (env map[string]string, files map[string][]byte, err error) {
	dir, err := filepath.Abs(filepath.Join(s.Dir, "policies"))
	if err != nil {
		return nil, nil, err
	}
	var list []byte
	policy := ""
	files = map[string][]byte{}
	for _, p := range passes {
		name := "default"
		if p.Policy != "" {
			name = p.Policy + ".csv"
			if policy = filepath.Join(dir, name); len(p.Rows) > 0 { // else it is there
				files[policy] = p.Text()
			}
		}
		list = fmt.Appendln(list, name)
	}
	switch {
	case policy == "":
		return map[string]string{}, nil, nil
	case len(passes) > 1:
		name := filepath.Join(dir, fmt.Sprintf("passes-%.12s.txt", identity.DigestOf(list)))
		files[name] = list
		return perfrun.InPasses(s.Library, name), files, nil
	}
	return perfrun.Tuned(s.Library, policy), files, nil
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
	now       func()        // is called each second while it runs; nil: nobody asks
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
			if p.now != nil {
				p.now()
			}
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
