package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// A Subject is what a job may learn about.
type Subject struct {
	Evidence Evidence   // its machine, and how it began
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
	l := newLearner(newMachine(config), s)
	l.run(ctx, l.tick, l.pause)
	l.stop(context.WithoutCancel(ctx))
}

func newLearner(m *machine, s Subject) *learner {
	return &learner{machine: m, subject: s, all: &s.Evidence}
}

// learner is the state of Learn: first it tries many arms, then it compares what seems to gain with what was in force.
type learner struct {
	*machine
	subject Subject

	base  Variant     // what was in force
	all   *Evidence   // of all that was tried
	block int64       // the latest block
	saved int         // blocks when it was saved last
	aside time.Time   // since when steps are of another kind; zero: they are not
	proof *comparison // nil: not yet
	tried *experiment // before the proof
	over  bool
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
		if proved := l.experiment.run; proved.Made != nil { // by NCCL's choice, and by what was found
			l.tried.made(make([]int, len(l.all.Factors)), proved.Made[0][0])
			l.tried.made(l.all.leaders(), proved.Made[0][1])
			proved.Made = nil
		}
		if l.edited() {
			l.stop(ctx)
		} else if !l.proof.running {
			l.concludeProof(ctx, now)
		}
		return
	}
	stamps := l.Clock.read() // before what is in force: that is known before a call by it is stamped
	f, _, _ := l.look()
	if l.base == nil {
		l.base, l.rest, l.asked, l.doing = f.Version, f.Version, f.Version, "nothing is learned"
		if !l.stamp() {
			l.Log.Warnf("nothing is learned: there is no memory for it")
			l.over = true
			return
		}
	}
	if l.edited() {
		l.stop(ctx)
		return
	}
	known := l.observe(stamps, now, func(other bool) {
		if other && (l.experiment == nil || len(l.experiment.run.Blocks) < hurtJudged) {
			l.choose(ctx)
		} else {
			l.experiment.drop() // a block has steps of one kind only
		}
	})
	if !known || l.over {
		return
	}
	anew, tooLong := l.divide(true)
	switch {
	case tooLong > 0:
		l.conclude(ctx, now, fmt.Sprintf("a step takes %v", tooLong.Round(time.Second)))
		return
	case anew:
		l.all.BlockSeconds = l.length.Seconds()
		candidates := 0
		for _, f := range l.all.Factors {
			candidates += len(f.Arms)
		}
		l.Log.Infof("trying %s for %s, in blocks of %v; a step is %s, %v", wording.Plural(candidates, "candidate"),
			wording.Plural(len(l.all.Factors), "call signature"), l.length,
			wording.Plural(int(l.steps.period), "call"), l.steps.took.Round(time.Millisecond))
	}
	switch {
	case l.kind != l.only:
		l.stepAside(ctx, now)
		return
	case l.neverChanges():
		const why = "what is to be tried does not become active, as where all calls of a communicator are alike"
		l.all.LeftOut = append(l.all.LeftOut, why)
		l.conclude(ctx, now, why)
		return
	}
	l.aside = time.Time{}
	if l.turn(ctx, now); l.over || l.proof != nil {
		return
	}
	if err := l.steer(now); err != nil {
		l.Log.Warnf("nothing is learned: %v", err)
		l.stop(ctx)
	}
}

// edited reports that an edit is in force.
func (l *learner) edited() bool {
	f := l.Versions.InForce()
	return !f.Proposed && l.base != nil && f.Version.Meaning() != l.base.Meaning()
}

// choose begins an experiment with what the steps found last call.
func (l *learner) choose(ctx context.Context) {
	e := l.all
	l.only = l.kind
	l.refer()
	e.Factors, e.LeftOut = l.subject.Choose(l.steps.counts)
	e.StepCalls, e.StepSeconds = l.steps.period, l.steps.took.Seconds()
	for _, reason := range e.LeftOut {
		l.Log.Infof("not tried: %s", reason)
	}
	e.Runs, l.saved = nil, 0
	e.Add(l.subject.Earlier)
	if len(e.Runs) > 0 && e.BlockSeconds == 0 {
		e.BlockSeconds = l.subject.Earlier[0].BlockSeconds
	}
	with := func(arms []int) (Variant, error) { return l.subject.With(e.Factors, arms) }
	l.begin(newExperiment(e, seedOf(l.base.Meaning()), l.subject.Budget, l.gainedNothing()), with, l.base)
	e.State = Trying
	if len(e.Factors) == 0 {
		l.conclude(ctx, l.now(), "there is nothing to try")
		return
	}
	l.save(ctx)
}

