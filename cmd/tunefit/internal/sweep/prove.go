package sweep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/measure"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Prove runs the default and a policy in alternation on some of the subjects, and returns what both took. A proof of the
// same policy that was stopped is gone on with.
func (s *Sweep) Prove(ctx context.Context, policy string, keys []fit.Key, pairs int) (before, after []bench.Sample, err error) {
	text, err := os.ReadFile(policy)
	if err != nil {
		return nil, nil, err
	}
	last := len(s.journal.batches) - 1
	if !s.proved || !s.proves(last, text) {
		last++
		b := Batch{Kind: Prove}
		name := fmt.Sprintf("proved-%d", last) // the policy as it is now
		for _, key := range keys {
			base := measure.Name(key) + "-" + name
			sizes := s.Sizes
			if group, _ := s.group(key); group != nil {
				sizes = measure.Sizes(group, s.Sizes, s.SizesNamed)
			}
			for pair := range pairs {
				b.Starts = append(b.Starts,
					measure.Start{Name: fmt.Sprintf("%s-rep%d-default", base, pair+1), Key: key, Sizes: sizes},
					measure.Start{Name: fmt.Sprintf("%s-rep%d-policy", base, pair+1), Key: key, Sizes: sizes, Policy: name})
			}
		}
		if err := os.WriteFile(s.proofFile(name), text, 0o644); err != nil {
			return nil, nil, err
		}
		if err := s.journal.write(line{Batch: &b}); err != nil {
			return nil, nil, err
		}
	}
	if err := s.within(ctx, func(ctx context.Context) error { return s.batch(ctx, last) }); err != nil {
		return nil, nil, err
	}
	for i, found := range s.results {
		r := &s.journal.runs[i]
		switch {
		case r.Batch != last || found == nil:
		case s.journal.start(r).Policy == "":
			before = append(before, found.Samples...)
		default:
			after = append(after, found.Samples...)
		}
	}
	return before, after, nil
}

// proves reports whether a batch proves a policy of this text.
func (s *Sweep) proves(b int, text []byte) bool {
	batch := s.journal.batches[b]
	if batch.Kind != Prove {
		return false
	}
	was, err := os.ReadFile(s.proofFile(fmt.Sprintf("proved-%d", b)))
	return err == nil && string(was) == string(text)
}

func (s *Sweep) proofFile(name string) string { return filepath.Join(s.Dir, "policies", name+".csv") }

// GPUHours are what all runs took.
func (s *Sweep) GPUHours() (hours float64) {
	for i := range s.journal.runs {
		r := &s.journal.runs[i]
		hours += r.Seconds / 3600 * float64(s.journal.start(r).Key.Ranks)
	}
	return hours
}

// Summary says what the sweep took.
func (s *Sweep) Summary() string {
	return fmt.Sprintf("%s, %s, %.1f GPU hours", cli.CountOf(len(s.journal.runs), "run"), minutes(s.spent()), s.GPUHours())
}
