package sweep

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/launch"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// attempts is how often a start may fail before it is given up. Machines fail by chance, too.
const attempts = 2

// batch runs what is left of a batch: all once, then what failed once more, each of its configurations by itself. A proof
// that a run of it failed is none, whatever the run does the second time.
func (s *Sweep) batch(ctx context.Context, b int) error {
	attempts := attempts
	if s.journal.batches[b].Kind == Prove {
		attempts = 1
	}
	for attempt := range attempts {
		for i := range s.journal.batches[b].Starts {
			if err := s.finish(ctx, b, i, attempt); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish runs what is left of a start, unless it has failed more often than that.
func (s *Sweep) finish(ctx context.Context, b, i, failures int) error {
	start := &s.journal.batches[b].Starts[i]
	_, failed, refused := s.left(b, i, start.Sizes)
	parts := []perfrun.Start{*start}
	if failed > 0 {
		parts = start.Split()
	}
	if refused || failed > failures && (failures == 0 || len(parts) == 1) || len(start.Rows) == 1 && !s.isOffered(start.Key, start.Rows[0].Cell) {
		return nil
	}
	for k := range parts {
		left, failed, _ := s.left(b, i, parts[k].Sizes)
		if len(parts) > 1 && failed > 0 {
			continue
		}
		if err := s.measure(ctx, b, i, left); err != nil {
			return err
		}
	}
	return nil
}

// measure runs a start at some of its sizes, until a run does not end well.
func (s *Sweep) measure(ctx context.Context, b, i int, sizes []uint64) error {
	start := &s.journal.batches[b].Starts[i]
	unit := perfrun.TrimUnit(start.Key)
	for _, step := range perfrun.Steps(sizes, unit) {
		if s.journal.batches[b].Kind == Measure && s.reserved(start.Key) {
			s.short[start.Key] = true
			return nil
		}
		if s.Budget > 0 && s.spent()+s.meanRun(start.Key) > s.Budget {
			return errBudget
		}
		asked := time.Now()
		if err := s.Launcher.Prepare(ctx, start.Key.Nodes, 2*s.Silence, max(s.timeLeft(), time.Hour), func(text string) { s.Say("%s", text) }); err != nil {
			return err
		}
		s.waited += time.Since(asked)
		if err := s.preflight(ctx, start.Key); err != nil {
			return err
		}
		outcome, err := s.runInTime(ctx, Run{Batch: b, Start: i, Sizes: step.Sizes(unit)}, step)
		if err != nil || outcome != Measured {
			return err
		}
	}
	return nil
}

// runInTime runs within what is left of the budget.
func (s *Sweep) runInTime(ctx context.Context, r Run, step perfrun.Step) (Outcome, error) {
	if s.Budget == 0 {
		return s.run(ctx, r, step)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.Budget-s.spent(), errBudget)
	defer cancel()
	return s.run(ctx, r, step)
}

// left are those of some sizes of a start that no run has measured, nor ended without; and how runs at these sizes alone failed.
func (s *Sweep) left(b, i int, of []uint64) (sizes []uint64, failed int, refused bool) {
	start := &s.journal.batches[b].Starts[i]
	sizes = slices.Clone(of)
	for _, k := range s.journal.of(start.Key).runs {
		r := &s.journal.runs[k]
		if r.Batch != b || r.Start != i {
			continue
		}
		done := r.Sizes
		if r.Outcome != Measured {
			done = s.measured(r)
		}
		if r.Outcome == Failed && len(done) > 0 { // the last that it printed may be what failed
			last := slices.Max(done)
			done = slices.DeleteFunc(done, func(b uint64) bool { return b == last })
		}
		sizes = slices.DeleteFunc(sizes, func(b uint64) bool { return slices.Contains(done, b) })
		if slices.ContainsFunc(r.Sizes, func(b uint64) bool { return !slices.Contains(of, b) }) {
			continue
		}
		refused = refused || r.Outcome == Refused
		if r.Outcome == Failed {
			failed++
		}
	}
	return sizes, failed, refused
}

func (s *Sweep) measured(r *Run) (sizes []uint64) {
	if found := s.results[r.ID-1]; found != nil {
		for i := range found.Samples {
			sizes = append(sizes, found.Samples[i].Bytes)
		}
	}
	return sizes
}

// givenUp are configurations of a subject that failed too often or computed wrong results, or in whose place NCCL ran
// another one. Where nothing tells which one of a run did, all of it are.
func (s *Sweep) givenUp(key fit.Key) (all []nccl.Config) {
	for _, b := range s.journal.of(key).batches {
		for i, start := range s.journal.batches[b].Starts {
			_, failed, refused := s.left(b, i, start.Sizes)
			if len(start.Rows) == 0 || !refused && failed < attempts {
				continue
			}
			var alone, together []nccl.Config
			for _, part := range start.Split() {
				c := part.Rows[0].Config
				together = append(together, c)
				if _, failed, refused := s.left(b, i, part.Sizes); refused || failed > 0 || s.computedWrong(b, i, part.Sizes) {
					alone = append(alone, c)
				}
			}
			if len(alone) == 0 && refused {
				alone = together
			}
			all = append(all, alone...)
		}
	}
	return all
}

// computedWrong reports whether a run of a start gave fewer times at one of some sizes than at others: the times of wrong
// results are left out.
func (s *Sweep) computedWrong(b, i int, sizes []uint64) bool {
	for _, k := range s.journal.of(s.journal.batches[b].Starts[i].Key).runs {
		r, found := &s.journal.runs[k], s.results[k]
		if r.Batch != b || r.Start != i || found == nil || found.Wrong() == 0 {
			continue
		}
		times, most := map[uint64]int{}, 0
		for j := range found.Samples {
			bytes := found.Samples[j].Bytes
			times[bytes]++
			most = max(most, times[bytes])
		}
		if slices.ContainsFunc(sizes, func(b uint64) bool { return slices.Contains(r.Sizes, b) && times[b] < most }) {
			return true
		}
	}
	return false
}

// run starts one process and waits for it. The journal knows of it before and after.
func (s *Sweep) run(ctx context.Context, r Run, step perfrun.Step) (Outcome, error) {
	start := s.journal.start(&r)
	r.ID = len(s.journal.runs) + 1
	r.Log = filepath.Join("logs", fmt.Sprintf("%05d-%s.log", r.ID, start.Name))
	p, err := s.process(start, step, s.journal.batches[r.Batch].Kind)
	if err := errors.Join(err, s.writePolicy(start)); err != nil {
		return Failed, err
	}
	r.Command = cli.ShellWords(p.argv)
	log, err := os.OpenFile(filepath.Join(s.Dir, r.Log), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return Failed, err
	}
	defer log.Close()
	if _, err := fmt.Fprintf(log, "# %s\n# %s\n", start.Name, r.Command); err != nil {
		return Failed, err
	}
	r.Begun = time.Now()
	if err := s.journal.write(line{Begin: &r}); err != nil {
		return Failed, err
	}
	p.output, p.env = log, append(cleaned(os.Environ()), p.mark)
	if s.Now != nil {
		s.Now(s.present(&r))
	}
	ended := p.run(ctx)
	r.Seconds = time.Since(r.Begun).Seconds()
	found, text := s.read(&r)
	s.results = append(s.results, found)
	setUp := s.judge(ctx, &r, found, text, ended)
	if err := s.journal.write(line{End: &ending{r.ID, r.End}}); err != nil {
		return Failed, err
	}
	s.Say("%s", s.report(&r))
	if r.Outcome == Stopped {
		return Stopped, cmp.Or(setUp, ended)
	}
	return r.Outcome, nil
}

// bury ends a run in the journal that tunefit did not live to end.
func (s *Sweep) bury(r Run) error {
	r.Outcome, r.Reason = Stopped, "tunefit was killed"
	if info, err := os.Stat(filepath.Join(s.Dir, r.Log)); err == nil {
		r.Seconds = max(0, info.ModTime().Sub(r.Begun).Seconds())
	}
	return s.journal.write(line{End: &ending{r.ID, r.End}})
}

// isOffered reports whether NCCL has an algorithm and protocol, as far as any run tells.
func (s *Sweep) isOffered(key fit.Key, f nccl.Cell) bool {
	return s.offered[key] == nil || s.offered[key][f]
}

// readOffers takes what our library says that NCCL has: "TUNER/Go: NCCL offers for allreduce: ring/ll, ring/simple".
func (s *Sweep) readOffers(key fit.Key, log []byte) {
	for {
		_, said, ok := bytes.Cut(log, []byte("TUNER/Go: NCCL offers for "))
		if !ok {
			return
		}
		said, log, _ = bytes.Cut(said, []byte("\n"))
		if s.offered[key] == nil {
			s.offered[key] = map[nccl.Cell]bool{}
		}
		_, names, _ := strings.Cut(strings.TrimSpace(string(said)), ": ")
		for name := range strings.SplitSeq(names, ", ") {
			algo, proto, _ := strings.Cut(name, "/")
			if f, err := perfrun.ParseFamily(algo, proto); err == nil {
				s.offered[key][f] = true
			}
		}
	}
}

// read is what a run measured, nil: nothing, and its log.
func (s *Sweep) read(r *Run) (found *bench.Result, text []byte) {
	key := s.journal.start(r).Key
	text, err := openregular.Read(filepath.Join(s.Dir, r.Log), mostRead)
	if err != nil {
		return nil, nil
	}
	s.readOffers(key, text)
	found, err = bench.Read(bytes.NewReader(text), r.Log, bench.Options{Coll: &key.Coll, Comm: key.Comm})
	if err != nil {
		return nil, text
	}
	found.Samples = slices.DeleteFunc(found.Samples, func(m bench.Sample) bool {
		return m.Coll != key.Coll || m.Nodes != key.Nodes || m.Ranks != key.Ranks
	})
	return found, text
}

// process is what a start runs: the programs' options, and the environment that decides.
func (s *Sweep) process(start *perfrun.Start, step perfrun.Step, kind Kind) (p process, err error) {
	processes, gpus := s.Launcher.Processes(start.Key.Nodes, start.Key.Ranks/start.Key.Nodes)
	env := map[string]string{}
	switch {
	case start.Policy != "" && s.Environment && kind != Prove:
		env = perfrun.Forced(start.Rows[0].Config)
	case start.Policy != "":
		policy, err := s.policyFile(start)
		if err != nil {
			return p, err
		}
		env = perfrun.Tuned(s.Library, policy)
	}
	// What NCCL says of each call costs a little time, so it is not there where times count that will be promised.
	env["NCCL_DEBUG"], env["NCCL_DEBUG_SUBSYS"] = "INFO", "INIT,ENV"
	if kind == Measure {
		env["NCCL_DEBUG_SUBSYS"] += ",TUNING"
	}
	p = process{mark: s.mark(), silence: s.Silence, grace: grace}
	p.argv, err = s.Launcher.Command(launch.Program{
		Argv:  slices.Concat([]string{s.program(start.Key)}, step.Args(), []string{"-g", strconv.Itoa(gpus)}, s.Args),
		Env:   env,
		Nodes: start.Key.Nodes, RanksPerNode: processes / start.Key.Nodes,
	})
	return p, err
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

// decisive are variables that would decide in the place of what is measured, or hide what ran.
var decisive = []string{
	"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
	"NCCL_TUNER_PLUGIN", tuner.EnvConfigFile, tuner.EnvModelFile, "NCCL_DEBUG_FILE",
}

// noteDecisive says which of them are set, and are kept from the runs.
func (s *Sweep) noteDecisive() {
	var set []string
	for _, name := range decisive {
		if os.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	if len(set) > 0 {
		s.Say("not passed on to runs, as they would decide: %s", strings.Join(set, ", "))
	}
}

// cleaned is an environment without them.
func cleaned(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(decisive, name)
	})
}

// judge says how a run ended. It returns an error where the set-up is to blame, which every other run would meet, too.
func (s *Sweep) judge(ctx context.Context, r *Run, found *bench.Result, text []byte, ended error) error {
	code := s.Launcher.ExitCode(ended, text)
	switch {
	case ctx.Err() != nil && ended == context.Cause(ctx):
		r.Outcome, r.Reason = Stopped, ended.Error()
		return nil
	}
	if problem, mend := s.setUp(r, code, found, text); problem != "" {
		r.Outcome, r.Reason = Stopped, problem
		return fmt.Errorf("%s (see %s; %s)", problem, filepath.Join(s.Dir, r.Log), mend)
	}
	switch {
	case errors.Is(ended, errSilent):
		r.Outcome, r.Reason = Failed, fmt.Sprintf("it printed nothing for %v and was ended", s.Silence)
	case found != nil && found.Wrong() > 0:
		wrong := found.Wrong()
		r.Outcome = Refused
		r.Reason = fmt.Sprintf("it computed wrong results, %d of %s", wrong, cli.CountOf(wrong+len(found.Samples), "time"))
	case found != nil && slices.ContainsFunc(found.Failed, func(m bench.Sample) bool { return m.Bytes == 0 }):
		r.Outcome, r.Reason = Refused, why(found)
	case code != 0 || found == nil || len(found.Samples) == 0 || found.Failure != "":
		r.Outcome, r.Reason = Failed, why(found)
		if r.Reason == "" {
			r.Reason = fmt.Sprintf("exit code %d: %s", code, lastLine(text))
		}
	default:
		r.Outcome = Measured
		if other := disobeyed(s.journal.start(r), found); other != "" {
			r.Outcome, r.Reason = Refused, other
		}
		return nil
	}
	r.Nodes = s.Launcher.Blame(text)
	return nil
}

// why is what a log says of its failure, or why its rows do not count.
func why(found *bench.Result) string {
	switch {
	case found == nil:
	case found.Failure != "":
		return found.Failure
	case len(found.Rejected) > 0:
		return found.Rejected[0].Reason
	}
	return ""
}

// lastLine is the last with words in it: mpirun frames what it says by lines of dashes.
func lastLine(text []byte) string {
	text = bytes.TrimRight(text, "- \t\r\n")
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// disobeyed says where something else ran than the start's configurations, by NCCL's own log.
func disobeyed(start *perfrun.Start, found *bench.Result) string {
	for _, m := range found.Samples {
		for _, row := range start.Rows {
			if row.Bytes.Contains(m.Bytes) && m.Algo != bench.Unknown && (m.Algo != row.Algo || m.Proto != row.Proto) {
				return fmt.Sprintf("%s was asked for, and at %s %s/%s ran", row.Config, commspec.SizeRange(m.Bytes, m.Bytes), m.Algo, m.Proto)
			}
		}
	}
	return ""
}
