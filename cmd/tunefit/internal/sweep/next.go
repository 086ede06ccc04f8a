package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
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
	case s.whyNotMeasured(key) != "", verified && smaller != nil:
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
	s.bound(&space, group)
	space.Sizes, space.Asked = perfrun.Sizes(key, group, s.Sizes, s.SizesNamed), set.Asked[key]
	if err == nil && len(space.Sizes) == 0 {
		err = cli.Usagef("--sizes: the default of %s was not measured at any of them (needed: some of %s)", key,
			cli.SizeRange(group.Default[0].Bytes, group.Default[len(group.Default)-1].Bytes))
	}
	return group, space, err
}

// bound keeps what is planned within the bounds that runs are measured under.
func (s *Sweep) bound(space *fit.Space, group *fit.Group) {
	bounds := s.Bounds
	if group != nil {
		for under := range group.Under { // nodes may have bounds of their own, in nccl.conf
			bounds = under.Bounds()
		}
	}
	for _, f := range space.Families {
		kinds := []string{"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}
		if nccl.CountsNVLSChannels(f.Algo) {
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			most, err := strconv.Atoi(bounds[kind])
			if limit, limited := space.Limits[f.Algo]; err == nil && (!limited || most < limit) {
				if space.Limits == nil {
					space.Limits = map[nccl.Algo]int{}
				}
				space.Limits[f.Algo] = most
			}
		}
	}
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

// needsLoaded reports whether the default is to be measured with the library loaded, too: RCCL chooses otherwise on
// gfx950 as soon as any tuner is there, whatever it says. Logs of runs by hand do not tell which run that was.
func (s *Sweep) needsLoaded(key fit.Key, group *fit.Group) bool {
	return s.From == nil && nccl.IsRCCL(s.release(key)) && group != nil && len(group.Default) > 0 && !s.verified(key) &&
		!slices.ContainsFunc(s.journal.of(key).batches, func(b *Batch) bool { return b.Kind == Loaded })
}

// loaded is one start of the default with the library, which has no policy.
func (s *Sweep) loaded(key fit.Key, group *fit.Group) Batch {
	return Batch{Kind: Loaded, Starts: []perfrun.Start{{Name: perfrun.Name(key) + "-loaded", Key: key,
		Sizes: perfrun.Sizes(key, group, s.Sizes, s.SizesNamed), Policy: "none"}}}
}

const (
	// leastChange and sigmasOfChange: times of one run each differ if they are so far apart, in ln(us).
	leastChange    = 0.03
	sigmasOfChange = 4
)

// changedByLoading says where the default takes another time with the library loaded; "" where that was not measured.
func (s *Sweep) changedByLoading(key fit.Key, group *fit.Group) string {
	var slower, faster []string
	measured := false
	for _, r := range s.journal.of(key).runs {
		if r.found == nil || r.kind != Loaded || group == nil {
			continue
		}
		for _, m := range r.found.Samples {
			i := slices.IndexFunc(group.Default, func(d fit.Point) bool { return d.Bytes == m.Bytes })
			if i < 0 || m.InPlace {
				continue
			}
			measured = true
			change := math.Log(m.Micros / group.Default[i].Micros)
			text := fmt.Sprintf("%s (%.2f times as long)", nccl.FormatBytes(m.Bytes), math.Exp(change))
			switch need := max(leastChange, sigmasOfChange*group.Noise); {
			case change > need:
				slower = append(slower, text)
			case change < -need:
				faster = append(faster, text)
			}
		}
	}
	switch {
	case !measured:
		return ""
	case len(slower)+len(faster) == 0:
		return "RCCL's default takes as long with the library loaded as without"
	}
	var parts []string
	if len(slower) > 0 {
		parts = append(parts, "slower at "+cli.Few(slower, mostUnsteady, ", "))
	}
	if len(faster) > 0 {
		parts = append(parts, "faster at "+cli.Few(faster, mostUnsteady, ", "))
	}
	return "loading the library, or any tuner, changes RCCL's default: " + strings.Join(parts, "; ") +
		" (gains are counted against RCCL without a tuner, and --prove shows what is left; a row that asks for what " +
		"RCCL chose brings it back)"
}
