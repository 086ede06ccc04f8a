package sweep

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// Proof holds the times of the default and of a policy, out of place, and what keeps them from proving anything.
type Proof struct {
	Before, After []bench.Sample
	Broken        []string // runs that failed, computed wrong results or lack sizes, a line each
}

// Prove runs the default and a policy in alternation on some of the subjects. It continues a proof that was stopped, if
// that is the same one.
func (s *Sweep) Prove(ctx context.Context, policy string, keys []fit.Key, pairs int) (*Proof, error) {
	text, err := safefile.Read(policy, mostRead)
	if err != nil {
		return nil, err
	}
	b := len(s.journal.batches) - 1
	err = s.within(ctx, func(ctx context.Context) error {
		if b >= 0 && s.proves(b, keys, pairs, text) {
			before := len(s.journal.runs)
			if err := s.batch(ctx, b); err != nil || len(s.journal.runs) > before {
				return err
			}
		}
		b++
		next := s.proofBatch(b, keys, pairs)
		if err := os.WriteFile(s.proofFile(b), text, 0o644); err != nil {
			return err
		}
		if err := s.journal.write(line{Batch: &next}); err != nil {
			return err
		}
		return s.batch(ctx, b)
	})
	if err != nil {
		return nil, err
	}
	return s.proof(b), nil
}

// proofBatch is the proof that would be batch b.
func (s *Sweep) proofBatch(b int, keys []fit.Key, pairs int) Batch {
	batch, name := Batch{Kind: Prove}, proofName(b)
	for _, key := range keys {
		base := perfrun.Name(key) + "-" + name
		sizes := perfrun.Sizes(key, s.set(key).Of(key), s.Sizes, s.SizesNamed)
		for pair := range pairs {
			batch.Starts = append(batch.Starts,
				perfrun.Start{Name: fmt.Sprintf("%s-rep%d-default", base, pair+1), Key: key, Sizes: sizes},
				perfrun.Start{Name: fmt.Sprintf("%s-rep%d-policy", base, pair+1), Key: key, Sizes: sizes,
					Policy: name})
		}
	}
	return batch
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

// proves reports whether batch b is this proof of a policy of this text.
func (s *Sweep) proves(b int, keys []fit.Key, pairs int, text []byte) bool {
	if !reflect.DeepEqual(*s.journal.batches[b], s.proofBatch(b, keys, pairs)) {
		return false
	}
	was, err := safefile.Read(s.proofFile(b), mostRead)
	return err == nil && bytes.Equal(was, text)
}

// proofName is the name of the policy that batch b proves.
func proofName(b int) string { return fmt.Sprintf("proved-%d", b) }

// proofFile is that policy, as it was when the proof began.
func (s *Sweep) proofFile(b int) string { return filepath.Join(s.Dir, "policies", proofName(b)+".csv") }
