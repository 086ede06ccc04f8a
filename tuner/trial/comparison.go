package trial

import (
	"context"
	"fmt"
	"hash/fnv"
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

// comparison is the state of Compare, on whose goroutine it is used.
type comparison struct {
	*machine

	sides   [2]Variant
	running bool   // one is under way
	canary  bool   // side A is an edit and B what was in force before
	proves  bool   // side A is what an experiment has found: only if it is surely faster it stays
	seed    uint64 // of the order of sides; 0: from the versions
	start   time.Time

	follower follower
	told     int // pairs when it was told last
}

func (d *comparison) pause() time.Duration {
	if !d.running {
		return idlePause
	}
	return d.machine.pause()
}

// tick takes up what has happened.
func (d *comparison) tick(ctx context.Context, now time.Time) {
	stamps := d.Clock.read() // before what is in force: that is known before a call by it is stamped
	d.look(ctx)
	if !d.running || d.follows(ctx, now) {
		return
	}
	known := d.observe(stamps, now, func(other bool) {
		if other { // an evaluation, for example: a run has steps of one kind only
			d.experiment.newRun(now)
			d.refer()
		}
	})
	if !known {
		return
	}
	anew, tooLong := d.divide(false)
	switch {
	case tooLong > 0:
		d.Log.Warnf("%s and %s are not compared: a step takes %v", d.sides[A], d.sides[B], tooLong.Round(time.Second))
		d.end(ctx, NoChange, A)
		return
	case anew:
		d.experiment.drop()
		d.told = -1
		d.Log.Infof("comparing %s with %s by turns, in blocks of %v; a step is %s, %v", d.sides[A], d.sides[B],
			d.length, wording.Plural(int(d.steps.period), "call"), d.steps.took.Round(time.Millisecond))
	}
	_ = d.steer(now) // both versions are there
	d.conclude(ctx)
}

// look notes what is in force. An edit begins a comparison. An edit that means side B ends it, because a user
// who returns to the earlier version wants it to stay.
func (d *comparison) look(ctx context.Context) {
	f, before, changed := d.machine.look()
	v := f.Version
	switch { // what was to stay in force
	case d.running:
		before = d.sides[A] // not what happens to be tried
	case d.sides[A] != nil:
		before = d.asked
	}
	switch {
	case d.proves: // an edit ends it all
	case d.running && f.Wanted == d.sides[B].Meaning():
		d.Log.Infof("the comparison of %s with %s ends: an edit asks for the latter, which stays active",
			d.sides[A], d.sides[B])
		d.end(ctx, Edited, B)
	case before != nil && v.Meaning() == before.Meaning():
	case f.Proposed && !d.running:
		d.Versions.Propose(before) // an edit that was given up had kept it out
	case f.Proposed || !changed:
	case before != nil && d.Canary:
		d.begin(v, before, true)
	case d.Other != nil:
		d.begin(v, d.Other, false)
	}
}

// follows ends the comparison if another communicator of the process has ended its own.
func (d *comparison) follows(ctx context.Context, now time.Time) bool {
	block := max(d.length, lengthFor(0, d.Change))
	side, ended := d.follower.ended(now, block, d.sides, d.Peers.others(d.Peer))
	if ended {
		d.Log.Infof("the comparison of %s with %s ends: another communicator of this process has ended its own; "+
			"%s stays active", d.sides[A], d.sides[B], d.sides[side])
		d.end(ctx, Followed, side)
	}
	return ended
}

// begin begins to compare a, which is in force, with b.
func (d *comparison) begin(a, b Variant, canary bool) {
	d.sides, d.canary, d.running = [2]Variant{a, b}, canary, false
	d.machine.end()
	switch {
	case a.Meaning() == b.Meaning():
		d.Log.Warnf("nothing is compared: %s and %s mean the same", a, b)
		return
	case !d.stamp():
		d.Log.Warnf("nothing is compared: there is no memory for it")
		return
	}
	d.running, d.told, d.start, d.follower = true, -1, d.now(), follower{}
	if !d.proves { // else a is not in force yet
		d.asked = a
	}
	d.rest, d.doing = a, fmt.Sprintf("%s and %s are not compared", a, b)
	x := &experiment{Evidence: &Evidence{Factors: []Factor{{Arms: make([]Arm, 2)}}}, seed: d.seed, turns: true}
	if x.seed == 0 {
		x.seed = seedOf(a.Meaning(), b.Meaning())
	}
	x.newRun(d.start)
	d.machine.begin(x, func(arms []int) (Variant, error) { return d.sides[1-arms[0]], nil }, b)
}

// seedOf is the seed of an experiment that names tell from others.
func seedOf(names ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, names)
	return h.Sum64()
}

// end ends the comparison, and lets one side stay.
func (d *comparison) end(ctx context.Context, why State, stays Side) {
	d.Versions.Propose(d.sides[stays])
	d.asked, d.askedAt, d.running = d.sides[stays], d.now(), false
	if d.length > 0 {
		r := d.experiment.result()
		r.State = why
		d.Tell(ctx, d.found(r, stays))
	}
	d.machine.end()
}

// conclude tells what is known after each pair, and ends the comparison.
func (d *comparison) conclude(ctx context.Context) {
	never := d.neverChanges()
	if d.experiment.pairs() == d.told && !never {
		return
	}
	r := d.experiment.result()
	d.told = r.Pairs
	if never && r.State == Running {
		r.State = NoChange
	}
	if r.State == Running {
		d.Tell(ctx, d.found(r, A))
		return
	}
	stays := A
	if d.Canary && r.Slower() || d.proves && !r.Faster() {
		stays = B
	}
	d.logEnd(d.found(r, stays), stays)
	d.end(ctx, r.State, stays)
}

// found is what is known by now.
func (d *comparison) found(r Result, stays Side) Conclusion {
	side := func(s Side) Compared { return Compared{d.sides[s].String(), d.sides[s].Meaning()} }
	return Conclusion{
		Key: d.Key, Comm: d.Comm,
		A: side(A), B: side(B), Canary: d.canary, Stays: stays.String(), Began: d.start, At: d.now(),
		StepCalls: d.reference, StepSeconds: d.steps.took.Seconds(), BlockSeconds: d.length.Seconds(),
		Result: r,
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
