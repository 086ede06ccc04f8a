package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
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
