package sweep

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/openregular"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Proof holds the times of the default and of a policy, out of place, and what keeps them from proving anything.
type Proof struct {
	Before, After []bench.Sample
	Broken        []string // runs that failed, computed wrong results or lack sizes, a line each
}

// Prove runs the default and a policy in alternation on some of the subjects. It continues a proof of the same policy
// that was stopped.
func (s *Sweep) Prove(ctx context.Context, policy string, keys []fit.Key, pairs int) (*Proof, error) {
	text, err := openregular.Read(policy, mostRead)
	if err != nil {
		return nil, err
	}
	last := len(s.journal.batches) - 1
	if !s.proved || !s.proves(last, text) {
		last++
		b := Batch{Kind: Prove}
		name := fmt.Sprintf("proved-%d", last) // the policy as it is now
		for _, key := range keys {
			base := perfrun.Name(key) + "-" + name
			sizes := perfrun.Sizes(key, s.set(key).Of(key), s.Sizes, s.SizesNamed)
			for pair := range pairs {
				b.Starts = append(b.Starts,
					perfrun.Start{Name: fmt.Sprintf("%s-rep%d-default", base, pair+1), Key: key, Sizes: sizes},
					perfrun.Start{Name: fmt.Sprintf("%s-rep%d-policy", base, pair+1), Key: key, Sizes: sizes,
						Policy: name})
			}
		}
		if err := os.WriteFile(s.proofFile(name), text, 0o644); err != nil {
			return nil, err
		}
		if err := s.journal.write(line{Batch: &b}); err != nil {
			return nil, err
		}
	}
	if err := s.within(ctx, func(ctx context.Context) error { return s.batch(ctx, last) }); err != nil {
		return nil, err
	}
	return s.proof(last), nil
}

// proof reads the runs of a batch. Each start must end well, with right results, at all sizes that another start has.
func (s *Sweep) proof(batch int) *Proof {
	starts := s.journal.batches[batch].Starts
	reasons, samples := make([][]string, len(starts)), make([][]bench.Sample, len(starts))
	asked := map[fit.Key]map[uint64]bool{} // the sizes that any start has
	for _, r := range s.journal.runs {
		if r.Batch != batch {
			continue
		}
		if r.Outcome == Failed || r.Outcome == Refused {
			reasons[r.Start] = append(reasons[r.Start], fmt.Sprintf("%s (%s)", r.Reason, r.Log))
		}
		if r.found == nil {
			continue
		}
		key := r.of.Key
		if asked[key] == nil {
			asked[key] = map[uint64]bool{}
		}
		for _, m := range r.found.Samples {
			if !m.InPlace { // what is learnt from, too
				samples[r.Start] = append(samples[r.Start], m)
				asked[key][m.Bytes] = true
			}
		}
	}
	p := &Proof{}
	for i, start := range starts {
		missing := maps.Clone(asked[start.Key])
		for _, m := range samples[i] {
			delete(missing, m.Bytes)
		}
		var sizes []string
		for _, bytes := range slices.Sorted(maps.Keys(missing)) {
			sizes = append(sizes, nccl.FormatBytes(bytes))
		}
		if len(sizes) > 0 {
			reasons[i] = append(reasons[i], "it lacks "+cli.Few(sizes, 8, ", "))
		} else if len(samples[i]) == 0 && len(reasons[i]) == 0 {
			reasons[i] = append(reasons[i], "it did not run")
		}
		if len(reasons[i]) > 0 {
			p.Broken = append(p.Broken, start.Name+": "+strings.Join(reasons[i], "; "))
		}
		if start.Policy == "" {
			p.Before = append(p.Before, samples[i]...)
		} else {
			p.After = append(p.After, samples[i]...)
		}
	}
	return p
}

// proves reports whether a batch proves a policy of this text.
func (s *Sweep) proves(b int, text []byte) bool {
	batch := s.journal.batches[b]
	if batch.Kind != Prove {
		return false
	}
	was, err := openregular.Read(s.proofFile(fmt.Sprintf("proved-%d", b)), mostRead)
	return err == nil && string(was) == string(text)
}

func (s *Sweep) proofFile(name string) string { return filepath.Join(s.Dir, "policies", name+".csv") }
