package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
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
			s.short[key] = true
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
	begin.ID = len(s.journal.runs) + 1
	begin.Log = filepath.Join("logs", fmt.Sprintf("%05d-%s.log", begin.ID, begin.of.Name))
	p, err := s.process(begin.of, step, begin.kind)
	if err := errors.Join(err, s.writePolicy(begin.of)); err != nil {
		return Failed, err
	}
	begin.Command = cli.ShellWords(p.argv)
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
	p.output, p.env = log, append(cleaned(os.Environ()), p.mark)
	if s.Now != nil {
		s.Now(s.present(r))
	}
	ended := p.run(ctx)
	text := s.read(r)
	setUp := s.judge(ctx, r, text, ended)
	r.Seconds = time.Since(begin.Begun).Seconds()
	if err := s.journal.write(line{End: &ending{r.ID, r.End}}); err != nil {
		return Failed, err
	}
	s.Say("%s", s.report(r))
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
