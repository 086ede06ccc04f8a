package sweep

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
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

// Compare says what the policy changes. Each start has both sides in turns or, with RCCL, starts of both take turns.
func (p *Proof) Compare() *compare.Table {
	return compare.Two(p.Before, p.After, compare.Options{Names: [2]string{"default", "policy"}, Alternating: true,
		InStarts: true, Threshold: 0.01})
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
		next := s.proofBatch(b, keys, pairs, s.SettingOf(text))
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

const (
	// proofStarts is how many starts a proof is spread over at least: what a start draws is not seen in one.
	proofStarts = 3
	// pairsOfStart is how many pairs of passes a start has, if that needs no more starts.
	pairsOfStart = 5
)

// proofBatch is the proof that would be batch b: pairs of the default and the policy in turns. Where a start measures
// one pass, and with RCCL, whose default is what it is without a tuner, both have starts of their own.
func (s *Sweep) proofBatch(b int, keys []fit.Key, pairs int, setting string) Batch {
	batch, name := Batch{Kind: Prove}, proofName(b)
	byDefault, byPolicy := perfrun.Pass{}, perfrun.Pass{Policy: name}
	for _, key := range keys {
		sizes := perfrun.Sizes(key, s.set(key).Of(key), s.Sizes, s.SizesNamed)
		add := func(what string, number int, passes ...perfrun.Pass) {
			start := perfrun.Start{Key: key, Sizes: sizes, Passes: passes,
				Name: fmt.Sprintf("%s-%s-rep%d%s", perfrun.Name(key), name, number, what)}
			if passes[0].Policy != "" {
				start.Setting = setting
			}
			batch.Starts = append(batch.Starts, start)
		}
		least := proofStarts
		if setting != "" { // both sides have starts of their own, whose levels do not cancel
			least = fit.MeetingStarts
		}
		starts := min(pairs, max(least, (pairs+pairsOfStart-1)/pairsOfStart))
		if s.Single != "" {
			starts = (pairs + proofStarts - 1) / proofStarts
		}
		for n := range starts {
			each := (pairs + starts - 1 - n) / starts
			if s.Single != "" {
				each = 1
			} else if setting == "" && !nccl.IsRCCL(s.release(key)) {
				add("", n+1, slices.Repeat([]perfrun.Pass{byDefault, byPolicy}, each)...)
				continue
			}
			add("-default", n+1, slices.Repeat([]perfrun.Pass{byDefault}, each)...)
			add("-policy", n+1, slices.Repeat([]perfrun.Pass{byPolicy}, each)...)
		}
	}
	return batch
}

// SettingOf is the setting that a policy is for: of those that were tried, the one of which it has most variables.
func (s *Sweep) SettingOf(policy []byte) (setting string) {
	said := strings.Join(nccl.ReadRemarks(policy).Under, " ")
	for _, tried := range s.Settings {
		if hasWords(said, tried) && len(tried) > len(setting) {
			setting = tried
		}
	}
	return setting
}

// proof reads the runs of a batch. Each start must end well, with right results, at all sizes in all passes.
func (s *Sweep) proof(batch int) *Proof {
	starts, p := s.journal.batches[batch].Starts, &Proof{}
	for i := range starts {
		start := &starts[i]
		var reasons []string
		times := make([]map[uint64]bool, len(start.Passes))
		for k := range times {
			times[k] = map[uint64]bool{}
		}
		for _, r := range s.journal.runsOf(start) {
			if r.Outcome == Failed || r.Outcome == Refused {
				reasons = append(reasons, fmt.Sprintf("%s (%s)", r.Reason, r.Log))
			}
			if r.found == nil || r.again {
				continue
			}
			for _, m := range r.found.Samples {
				k := max(0, m.Pass-1)
				if m.InPlace || times[k][m.Bytes] { // what is learnt from, too, and once
					continue
				}
				if times[k][m.Bytes] = true; start.Passes[k].Policy == "" {
					p.Before = append(p.Before, m)
				} else {
					p.After = append(p.After, m)
				}
			}
		}
		var lacks []string
		for _, b := range start.Sizes {
			if slices.ContainsFunc(times, func(of map[uint64]bool) bool { return !of[b] }) {
				lacks = append(lacks, nccl.FormatBytes(b))
			}
		}
		if len(lacks) == len(start.Sizes) && len(reasons) == 0 {
			reasons = append(reasons, "it did not run")
		} else if len(lacks) > 0 {
			reasons = append(reasons, "it lacks "+cli.Few(lacks, 8, ", "))
		}
		if len(reasons) > 0 {
			p.Broken = append(p.Broken, start.Name+": "+strings.Join(reasons, "; "))
		}
	}
	return p
}

// proves reports whether batch b is this proof of a policy of this text.
func (s *Sweep) proves(b int, keys []fit.Key, pairs int, text []byte) bool {
	if !reflect.DeepEqual(*s.journal.batches[b], s.proofBatch(b, keys, pairs, s.SettingOf(text))) {
		return false
	}
	was, err := safefile.Read(s.proofFile(b), mostRead)
	return err == nil && bytes.Equal(was, text)
}

// proofName is the name of the policy that batch b proves.
func proofName(b int) string { return fmt.Sprintf("proved-%d", b) }

// proofFile is that policy, as it was when the proof began.
func (s *Sweep) proofFile(b int) string { return filepath.Join(s.Dir, "policies", proofName(b)+".csv") }
