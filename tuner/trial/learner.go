package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// A Subject is what a job may learn about. What may make steps shorter is tried until nothing is left to try. Then what
// gains is compared with what was in force. It stays if steps are surely shorter. An edit ends it.
type Subject struct {
	Evidence Evidence   // its machine, and how it began
	Budget   float64    // the share of step time that trying may cost
	Earlier  []Evidence // of earlier jobs, the latest first

	// Choose says what to try where a step has so many of each call (agree.HashCall), and takes so long. left names
	// what is not tried.
	Choose func(calls map[uint64]int, step time.Duration) (factors []Factor, left []string)
	// With returns what was in force with an arm of each factor.
	With func(factors []Factor, arms []int) (Variant, error)
	// Save keeps what is known by now.
	Save func(context.Context, Evidence)
}

func (s *scheduler) startLearning(base Variant) {
	s.base, s.asked, s.all, s.doing = base, base, &s.Learn.Evidence, "learning"
	if !s.watch(base) {
		s.Log.Warnf("nothing is learned: there is no memory for it")
	}
}

// choose begins to try what the steps found last call.
func (s *scheduler) choose(ctx context.Context) {
	e := s.all
	e.Factors, e.LeftOut = s.Learn.Choose(s.steps.counts, s.steps.took)
	e.StepCalls, e.StepSeconds = s.steps.period, s.steps.took.Seconds()
	for _, reason := range e.LeftOut {
		s.Log.Infof("not tried: %s", reason)
	}
	e.Runs, s.saved = nil, 0
	if e.Add(s.Learn.Earlier); len(e.Runs) > 0 {
		e.BlockSeconds = s.Learn.Earlier[0].BlockSeconds
	}
	candidates := 0
	for _, f := range e.Factors {
		candidates += len(f.Arms)
	}
	s.doing = fmt.Sprintf("trying %s for %s", wording.Plural(candidates, "candidate"),
		wording.Plural(len(e.Factors), "call signature"))
	with := func(arms []int) (Variant, error) { return s.Learn.With(e.Factors, arms) }
	s.begin(newExperiment(e, seedOf(s.base.EffectDigest()), s.Learn.Budget, s.gainedNothing()), with, s.base)
	e.State = Trying
	if len(e.Factors) == 0 {
		s.endTrying(ctx, "there is nothing to try")
		return
	}
	s.save(ctx)
}

// gainedNothing reports that earlier jobs have tried all factors, and ended without a gain.
func (s *scheduler) gainedNothing() bool {
	return len(s.all.Factors) > 0 && !slices.ContainsFunc(s.all.Factors, func(f Factor) bool {
		return !slices.ContainsFunc(s.Learn.Earlier, func(e Evidence) bool {
			return e.State == Nothing && slices.ContainsFunc(e.Factors, f.same)
		})
	})
}

// judgeArms judges arms when a block has ended, and ends the experiment.
func (s *scheduler) judgeArms(ctx context.Context) {
	if s.experiment.due() {
		s.experiment.judge()
	}
	if why := s.experiment.over(); why != "" {
		s.endTrying(ctx, why)
	} else if s.all.Blocks >= s.saved+min(max(1, s.saved/4), judgeEvery) {
		s.save(ctx)
	}
}

// endTrying ends the experiment, and begins to prove what it has found.
func (s *scheduler) endTrying(ctx context.Context, why string) {
	arms, kinds := s.all.leaders(), ""
	found, err := s.with(arms)
	if err != nil || !slices.ContainsFunc(arms, func(k int) bool { return k > 0 }) || s.length == 0 {
		s.leave(s.base)
		s.finish(ctx, Nothing)
		if len(s.all.Factors) == 0 {
			s.Log.Infof("learning ends: %s", why)
			return
		}
		s.Log.Infof("learned after %s: nothing makes steps surely shorter (%s)",
			wording.Plural(s.all.Blocks, "block"), why)
		return
	}
	s.all.State = Proving
	s.save(ctx)
	s.Log.Infof("learned after %s (%s): steps %+.1f %%, it seems; now comparing that with %s",
		wording.Plural(s.all.Blocks, "block"), why, 100*(s.all.factor(arms)-1), s.base)
	for _, f := range s.all.Factors {
		kinds += fmt.Sprint(f.Coll, f.Range)
	}
	s.tried = s.experiment
	s.setSides(found, s.base, true)
	s.beginTurns(seedOf(kinds)) // communicators that try the same compare at the same time, and others in another order
}

// stopLearning ends it before it is done. What was in force is so again, unless that is an edit.
func (s *scheduler) stopLearning(ctx context.Context) {
	if s.Learn == nil || !s.watching {
		return
	}
	stays := s.base
	if f := s.Versions.InForce(); !f.Proposed && f.Version.EffectDigest() != s.base.EffectDigest() {
		stays = nil
	}
	s.leave(stays)
	s.Log.Infof("learning has ended early: what was learned is kept")
	s.finish(ctx, Stopped)
}

func (s *scheduler) finish(ctx context.Context, state Learning) {
	s.all.State = state
	s.save(ctx)
}

// save keeps what all blocks so far tell. What is tried is not judged by it.
func (s *scheduler) save(ctx context.Context) {
	if s.Learn == nil {
		return
	}
	if s.all.At, s.saved = s.now(), s.all.Blocks; s.length > 0 {
		s.all.BlockSeconds = s.length.Seconds()
	}
	e := *s.all
	e.Factors = slices.Clone(e.Factors)
	for i, f := range e.Factors {
		e.Factors[i].Arms = slices.Clone(f.Arms)
	}
	e.Estimate()
	s.Learn.Save(ctx, e)
}
