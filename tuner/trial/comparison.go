package trial

import (
	"context"
	"fmt"
	"math"
	"time"
)

// edits begins a comparison with an edit, and ends it with one that means side B: a user who returns to the earlier
// version wants it to stay. Any edit ends learning.
func (s *scheduler) edits(ctx context.Context, f InForce, before Variant, changed bool) {
	v := f.Version
	if s.Learn != nil {
		switch {
		case s.base == nil:
			s.startLearning(v)
		case s.watching && !f.Proposed && v.EffectDigest() != s.base.EffectDigest():
			s.stopLearning(ctx)
		}
		return
	}
	switch { // what was to stay in force
	case s.watching:
		before = s.sides[A] // not what happens to be tried
	case s.sides[A] != nil:
		before = s.asked
	}
	switch {
	case s.watching && f.LatestEdit == s.sides[B].EffectDigest():
		s.Log.Infof("the comparison of %s with %s ends: an edit asks for the latter, which stays active",
			s.sides[A], s.sides[B])
		s.endTurns(ctx, Edited, B)
	case before != nil && v.EffectDigest() == before.EffectDigest():
	case f.Proposed && !s.watching:
		s.Versions.Propose(before) // an edit that was given up had kept it out
	case f.Proposed || !changed:
	case before != nil && s.Canary:
		s.compare(v, before, true)
	case s.Other != nil:
		s.compare(v, s.Other, false)
	}
}

// compare begins to compare a, which is in force, with b.
func (s *scheduler) compare(a, b Variant, canary bool) {
	s.leave(nil)
	s.setSides(a, b, canary)
	if a.EffectDigest() == b.EffectDigest() {
		s.Log.Warnf("nothing is compared: %s and %s mean the same", a, b)
		return
	}
	s.watchFor(s.doing, a)
	s.asked = a
}

func (s *scheduler) setSides(a, b Variant, canary bool) {
	s.sides, s.canary, s.follower = [2]Variant{a, b}, canary, follower{}
	s.doing = fmt.Sprintf("comparing %s with %s by turns", a, b)
}

// beginTurns begins the experiment in which the sides take turns.
func (s *scheduler) beginTurns(seed uint64) {
	s.began = s.now()
	s.begin(newTurns(seed, s.began), func(arms []int) (Variant, error) { return s.sides[1-arms[0]], nil }, s.sides[B])
}

// follows ends the comparison if another communicator of the process has ended its own.
func (s *scheduler) follows(ctx context.Context, now time.Time) bool {
	if s.sides[A] == nil {
		return false
	}
	side, ended := s.follower.ended(now, max(s.length, lengthFor(pace{change: s.Change})), s.sides, s.Peers, s.Peer)
	if ended {
		s.Log.Infof("the comparison of %s with %s ends: another communicator of this process has ended its own; "+
			"%s stays active", s.sides[A], s.sides[B], s.sides[side])
		s.endTurns(ctx, Followed, side)
	}
	return ended
}

// judgeTurns tells what is known after a pair of blocks, and ends the comparison where that is enough.
func (s *scheduler) judgeTurns(ctx context.Context) {
	if r := s.experiment.result(); r.State != Running {
		s.endTurns(ctx, r.State, A)
	} else {
		s.tell(ctx, r, A)
	}
}

// endTurns ends the comparison. The side stays, unless what it found says that A must not.
func (s *scheduler) endTurns(ctx context.Context, why State, stays Side) {
	var r Result
	proves, known := s.tried != nil, s.length > 0
	if known {
		r = s.experiment.result()
		r.State = why
		if why != Followed && (s.Canary && r.Slower() || proves && !r.Faster()) {
			stays = B
		}
	}
	if s.leave(s.sides[stays]); known {
		s.tell(ctx, r, stays)
		if why != Edited && why != Followed {
			s.logEnd(stays)
		}
	}
	switch {
	case !proves:
	case r.Faster() && stays == A:
		for i, k := range s.Evidence.leaders() {
			s.Evidence.Factors[i].Arms[k].Proven = k > 0
		}
		s.finish(ctx, Learned)
	default:
		s.leave(s.base)
		s.finish(ctx, Nothing)
	}
}

// pairs is how many blocks of a comparison each side has.
func (e *experiment) pairs() int {
	return min(e.Factors[0].Arms[0].Blocks, e.Factors[0].Arms[1].Blocks)
}

// result is what the blocks of a comparison tell: those of arm 1 are by side A.
func (e *experiment) result() Result {
	e.Estimate()
	r := Result{State: Running, Pairs: e.pairs(), Steps: e.Steps}
	if r.Pairs == 0 {
		return r
	}
	c := e.difference(0, 1, 0)
	half := Surely * c.err
	r.Mean, r.Low, r.High = c.by, c.by-half, c.by+half
	switch {
	case r.Pairs >= minPairs && half <= precise:
		r.State = Precise
	case r.Pairs >= surePairs && math.Abs(c.by) > max(clearly*c.err, large) && c.least*c.most > 0:
		r.State = Clear
	case r.Pairs >= maxPairs:
		r.State = Budget
	}
	return r
}

// tell tells what is known by now.
func (s *scheduler) tell(ctx context.Context, r Result, stays Side) {
	side := func(of Side) Compared { return Compared{s.sides[of].String(), s.sides[of].EffectDigest()} }
	s.Evidence.Result = &Conclusion{
		Key: s.Evidence.Key, Comm: s.Evidence.Comm,
		A: side(A), B: side(B), Canary: s.canary, Stays: stays.String(), Began: s.began, At: s.now(),
		StepCalls: s.reference, StepSeconds: s.steps.took.Seconds(), BlockSeconds: s.length.Seconds(),
		Result: r,
	}
	s.save(ctx)
}

// logEnd says what was found.
func (s *scheduler) logEnd(stays Side) {
	c, how, then := s.Evidence.Result, s.Log.Infof, fmt.Sprintf("%s stays active", s.sides[stays])
	if stays == B {
		then = fmt.Sprintf("%s is active again", s.sides[B])
		if s.tried == nil {
			then += "; an edit that changes what the file means is tried anew"
		}
	}
	if c.State == NoChange || c.Slower() && s.tried == nil {
		how = s.Log.Warnf
	}
	how("%s against %s: %s (%s); %s", s.sides[A], s.sides[B], c.Verdict(), c.Effort(), then)
}
