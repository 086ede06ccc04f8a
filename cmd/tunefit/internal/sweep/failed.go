package sweep

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// left returns those of some sizes of a start that no run has measured. It also says how often runs at these sizes
// alone failed, and whether NCCL refused one.
func (s *Sweep) left(start *perfrun.Start, of []uint64) (sizes []uint64, failed int, refused bool) {
	sizes = slices.Clone(of)
	for _, r := range s.journal.runsOf(start) {
		done := r.Sizes
		if r.Outcome != Measured {
			done = r.measured()
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

// measured returns the sizes that a run's log has times of.
func (r *Run) measured() (sizes []uint64) {
	if r.found != nil {
		for i := range r.found.Samples {
			sizes = append(sizes, r.found.Samples[i].Bytes)
		}
	}
	return sizes
}

// givenUp returns the configurations of a subject that failed too often, computed wrong results, or were replaced by
// NCCL. Where nothing tells which configuration of a run is to blame, all of the run are given up.
func (s *Sweep) givenUp(key fit.Key) (all []nccl.Config) {
	for _, b := range s.journal.of(key).batches {
		for i := range b.Starts {
			start := &b.Starts[i]
			_, failed, refused := s.left(start, start.Sizes)
			if len(start.Rows) == 0 || !refused && failed < attempts {
				continue
			}
			var alone, together []nccl.Config
			for _, part := range start.Split() {
				c := part.Rows[0].Config
				together = append(together, c)
				if _, failed, refused := s.left(start, part.Sizes); refused || failed > 0 ||
					s.computedWrong(start, part.Sizes) {
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

// computedWrong reports whether a run of a start gave fewer times at one of some sizes than at others: the times of
// wrong results are left out.
func (s *Sweep) computedWrong(start *perfrun.Start, sizes []uint64) bool {
	for _, r := range s.journal.runsOf(start) {
		if r.found == nil || r.found.Wrong() == 0 {
			continue
		}
		times, most := map[uint64]int{}, 0
		for _, bytes := range r.measured() {
			times[bytes]++
			most = max(most, times[bytes])
		}
		if slices.ContainsFunc(sizes, func(b uint64) bool { return slices.Contains(r.Sizes, b) && times[b] < most }) {
			return true
		}
	}
	return false
}

// hopeless is why the default of a subject cannot be measured; empty: it can. Without it no gain can be told.
func (s *Sweep) hopeless(key fit.Key) (reason string) {
	of := s.journal.of(key)
	if len(of.batches) == 0 {
		return ""
	}
	first := &of.batches[0].Starts[0] // the default comes first
	runs := s.journal.runsOf(first)
	if left, failed, refused := s.left(first, first.Sizes); len(runs) > 0 && len(left) > 0 &&
		(refused || failed >= attempts) {
		reason = runs[len(runs)-1].Reason
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

// trusted tells which measurements of a subject count. Those of configurations that were given up do not: what crashes,
// hangs or computes wrong results at one size must not be chosen at another. Nothing of a hopeless subject counts.
func (s *Sweep) trusted(key fit.Key) func(*bench.Sample) bool {
	if s.hopeless(key) != "" {
		return func(*bench.Sample) bool { return false }
	}
	given := s.givenUp(key)
	return func(m *bench.Sample) bool {
		return m.Selection == bench.SelectionDefault || !slices.ContainsFunc(given, func(c nccl.Config) bool {
			return c.Cell == m.Cell && (c.Channels == m.Channels || c.Channels == 0)
		})
	}
}
