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
	Budget  float64    // the share of step time that trying may cost
	Earlier []Evidence // of earlier jobs, the latest first

	// Choose says what to try where a step has so many of each call (agree.HashCall), and takes so long. left names
	// what is not tried.
	Choose func(calls map[uint64]int, step time.Duration) (factors []Factor, left []string)
	// With returns what was in force with an arm of each factor.
	With func(factors []Factor, arms []int) (Variant, error)
}

func (s *scheduler) startLearning(base Variant) {
	s.base, s.asked = base, base
	s.watchFor("learning", base)
}

// choose begins to try what the steps found last call.
func (s *scheduler) choose(ctx context.Context) {
	e := &s.Evidence
	e.Factors, e.LeftOut = s.Learn.Choose(s.steps.counts, s.steps.took)
	e.StepCalls, e.StepSeconds = s.steps.period, s.steps.took.Seconds()
	for _, reason := range e.LeftOut {
		s.Log.Infof("not tried: %s", reason)
	}
	e.Runs, s.saved = nil, 0
	inVain := e.Add(s.Learn.Earlier)
	if len(e.Runs) > 0 {
		e.BlockSeconds = s.Learn.Earlier[0].BlockSeconds
	}
	candidates := 0
	for _, f := range e.Factors {
		candidates += len(f.Arms)
	}
	s.doing = fmt.Sprintf("trying %s for %s", wording.Plural(candidates, "candidate"),
		wording.Plural(len(e.Factors), "call signature"))
	with := func(arms []int) (Variant, error) { return s.Learn.With(e.Factors, arms) }
	s.begin(newExperiment(e, seedOf(s.base.EffectDigest()), s.Learn.Budget, inVain), with, s.base)
	e.State = Trying
	if len(e.Factors) == 0 {
		s.endTrying(ctx, "there is nothing to try")
		return
	}
	s.save(ctx)
}

// judgeArms judges arms when a block has ended, and ends the experiment.
func (s *scheduler) judgeArms(ctx context.Context) {
	if s.experiment.due() {
		s.experiment.judge()
	}
	if why := s.experiment.over(); why != "" {
		s.endTrying(ctx, why)
	} else if s.Evidence.Blocks >= s.saved+min(max(1, s.saved/4), judgeEvery) {
		s.save(ctx)
	}
}

// endTrying ends the experiment, and begins to prove what it has found.
func (s *scheduler) endTrying(ctx context.Context, why string) {
	arms, kinds := s.Evidence.leaders(), ""
	found, err := s.with(arms)
	if err != nil || !slices.ContainsFunc(arms, func(k int) bool { return k > 0 }) || s.length == 0 {
		s.leave(s.base)
		s.finish(ctx, Nothing)
		if len(s.Evidence.Factors) == 0 {
			s.Log.Infof("learning ends: %s", why)
			return
		}
		s.Log.Infof("learned after %s: nothing makes steps surely shorter (%s)",
			wording.Plural(s.Evidence.Blocks, "block"), why)
		return
	}
	s.Evidence.State = Proving
	s.save(ctx)
	s.Log.Infof("learned after %s (%s): steps %+.1f %%, it seems; now comparing that with %s",
		wording.Plural(s.Evidence.Blocks, "block"), why, 100*(s.Evidence.factor(arms)-1), s.base)
	for _, f := range s.Evidence.Factors {
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
	s.Evidence.State = state
	s.save(ctx)
}

// save keeps what all blocks so far tell. What is tried is not judged by it.
func (s *scheduler) save(ctx context.Context) {
	e := &s.Evidence
	if e.At, s.saved = s.now(), e.Blocks; s.length > 0 {
		e.BlockSeconds = s.length.Seconds()
	}
	kept := *e
	kept.Factors = slices.Clone(e.Factors)
	for i, f := range e.Factors {
		kept.Factors[i].Arms = slices.Clone(f.Arms)
	}
	kept.Estimate()
	s.Save(ctx, kept)
}
