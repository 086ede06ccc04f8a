package trial

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// A Subject is what a job may learn about.
type Subject struct {
	Evidence            // its key, its machine, and how it began
	Budget   float64    // the share of step time that trying may cost
	Earlier  []Evidence // of earlier jobs, the latest first

	// Choose says what to try where a step has so many of each call (agree.HashCall). left names what is not tried.
	Choose func(calls map[uint64]int) (factors []Factor, left []string)
	// With returns what was in force with an arm of each factor.
	With func(factors []Factor, arms []int) (Variant, error)
	// Save keeps what is known by now.
	Save func(context.Context, Evidence)
}

// Learn tries what may make steps shorter, until ctx ends or nothing is left to try. What gains is compared with what
// was in force, and stays in force if steps are surely shorter. An edit ends it.
func Learn(ctx context.Context, config Config, s Subject) {
	l := &learner{machine: newMachine(config), Subject: s}
	l.run(ctx, l.tick, l.pause)
	l.stop(context.WithoutCancel(ctx))
}

// learner is the state of Learn. Its design: an experiment, then a comparison.
type learner struct {
	*machine
	Subject

	base       Variant // what was in force
	experiment *experiment
	main       uint64            // the kind of steps that it is about
	plans      map[int64]Variant // by block, of the latest blocks
	arms       map[string][]int  // of what was planned, by its meaning
	open       int64             // the latest block
	saved      int               // Blocks when it was saved last
	aside      time.Time         // since when steps are of another kind; zero: they are not
	proof      *comparison       // nil: not yet
	over       bool
}

func (l *learner) pause() time.Duration {
	if l.over {
		return idlePause
	}
	return l.machine.pause()
}

func (l *learner) tick(ctx context.Context, now time.Time) {
	switch {
	case l.over:
		return
	case l.proof != nil:
		l.proof.tick(ctx, now)
		if l.edited() {
			l.stop(ctx)
		} else if l.proof.trial == nil {
			l.concludeProof(ctx, now)
		}
		return
	}
	stamps := l.Clock.read() // before what is in force: that is known before a call by it is stamped
	f, _, _ := l.look()
	if l.base == nil {
		l.base, l.asked = f.Version, f.Version
		if !l.begin() {
			l.Log.Warnf("nothing is learned: there is no memory for it")
			l.over = true
			return
		}
	}
	if l.edited() {
		l.stop(ctx)
		return
	}
	l.take(stamps, l.judge)
	switch found, other, none := l.find(now); {
	case other && (l.experiment == nil || len(l.experiment.run.Blocks) < hurtJudged):
		l.choose(ctx)
	case found:
		l.experiment.drop() // a block has steps of one kind only
	case none:
		l.ask(l.base, now)
		l.warnOnce("nothing is learned yet: the calls of this communicator do not repeat, or never in about the same " +
			"time, so nothing tells a step")
	}
	if l.steps.period == 0 || l.over {
		return
	}
	if l.divide(ctx, now); !l.over {
		l.steer(ctx, now)
	}
}

// edited reports that an edit is in force.
func (l *learner) edited() bool {
	f := l.Versions.InForce()
	return !f.Proposed && l.base != nil && f.Version.Meaning() != l.base.Meaning()
}

// choose begins an experiment with what the steps found last call.
func (l *learner) choose(ctx context.Context) {
	l.main = l.kind
	factors, left := l.Choose(l.steps.counts)
	l.LeftOut = left
	l.StepCalls, l.StepSeconds = l.steps.period, l.steps.took.Seconds()
	for _, reason := range left {
		l.Log.Infof("not tried: %s", reason)
	}
	l.Factors, l.Runs, l.stuck = factors, nil, 0
	l.Add(l.Earlier)
	if len(l.Runs) > 0 && l.BlockSeconds == 0 {
		l.BlockSeconds = l.Earlier[0].BlockSeconds
	}
	l.experiment = newExperiment(&l.Evidence, seedOf(l.base.Meaning(), ""), l.Budget, l.gainedNothing())
	l.plans, l.arms = map[int64]Variant{}, map[string][]int{l.base.Meaning(): make([]int, len(factors))}
	l.State = Trying
	if len(factors) == 0 {
		l.conclude(ctx, l.now(), "there is nothing to try")
		return
	}
	l.save(ctx)
}

// gainedNothing reports that earlier jobs have tried all factors, and ended without a gain.
func (l *learner) gainedNothing() bool {
	return len(l.Factors) > 0 && !slices.ContainsFunc(l.Factors, func(f Factor) bool {
		return !slices.ContainsFunc(l.Earlier, func(e Evidence) bool {
			return e.State == Nothing && slices.ContainsFunc(e.Factors, f.same)
		})
	})
}

// divide finds how long blocks are.
func (l *learner) divide(ctx context.Context, now time.Time) {
	anew, tooLong := l.machine.divide(true)
	switch {
	case tooLong > 0:
		l.conclude(ctx, now, fmt.Sprintf("a step takes %v", tooLong.Round(time.Second)))
	case anew:
		l.BlockSeconds = l.blocks.length.Seconds()
		l.plans = map[int64]Variant{}
		candidates := 0
		for _, f := range l.Factors {
			candidates += len(f.Arms)
		}
		l.Log.Infof("trying %s for %s, in blocks of %v; a step is %s, %v", wording.Plural(candidates, "candidate"),
			wording.Plural(len(l.Factors), "call signature"), l.blocks.length,
			wording.Plural(int(l.steps.period), "call"), l.steps.took.Round(time.Millisecond))
	}
}

