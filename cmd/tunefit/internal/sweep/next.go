package sweep

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// next is what to measure next of a subject; nothing once it is done.
func (s *Sweep) next(key fit.Key) (Batch, error) {
	group, space, err := s.known(key)
	if err != nil {
		return Batch{}, err
	}
	smaller, verified := s.smaller(key), s.verified(key)
	switch {
	case s.hopeless(key) != "", verified && smaller != nil:
		return Batch{}, nil
	case s.needsLoaded(key, group):
		return s.loaded(key, group), nil
	case smaller != nil:
		space.Sizes = perfrun.Sizes(key, nil, s.Sizes, s.SizesNamed)
		return s.verification(space, smaller), nil
	}
	next := space.Next(group)
	// Failures in a verification can make more measurements look worthwhile. A verified subject stops here, or that
	// would never end.
	if enough := verified && next.Stage >= fit.StageRounds; enough || len(next.Runs) == 0 || s.reserved(key) {
		if verified || group == nil || len(group.Points) == 0 {
			if len(next.Runs) > 0 && !verified {
				return Batch{}, errBudget
			}
			return Batch{}, nil // there is nothing to verify
		}
		return s.verification(space, group), nil
	}
	b := Batch{Kind: Measure}
	for _, r := range next.Runs {
		b.Starts = append(b.Starts, perfrun.Of(key, r))
	}
	return b, nil
}

// known returns what was measured of a subject (nil: nothing) and what may be measured of it.
func (s *Sweep) known(key fit.Key) (*fit.Group, fit.Space, error) {
	set := s.set(key)
	group, failed := set.Of(key), set.Failed[key]
	space, err := s.Choices.Space(key, slices.Concat(failed, s.givenUp(key)), set.NCCL)
	space.LeaveOut(func(f nccl.Cell) bool { // a failure without channels is of the whole family
		return s.notOffered[key][f] || slices.Contains(failed, nccl.Config{Cell: f})
	})
	space.Sizes, space.Asked = perfrun.Sizes(key, group, s.Sizes, s.SizesNamed), set.Asked[key]
	if err == nil && len(space.Sizes) == 0 {
		err = cli.Usagef("--sizes: the default of %s was not measured at any of them (needed: some of %s)", key,
			commspec.SizeRange(group.Default[0].Bytes, group.Default[len(group.Default)-1].Bytes))
	}
	return group, space, err
}

func (s *Sweep) verification(space fit.Space, group *fit.Group) Batch {
	return Batch{Kind: Verify,
		Starts: perfrun.Verification(space.Key, space.Sizes, space.Verification(group), s.Repetitions)}
}

// smaller returns what was measured of the same collective on fewer nodes, but at least two; nil: nothing. What is the
// fastest there, or that with fewer channels, is nearly always the fastest on more nodes. One node tells nothing about
// several.
func (s *Sweep) smaller(key fit.Key) (best *fit.Group) {
	for _, k := range s.before(key) {
		if best != nil && k.Nodes < best.Nodes {
			continue
		}
		if g := s.set(k).Of(k); g != nil && len(g.Points) > 0 {
			best = g
		}
	}
	return best
}

// before returns the earlier subjects of the same collective with fewer nodes, at least two.
func (s *Sweep) before(key fit.Key) []fit.Key {
	if s.Full {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Keys[:slices.Index(s.Keys, key)]), func(k fit.Key) bool {
		return k.Coll != key.Coll || k.Ranks*key.Nodes != key.Ranks*k.Nodes || k.Nodes < 2 || k.Nodes >= key.Nodes
	})
}

// verified reports whether all that was measured of a subject was followed by a verification.
func (s *Sweep) verified(key fit.Key) (is bool) {
	if s.From != nil {
		group, space, err := s.known(key)
		return err == nil && group != nil && group.IsVerified(space.Sizes)
	}
	for _, b := range s.journal.of(key).batches {
		if b.Kind != Prove {
			is = b.Kind == Verify
		}
	}
	return is
}