// gainedNothing reports that earlier jobs have tried all factors, and ended without a gain.
func (l *learner) gainedNothing() bool {
	return len(l.all.Factors) > 0 && !slices.ContainsFunc(l.all.Factors, func(f Factor) bool {
		return !slices.ContainsFunc(l.subject.Earlier, func(e Evidence) bool {
			return e.State == Nothing && slices.ContainsFunc(e.Factors, f.same)
		})
	})
}

// stepAside waits while steps are of another kind, unless that lasts.
func (l *learner) stepAside(ctx context.Context, now time.Time) {
	l.ask(l.base, now)
	if l.aside.IsZero() {
		l.aside = now
	} else if now.Sub(l.aside) > time.Duration(len(l.experiment.run.Blocks))*l.length {
		l.Log.Infof("the job makes steps of another kind for longer than it has learned: it learns about these")
		l.save(ctx)
		l.choose(ctx)
	}
}

// turn judges arms when a block begins, and ends the experiment.
func (l *learner) turn(ctx context.Context, now time.Time) {
	block := l.next(now)
	if block == l.block {
		return
	}
	l.block = block
	if l.experiment.due() {
		l.experiment.judge()
	}
	if why := l.experiment.over(); why != "" {
		l.conclude(ctx, now, why)
	} else if l.all.Blocks >= l.saved+min(max(1, l.saved/4), judgeEvery) {
		l.save(ctx)
	}
}

// conclude ends the experiment, and begins to prove what it has found.
func (l *learner) conclude(ctx context.Context, now time.Time, why string) {
	arms := l.all.leaders()
	found, err := l.with(arms)
	if err != nil || !slices.ContainsFunc(arms, func(k int) bool { return k > 0 }) || l.length == 0 {
		l.ask(l.base, now)
		l.finish(ctx, Nothing)
		if len(l.all.Factors) == 0 {
			l.Log.Infof("learning ends: %s", why)
			return
		}
		l.Log.Infof("learned after %s: nothing makes steps surely shorter (%s)",
			wording.Plural(l.all.Blocks, "block"), why)
		return
	}
	l.all.State = Proving
	l.save(ctx)
	l.Log.Infof("learned after %s (%s): steps %+.1f %%, it seems; now comparing that with %s",
		wording.Plural(l.all.Blocks, "block"), why, 100*(l.all.factor(arms)-1), l.base)
	kinds := "" // communicators that try the same compare at the same time, and others in another order
	for _, f := range l.all.Factors {
		kinds += fmt.Sprint(f.Coll, f.Range)
	}
	l.tried = l.experiment
	l.proof = &comparison{machine: l.machine, proves: true, seed: seedOf(kinds)}
	tell := l.Tell
	l.Tell = func(ctx context.Context, f Conclusion) {
		l.all.Result = &f
		l.save(ctx)
		tell(ctx, f)
	}
	l.proof.begin(found, l.base, true)
}

// concludeProof takes up what the comparison has found.
func (l *learner) concludeProof(ctx context.Context, now time.Time) {
	if r := l.all.Result; r != nil && r.Faster() && r.Stays == A.String() {
		for i, k := range l.all.leaders() {
			l.all.Factors[i].Arms[k].Proven = k > 0
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
	l.Log.Infof("learning has ended early: what was learned is kept")
	l.finish(ctx, Stopped)
}

func (l *learner) finish(ctx context.Context, state Learning) {
	l.over, l.all.State = true, state
	l.end()
	l.save(ctx)
}

// save keeps what all blocks so far tell. What is tried is not judged by it.
func (l *learner) save(ctx context.Context) {
	l.all.At, l.saved = l.now(), l.all.Blocks
	e := *l.all
	e.Factors = slices.Clone(e.Factors)
	for i, f := range e.Factors {
		e.Factors[i].Arms = slices.Clone(f.Arms)
	}
	e.Estimate()
	l.subject.Save(ctx, e)
}