func (l *learner) blockOf(t time.Time) int64 { return t.UnixNano() / int64(l.blocks.length) }

// judge counts a step for the arms that made it.
func (l *learner) judge(s step) {
	if l.blocks.length == 0 || l.kind != l.main {
		return
	}
	v := l.maker(s)
	if v == nil {
		return
	}
	arms, known := l.arms[v.Meaning()]
	if !known {
		return
	}
	// Steps may have been found to be several of those that it is about, or a part of one.
	steps := float64(l.steps.period) / float64(l.StepCalls)
	l.experiment.add(arms, s.began, times(s.took, 1/steps), steps, l.blocks.length)
	if !l.experiment.hurt && l.experiment.surelyBad() {
		l.experiment.hurt = true
		if v, err := l.plan(l.leaders()); err == nil {
			l.plans[l.blockOf(l.now())] = v
		}
	}
}

// plan returns the version of arms, by which steps may be made from now on.
func (l *learner) plan(arms []int) (Variant, error) {
	v, err := l.With(l.Factors, arms)
	if err == nil {
		l.arms[v.Meaning()] = arms
	}
	return v, err
}

// steer proposes what is planned for the time at which the change will be in force.
func (l *learner) steer(ctx context.Context, now time.Time) {
	if l.kind != l.main {
		l.ask(l.base, now)
		if l.aside.IsZero() {
			l.aside = now
		} else if now.Sub(l.aside) > time.Duration(len(l.experiment.run.Blocks))*l.blocks.length {
			l.Log.Infof("the job makes steps of another kind for longer than it has learned: it learns about these")
			l.Estimate()
			l.save(ctx)
			l.choose(ctx)
		}
		return
	}
	l.aside = time.Time{}
	if l.neverChanges() {
		const why = "what is to be tried does not become active, as where all calls of a communicator are alike"
		l.LeftOut = append(l.LeftOut, why)
		l.conclude(ctx, now, why)
		return
	}
	block := l.blockOf(l.ahead(now))
	if block != l.open {
		l.open = block
		if l.experiment.due() {
			l.experiment.judge()
		}
		if why := l.experiment.over(); why != "" {
			l.conclude(ctx, now, why)
			return
		}
		if l.Blocks >= l.saved+min(max(1, l.saved/4), judgeEvery) {
			l.save(ctx)
		}
	}
	planned := l.plans[block]
	if planned == nil {
		var err error
		if planned, err = l.plan(l.experiment.draw(block)); err != nil {
			l.Log.Warnf("nothing is learned: %v", err)
			l.stop(ctx)
			return
		}
		l.plans[block] = planned
		maps.DeleteFunc(l.plans, func(of int64, _ Variant) bool { return of < block })
	}
	if !l.waits(now) {
		l.ask(planned, now)
	}
}

// conclude ends the experiment, and begins to prove what it has found.
func (l *learner) conclude(ctx context.Context, now time.Time, why string) {
	arms := l.leaders()
	found, err := l.With(l.Factors, arms)
	if err != nil || !slices.ContainsFunc(arms, func(k int) bool { return k > 0 }) || l.blocks.length == 0 {
		l.ask(l.base, now)
		l.finish(ctx, Nothing)
		if len(l.Factors) == 0 {
			l.Log.Infof("learning ends: %s", why)
			return
		}
		l.Log.Infof("learned after %s: nothing makes steps surely shorter (%s)", wording.Plural(l.Blocks, "block"), why)
		return
	}
	l.State = Proving
	l.save(ctx)
	l.Log.Infof("learned after %s (%s): steps %+.1f %%, it seems; now comparing that with %s",
		wording.Plural(l.Blocks, "block"), why, 100*(l.factor(arms)-1), l.base)
	kinds := "" // communicators that try the same compare at the same time, and others in another order
	for _, f := range l.Factors {
		kinds += fmt.Sprint(f.Coll, f.Range)
	}
	l.proof = &comparison{machine: l.machine, proves: true, seed: seedOf(kinds, "")}
	tell := l.Tell
	l.Tell = func(ctx context.Context, f Conclusion) {
		l.Result = &f
		l.save(ctx)
		tell(ctx, f)
	}
	asked := l.asked
	l.proof.begin(found, l.base, true)
	l.asked = asked // found is not in force yet
}

// concludeProof takes up what the comparison has found.
func (l *learner) concludeProof(ctx context.Context, now time.Time) {
	if l.Result != nil && l.Result.Faster() && l.Result.Stays == A.String() {
		for i, k := range l.leaders() {
			l.Factors[i].Arms[k].Proven = k > 0
		}
		l.finish(ctx, Learned)
		return
	}
	l.ask(l.base, now)
	l.finish(ctx, Nothing)
}

// stop ends it before it is done. What was in force is so again, unless that is an edit.
func (l *learner) stop(ctx context.Context) {
	if l.over || l.base == nil {
		return
	}
	if !l.edited() {
		l.ask(l.base, l.now())
	}
	l.Estimate()
	l.Log.Infof("learning has ended early: what was learned is kept")
	l.finish(ctx, Stopped)
}

func (l *learner) finish(ctx context.Context, state Learning) {
	l.over, l.State = true, state
	l.machine.end()
	l.save(ctx)
}

// save keeps what all blocks so far tell. What is tried is not judged by it.
func (l *learner) save(ctx context.Context) {
	l.At, l.saved = l.now(), l.Blocks
	e := l.Evidence
	e.Factors = slices.Clone(e.Factors)
	for i, f := range e.Factors {
		e.Factors[i].Arms = slices.Clone(f.Arms)
	}
	e.Estimate()
	l.Save(ctx, e)
}
