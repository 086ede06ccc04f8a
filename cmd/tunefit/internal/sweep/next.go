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
	if err != nil || s.whyNotMeasured(key) != "" {
		return Batch{}, err
	}
	plan := space.Next(group)
	if plan.Stage < fit.StageVerify && s.reserved(key) {
		if group == nil || len(group.Points) == 0 {
			return Batch{}, errBudget
		}
		plan = space.Verification(group)
	}
	// What failed in a verification is missing after another one, too.
	if len(plan.Passes) == 0 || plan.Stage == fit.StageVerify && s.verified(key, plan.Sizes) {
		return Batch{}, nil
	}
	b := Batch{Kind: Measure, Channels: s.Choices.Channels}
	if plan.Stage == fit.StageVerify {
		b.Kind = Verify
	}
	for range max(1, plan.Starts) {
		s.addStarts(&b, key, plan)
	}
	return b, nil
}

// addStarts adds the starts that measure a plan.
func (s *Sweep) addStarts(b *Batch, key fit.Key, plan fit.Plan) {
	for _, passes := range s.together(plan.Passes, s.Single != "", nccl.IsRCCL(s.release(key))) {
		b.Starts = append(b.Starts, perfrun.Of(key, s.setting, plan, passes, s.number(key)+len(b.Starts)))
	}
}

// together parts the passes of a plan into those of one start each. RCCL's default is what it is without a tuner, so it
// has starts of its own.
func (s *Sweep) together(passes []fit.Pass, single, isRCCL bool) (starts [][]fit.Pass) {
	byDefault := func(p fit.Pass) bool {
		return !slices.ContainsFunc(p, func(c nccl.Config) bool { return c != fit.ByDefault })
	}
	if isRCCL && !single { // before and after the others
		def := slices.DeleteFunc(slices.Clone(passes), func(p fit.Pass) bool { return !byDefault(p) })
		rest := slices.DeleteFunc(slices.Clone(passes), byDefault)
		half := (len(def) + 1) / 2
		return slices.DeleteFunc([][]fit.Pass{def[:half], rest, def[half:]},
			func(p []fit.Pass) bool { return len(p) == 0 })
	}
	for i := range passes {
		if single || i == 0 {
			starts = append(starts, nil)
		}
		last := len(starts) - 1
		starts[last] = append(starts[last], passes[i])
	}
	return starts
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
	space.Single, space.Fresh = s.Single != "", s.fresh(key)
	space.Smaller, space.Repetitions = s.smaller(key), s.Repetitions
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
		if most := s.channels[space.Key].Of(f.Algo); most > 0 {
			space.Limit(f.Algo, most)
		}
		kinds := []string{"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"}
		if nccl.CountsNVLSChannels(f.Algo) {
			kinds = kinds[:1]
		}
		for _, kind := range kinds {
			most, err := strconv.Atoi(bounds[kind])
			if err == nil {
				space.Limit(f.Algo, most)
			}
		}
	}
}

// fresh are counts of channels that a person has added since the subject's batches were planned.
func (s *Sweep) fresh(key fit.Key) (counts []int) {
	var before []int
	for _, b := range s.of(key).batches {
		before = append(before, b.Channels...)
	}
	if len(before) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Choices.Channels), func(n int) bool { return slices.Contains(before, n) })
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

// verified reports whether the last that was measured of a subject was a verification of some sizes.
func (s *Sweep) verified(key fit.Key, sizes []uint64) (is bool) {
	for _, b := range s.of(key).batches {
		if b.Kind != Prove {
			is = b.Kind == Verify && !slices.ContainsFunc(sizes, func(size uint64) bool {
				return !slices.Contains(b.Starts[0].Sizes, size)
			})
		}
	}
	return is
}

const (
	// leastChange and sigmasOfChange: times of one run each differ if they are so far apart, in ln(us).
	leastChange    = 0.03
	sigmasOfChange = 4
)

// changedByLoading says where the default takes another time with the library loaded; "" where that was not measured.
func (s *Sweep) changedByLoading(key fit.Key, group *fit.Group) string {
	changed := map[bool][]string{} // by whether it is slower
	measured := false
	for _, r := range s.of(key).runs {
		for _, m := range r.loaded {
			i := -1
			if group != nil {
				i = slices.IndexFunc(group.Default, func(d fit.Point) bool { return d.Bytes == m.Bytes })
			}
			if i < 0 {
				continue
			}
			measured = true
			change := math.Log(m.Micros / group.Default[i].Micros)
			text := fmt.Sprintf("%s (%.2f times as long)", nccl.FormatBytes(m.Bytes), math.Exp(change))
			if is := change > 0; math.Abs(change) > max(leastChange, sigmasOfChange*group.Noise) &&
				!slices.Contains(changed[is], text) {
				changed[is] = append(changed[is], text)
			}
		}
	}
	var parts []string
	if len(changed[true]) > 0 {
		parts = append(parts, "slower at "+cli.Few(changed[true], mostUnsteady, ", "))
	}
	if len(changed[false]) > 0 {
		parts = append(parts, "faster at "+cli.Few(changed[false], mostUnsteady, ", "))
	}
	switch {
	case !measured:
		return ""
	case len(parts) == 0:
		return "RCCL's default takes as long with the library loaded as without"
	}
	return "loading the library, or any tuner, changes RCCL's default: " + strings.Join(parts, "; ") +
		" (gains are counted against RCCL without a tuner, and --prove shows what is left; a row that asks for what " +
		"RCCL chose brings it back)"
}
