package sweep

import (
	"slices"
	"strconv"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/perfrun"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// next is what to measure next of a subject; nothing once it is done. What a run died at is tried by itself first.
func (s *Sweep) next(key fit.Key) (Batch, error) {
	group, space, err := s.known(key)
	if err != nil || s.whyNotMeasured(key) != "" {
		return Batch{}, err
	}
	if b := s.alone(key, space); len(b.Starts) > 0 {
		return b, nil
	}
	plan := space.Next(group)
	if plan.Stage < fit.StageVerify && s.reserved(key) {
		if group == nil || len(group.Points) == 0 {
			return Batch{}, errBudget
		}
		plan, s.cutShort[key] = space.Verification(group), true
	}
	kind := Measure
	if plan.Stage == fit.StageVerify {
		kind = Verify
	}
	b := s.planned(kind, key, plan)
	if len(b.Starts) > 0 && s.repeats(&b) { // that tells nothing new
		return Batch{}, nil
	}
	return b, nil
}

// repeats reports whether a batch is the one that its subject had last.
func (s *Sweep) repeats(b *Batch) bool {
	batches := s.batches(b.Starts[0].Key)
	if len(batches) == 0 {
		return false
	}
	last := batches[len(batches)-1]
	return last.Kind == b.Kind && slices.EqualFunc(last.Starts, b.Starts, func(was, is perfrun.Start) bool {
		return slices.Equal(was.Sizes, is.Sizes) && slices.EqualFunc(was.Passes, is.Passes,
			func(p, o perfrun.Pass) bool { return p.Policy == o.Policy })
	})
}

// alone is what a run died at, by itself; nothing: it is known whether that runs.
func (s *Sweep) alone(key fit.Key, space fit.Space) (b Batch) {
	if c, ok := s.account(key).suspect(); ok {
		b = s.planned(Measure, key, fit.Plan{Sizes: space.Sizes,
			Passes: []fit.Pass{slices.Repeat(fit.Pass{c}, len(space.Sizes))}})
	}
	return b
}

// planned is a batch of the starts that measure a plan.
func (s *Sweep) planned(kind Kind, key fit.Key, plan fit.Plan) Batch {
	b := Batch{Kind: kind, Channels: s.Choices.Channels}
	for range max(1, plan.Starts) {
		for _, passes := range s.together(plan.Passes, s.Single != "", nccl.IsRCCL(s.release(key))) {
			b.Starts = append(b.Starts, perfrun.Of(key, s.setting, plan, passes, s.number(key)+len(b.Starts)))
		}
	}
	return b
}

// together parts the passes of a plan into those of one start each. RCCL's default is what it is without a tuner, so it
// has starts of its own.
func (s *Sweep) together(passes []fit.Pass, single, isRCCL bool) (starts [][]fit.Pass) {
	if single {
		return slices.Collect(slices.Chunk(passes, 1))
	}
	var byDefault, rest []fit.Pass
	for _, p := range passes {
		if isRCCL && !slices.ContainsFunc(p, nccl.Config.Known) {
			byDefault = append(byDefault, p)
		} else {
			rest = append(rest, p)
		}
	}
	half := (len(byDefault) + 1) / 2 // before and after the others
	return slices.DeleteFunc([][]fit.Pass{byDefault[:half], rest, byDefault[half:]},
		func(p []fit.Pass) bool { return len(p) == 0 })
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
	space.Single, space.Fresh, space.Broken = s.Single != "", s.fresh(key), s.broken(key)
	if s.startTakes(key) >= dear {
		space.Wide = 2 * fit.Wide
	}
	space.Smaller, space.Repetitions = s.smaller(key), s.Repetitions
	return group, space, err
}

// broken reports whether the last start of several passes broke off.
func (s *Sweep) broken(key fit.Key) (is bool) {
	for _, r := range s.runs(key) {
		if len(r.of.Passes) > 1 && r.kind == Measure {
			is = r.reach().died
		}
	}
	return is
}

// dear is how long a start takes from which on each measures more candidates.
const dear = time.Minute

// startTakes is what the first start of a subject took besides the calls of its passes.
func (s *Sweep) startTakes(key fit.Key) time.Duration {
	for _, r := range s.runs(key) {
		if r.Outcome != Measured || r.found == nil {
			continue
		}
		seconds := r.Seconds
		for i := range r.found.Samples {
			seconds -= assumedIteration * r.found.Samples[i].Micros / 1e6
		}
		return time.Duration(seconds * float64(time.Second))
	}
	return 0
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
	for _, b := range s.batches(key) {
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
