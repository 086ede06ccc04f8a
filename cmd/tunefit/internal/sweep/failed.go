package sweep

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

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

// hopeless is why the default of a subject cannot be measured, without which nothing tells what is gained.
func (s *Sweep) hopeless(key fit.Key) (reason string) {
	for _, i := range s.journal.of(key).runs {
		r := &s.journal.runs[i]
		if r.Batch != s.journal.of(key).batches[0] || r.Start > 0 { // the default comes first
			break
		}
		if left, failed, refused := s.left(r.Batch, r.Start, s.journal.start(r).Sizes); len(left) > 0 && (refused || failed >= attempts) {
			reason = r.Reason
		}
	}
	return reason
}

// Hopeless are the subjects that could not be measured.
func (s *Sweep) Hopeless() (all []string) {
	for _, key := range s.Keys {
		if s.hopeless(key) != "" {
			all = append(all, key.String())
		}
	}
	return all
}

// trusted tells the measurements of a subject from those of configurations that were given up: what crashes, hangs or
// computes wrong results at one size must not be chosen at another. Of a hopeless subject nothing counts.
func (s *Sweep) trusted(key fit.Key) func(*bench.Sample) bool {
	if s.hopeless(key) != "" {
		return func(*bench.Sample) bool { return false }
	}
	given := s.givenUp(key)
	return func(m *bench.Sample) bool {
		return m.Selection == bench.SelectionDefault || !slices.ContainsFunc(given, func(c nccl.Config) bool {
			return c.Algo == m.Algo && c.Proto == m.Proto && (c.Channels == m.Channels || c.Channels == 0)
		})
	}
}
