package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

// A Version is one of those that are compared.
type Version interface {
	Meaning() string // digest of what it means on this machine
	String() string  // its name for a message
}

// Versions changes the version in force on all ranks of the communicator.
type Versions interface {
	// Propose asks for a change to a version. The version in force withdraws what was proposed.
	Propose(Version)
	InForce() InForce
}

// InForce is the version that decides calls now.
type InForce struct {
	Version  Version
	From     uint64 // its first call
	Proposed bool   // Propose has brought it, no edit
	Wanted   string // the meaning of the latest edit
}

// Log is NCCL's logger.
type Log interface {
	Infof(format string, args ...any)
	Warnf(format string, args ...any)
}

// Config is what a comparison needs.
type Config struct {
	Key string // names the communicator in a Finding
	nccl.Comm

	Versions Versions
	Change   time.Duration // how long a change takes that nothing delays
	Other    Version       // what the policy is compared with; nil: only edits are compared
	Canary   bool          // compare each edit with the version before, and roll it back if it is surely slower

	Clock     *Clock
	NewStamps func() *[ClockStamps]Stamp // makes the clock's memory; nil where there is none
	Peers     *Peers
	Peer      *Peer // this communicator

	Log  Log
	Tell func(context.Context, Finding) // is told of what is known after each pair
}

// Run compares until ctx ends. It brings the sides into force by ordinary changes, so it can do no more than
// a user who edits the file.
func Run(ctx context.Context, config Config) {
	d := newComparison(config)
	defer d.Peers.setPace(d.Peer, pace{})
	for ctx.Err() == nil {
		d.tick(ctx, d.now())
		select {
		case <-ctx.Done():
		case <-time.After(d.pause()):
		}
	}
}

func newComparison(config Config) *comparison {
	return &comparison{Config: config, now: time.Now, lag: config.Change}
}

// comparison is the state of Run, on whose goroutine it is used.
type comparison struct {
	Config
	now func() time.Time

	sides  [2]Version
	trial  *trial // nil: none is under way
	canary bool   // side A is an edit and B what was in force before
	blocks blocks
	began  time.Time

	follower follower

	steps   steps
	kind    uint64   // of the steps of the trial's open pair
	history []period // what was in force, the latest last
	asked   Side
	askedAt time.Time
	lag     time.Duration // from the proposal of a side until it is in force
	told    Result
	gaveUp  bool // and said that there are no steps
}

// period is a version's time in force.
type period struct {
	Version
	from uint64 // its first call
}

// settled is how many steps after a change count for neither side. The job's other communicators change at
// about the same time, and the GPU still runs what the host launched before.
const settled = 2

const (
	learnPause = 50 * time.Millisecond
	idlePause  = time.Second
)

// pause is the time between two ticks.
func (d *comparison) pause() time.Duration {
	switch {
	case d.trial == nil:
		return idlePause
	case d.steps.period == 0:
		return learnPause
	}
	return min(d.blocks.length/40, idlePause)
}

