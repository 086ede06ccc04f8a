package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Compare compares until ctx ends. It brings the sides into force by ordinary changes, so it can do no more than
// a user who edits the file.
func Compare(ctx context.Context, config Config) {
	d := newComparison(config)
	d.run(ctx, d.tick, d.pause)
}

func newComparison(config Config) *comparison { return &comparison{machine: newMachine(config)} }

// comparison is the state of Compare, on whose goroutine it is used. Its design: two sides by turns.
type comparison struct {
	*machine

	sides  [2]Variant
	trial  *trial // nil: none is under way
	canary bool   // side A is an edit and B what was in force before
	proves bool   // side A is what an experiment has found: only if it is surely faster it stays
	seed   uint64 // of the order of sides; 0: from the versions
	began  time.Time

	follower follower
	told     Result
}

func (d *comparison) pause() time.Duration {
	if d.trial == nil {
		return idlePause
	}
	return d.machine.pause()
}

// tick takes up what has happened.
func (d *comparison) tick(ctx context.Context, now time.Time) {
	stamps := d.Clock.read() // before what is in force: that is known before a call by it is stamped
	d.look(ctx)
	if d.trial == nil || d.follows(ctx, now) {
		return
	}
	d.take(stamps, d.judge)
	switch found, _, none := d.find(now); {
	case found: // an evaluation, for example: a pair has steps of one kind only
		d.trial.drop()
	case none:
		d.ask(d.sides[A], now)
		d.warnOnce("%s and %s are not compared yet: the calls of this communicator do not repeat, or never in about "+
			"the same time, so nothing tells a step", d.sides[A], d.sides[B])
	}
	if d.steps.period == 0 {
		return
	}
	if d.divide(ctx, now); d.trial == nil {
		return
	}
	d.steer(now)
	d.conclude(ctx)
}

// look notes what is in force. An edit begins a comparison. An edit that means side B ends it, because a user
// who returns to the earlier version wants it to stay.
func (d *comparison) look(ctx context.Context) {
	f, before, changed := d.machine.look()
	v := f.Version
	switch { // what was to stay in force
	case d.trial != nil:
		before = d.sides[A] // not what happens to be tried
	case d.sides[A] != nil:
		before = d.asked
	}
	switch {
	case d.proves: // an edit ends it all
	case d.trial != nil && f.Wanted == d.sides[B].Meaning():
		d.goBack(ctx)
	case before != nil && v.Meaning() == before.Meaning():
	case f.Proposed && d.trial == nil:
		d.Versions.Propose(before) // an edit that was given up had kept it out
	case f.Proposed || !changed:
	case before != nil && d.Canary:
		d.begin(v, before, true)
	case d.Other != nil:
		d.begin(v, d.Other, false)
	}
}

// goBack ends the comparison because an edit means side B.
func (d *comparison) goBack(ctx context.Context) {
	d.Log.Infof("the comparison of %s with %s ends: an edit asks for the latter, which stays active",
		d.sides[A], d.sides[B])
	d.asked = d.sides[B]
	d.Versions.Propose(d.sides[B])
	d.giveUp(ctx, Edited, B)
}

// follows ends the comparison if another communicator of the process has ended its own.
func (d *comparison) follows(ctx context.Context, now time.Time) bool {
	block := max(d.blocks.length, lengthFor(0, d.Change))
	side, ended := d.follower.ended(now, block, d.sides, d.Peers.others(d.Peer))
	if ended {
		d.Log.Infof("the comparison of %s with %s ends: another communicator of this process has ended its own; "+
			"%s stays active", d.sides[A], d.sides[B], d.sides[side])
		d.ask(d.sides[side], now)
		d.giveUp(ctx, Followed, side)
	}
	return ended
}

// giveUp ends the comparison for a reason that the trial does not know.
func (d *comparison) giveUp(ctx context.Context, why State, stays Side) {
	if d.blocks.length > 0 {
		r := d.trial.result()
		r.State = why
		d.Tell(ctx, d.found(r, stays))
	}
	d.end()
}

// begin begins to compare a, which is in force, with b.
func (d *comparison) begin(a, b Variant, canary bool) {
	d.end()
	d.sides, d.canary, d.asked = [2]Variant{a, b}, canary, a
	if a.Meaning() == b.Meaning() {
		d.Log.Warnf("nothing is compared: %s and %s mean the same", a, b)
		return
	}
	if !d.machine.begin() {
		d.Log.Warnf("nothing is compared: there is no memory for it")
		return
	}
	d.trial, d.told, d.began, d.follower = &trial{}, Result{}, d.now(), follower{}
}

// end leaves the comparison under way.
func (d *comparison) end() {
	if d.trial != nil {
		d.trial = nil
		d.machine.end()
	}
}

// divide begins the trial. It begins the trial again if the process has learned that steps take longer.
func (d *comparison) divide(ctx context.Context, now time.Time) {
	anew, tooLong := d.machine.divide(false)
	a, b := d.sides[A], d.sides[B]
	if tooLong > 0 {
		d.Log.Warnf("%s and %s are not compared: a step takes %v", a, b, tooLong.Round(time.Second))
		d.ask(a, now)
		d.giveUp(ctx, NoChange, A)
	}
	if !anew {
		return
	}
	*d.trial = trial{}
	if d.blocks.seed = d.seed; d.seed == 0 {
		d.blocks.seed = seedOf(a.Meaning(), b.Meaning())
	}
	d.told = Result{} // conclude tells of the new blocks
	d.Log.Infof("comparing %s with %s by turns, in blocks of %v; a step is %s, %v", a, b, d.blocks.length,
		wording.Plural(int(d.steps.period), "call"), d.steps.took.Round(time.Millisecond))
}

// judge counts a step for the side that made it.
func (d *comparison) judge(s step) {
	if d.blocks.length == 0 {
		return
	}
	pair, planned := d.blocks.at(s.began)
	d.trial.past(pair)
	if v := d.maker(s); v != nil && v.Meaning() == d.sides[planned].Meaning() {
		d.trial.add(pair, planned, s.took)
	}
}

// steer proposes the side that is planned for the time at which the change will be in force.
func (d *comparison) steer(now time.Time) {
	if _, side := d.blocks.at(d.ahead(now)); !d.waits(now) {
		d.ask(d.sides[side], now)
	}
}

// conclude tells what is known after each pair, and ends the trial.
func (d *comparison) conclude(ctx context.Context) {
	r := d.trial.result()
	if r == d.told {
		return
	}
	d.told = r
	stays := A
	if r.State != Running {
		if d.Canary && r.Slower() || d.proves && !r.Faster() {
			stays = B
		}
		d.Versions.Propose(d.sides[stays])
		d.asked = d.sides[stays]
	}
	found := d.found(r, stays)
	if r.State != Running {
		d.logEnd(found, stays)
	}
	d.Tell(ctx, found)
	if r.State != Running {
		d.end()
	}
}

// logEnd says what was found.
func (d *comparison) logEnd(c Conclusion, stays Side) {
	how, then := d.Log.Infof, fmt.Sprintf("%s stays active", d.sides[stays])
	switch {
	case c.State == NoChange:
		how = d.Log.Warnf
	case d.proves && stays == B:
		then = fmt.Sprintf("%s is active again", d.sides[B])
	case stays == B:
		how, then = d.Log.Warnf,
			fmt.Sprintf("%s is active again; an edit that changes what the file means is tried anew", d.sides[B])
	case c.Slower():
		how = d.Log.Warnf
	}
	how("%s against %s: %s (%s); %s", d.sides[A], d.sides[B], c.Verdict(), c.Effort(), then)
}