// tick takes up what has happened.
func (d *comparison) tick(ctx context.Context, now time.Time) {
	stamps := d.Clock.read() // before what is in force: that is known before a call by it is stamped
	d.look(ctx)
	if d.trial == nil || d.follows(ctx, now) {
		return
	}
	for _, s := range stamps {
		if done, ok := d.steps.add(s); ok {
			d.judge(done)
		}
	}
	if d.steps.period == 0 {
		d.learn(now)
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
	f := d.Versions.InForce()
	v := f.Version
	var before Version // what was to stay in force
	changed := true
	if n := len(d.history); n > 0 {
		before = d.history[n-1].Version
		changed = before.Meaning() != v.Meaning()
	}
	if changed {
		if d.trial != nil && v.Meaning() == d.sides[d.asked].Meaning() {
			took := d.now().Sub(d.askedAt)
			d.lag = (3*d.lag + took) / 4
		}
		d.history = append(d.history, period{v, f.From})
		if len(d.history) > 4 {
			d.history = d.history[1:]
		}
	}
	switch {
	case d.trial != nil:
		before = d.sides[A] // not what happens to be tried
	case d.sides[A] != nil:
		before = d.sides[d.asked]
	}
	switch {
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
	d.Log.Infof("the comparison of %s with %s ends: an edit asks for the latter, which stays in force",
		d.sides[A], d.sides[B])
	d.asked = B
	d.Versions.Propose(d.sides[B])
	d.giveUp(ctx, Edited, B)
}

// follows ends the comparison if another communicator of the process has ended its own.
func (d *comparison) follows(ctx context.Context, now time.Time) bool {
	block := max(d.blocks.length, lengthFor(0, d.Change))
	side, ended := d.follower.ended(now, block, d.sides, d.Peers.others(d.Peer))
	if ended {
		d.Log.Infof("the comparison of %s with %s ends: another communicator of this process has ended its own; "+
			"%s stays in force", d.sides[A], d.sides[B], d.sides[side])
		d.ask(side, now)
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
func (d *comparison) begin(a, b Version, canary bool) {
	d.end()
	d.sides, d.canary, d.asked = [2]Version{a, b}, canary, A
	if a.Meaning() == b.Meaning() {
		d.Log.Warnf("nothing is compared: %s and %s mean the same", a, b)
		return
	}
	if !d.Clock.stampEvery(1, d.NewStamps) {
		d.Log.Warnf("nothing is compared: there is no memory for it")
		return
	}
	d.trial, d.steps, d.told, d.gaveUp = &trial{}, steps{}, Result{}, false
	d.blocks, d.began, d.follower = blocks{}, d.now(), follower{}
}

// end leaves the comparison under way.
func (d *comparison) end() {
	if d.trial == nil {
		return
	}
	d.trial = nil
	d.Clock.stampEvery(never, d.NewStamps)
	d.Peers.setPace(d.Peer, pace{})
}

// learn looks for the step in the calls.
func (d *comparison) learn(now time.Time) {
	d.Clock.stampEvery(1, d.NewStamps)
	switch found, gaveUp := d.steps.find(now); {
	case found:
		if d.steps.kind != d.kind { // an evaluation, for example: a pair has steps of one kind only
			d.kind = d.steps.kind
			d.trial.drop()
		}
		d.Clock.stampEvery(d.steps.period, d.NewStamps)
		d.Peers.setPace(d.Peer, pace{d.steps.took, d.Change})
	case gaveUp:
		d.ask(A, now)
		if d.gaveUp {
			return
		}
		d.gaveUp = true
		d.Log.Warnf("%s and %s are not compared yet: the calls of this communicator do not repeat, or never in about "+
			"the same time, so nothing tells a step", d.sides[A], d.sides[B])
	}
}

// divide begins the trial. It begins the trial again if the process has learned that steps take longer.
func (d *comparison) divide(ctx context.Context, now time.Time) {
	longest := d.Peers.longest()
	length := lengthFor(longest.step, longest.change)
	if length > 0 && length <= d.blocks.length { // longer blocks than needed serve as well
		return
	}
	a, b := d.sides[A], d.sides[B]
	if length == 0 {
		d.Log.Warnf("%s and %s are not compared: a step takes %v", a, b, longest.step.Round(time.Second))
		d.ask(A, now)
		d.giveUp(ctx, NoChange, A)
		return
	}
	*d.trial = trial{}
	d.blocks = blocks{length: length, seed: seedOf(a.Meaning(), b.Meaning())}
	d.told = Result{} // conclude tells of the new blocks
	d.Log.Infof("comparing %s with %s by turns, in blocks of %v; a step is %s, %v", a, b, length,
		plural.Of(int(d.steps.period), "call"), d.steps.took.Round(time.Millisecond))
}

// judge counts a step for the side that made it.
func (d *comparison) judge(s step) {
	if d.blocks.length == 0 {
		return
	}
	pair, planned := d.blocks.at(s.began)
	d.trial.past(pair)
	var in *period
	for i := range d.history {
		h := &d.history[i]
		switch {
		case h.from <= s.first:
			in = h
		case h.from < s.end:
			return // a change came in this step
		}
	}
	switch {
	case in == nil, in.Meaning() != d.sides[planned].Meaning():
	case in.from > 0 && s.first < in.from+settled*d.steps.period:
	default:
		d.trial.add(pair, planned, s.took)
	}
}

// steer proposes the side that is planned for the time at which the change will be in force.
func (d *comparison) steer(now time.Time) {
	_, side := d.blocks.at(now.Add(min(d.lag, d.blocks.length/2)))
	d.ask(side, now)
}

// ask proposes a side unless it was the last one.
func (d *comparison) ask(side Side, now time.Time) {
	if side == d.asked {
		return
	}
	d.asked, d.askedAt = side, now
	d.Versions.Propose(d.sides[side])
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
		if d.Canary && r.Slower() {
			stays = B
		}
		d.Versions.Propose(d.sides[stays])
		d.asked = stays
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
func (d *comparison) logEnd(c Finding, stays Side) {
	how, then := d.Log.Infof, fmt.Sprintf("%s stays in force", d.sides[stays])
	switch {
	case c.State == NoChange:
		how = d.Log.Warnf
	case stays == B:
		how, then = d.Log.Warnf,
			fmt.Sprintf("%s is in force again; an edit that changes what the file means is tried anew", d.sides[B])
	case c.Slower():
		how = d.Log.Warnf
	}
	how("%s against %s: %s (%s); %s", d.sides[A], d.sides[B], c.Verdict(), c.Effort(), then)
}
