package tuner

import (
	"context"
	"fmt"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/trial"
)

// comparison finds out whether a version of the policy makes the job's steps shorter, on the
// communicator's first slot: NCCL_TUNER_COMPARE and NCCL_TUNER_CANARY. It brings the sides into
// force by ordinary changes, so it can do no more than somebody who edits the file, and
// measures the time of steps by a Clock.
//
// A comparison runs on one goroutine.
type comparison struct {
	comm   *Comm
	log    Log
	member versions
	clock  *Clock
	now    func() time.Time
	change time.Duration // how long a change takes that nothing delays

	other *version // of NCCL_TUNER_COMPARE; nil: only edits are compared
	sides [2]*version
	trial *trial.Trial // nil: none is under way
	// canary: side A is an edit and B what was in force before.
	canary bool
	blocks trial.Blocks
	began  time.Time

	others   func() []standing
	follower follower

	steps   steps
	kind    uint64   // of the steps of the trial's open pair
	history []period // what was in force, the latest last
	asked   trial.Side
	askedAt time.Time
	lag     time.Duration // from the proposal of a side until it is in force
	told    trial.Result
	gaveUp  bool // and said that there are no steps
	unsaved bool // and said that the file cannot be written
}

// versions is the part of agree.Member that a comparison uses.
type versions interface {
	Propose(agree.Version)
	InForce() agree.InForce
	Note(ctx context.Context, value []byte) error
}

// period is a version's time in force.
type period struct {
	*version
	from uint64 // its first call
}

// settled is how many steps after a change count for no side: the job's other communicators
// change at about the same time, and the GPU still runs what the host launched before.
const settled = 2

// startTrials starts the comparison that the settings ask for. stop ends it; nil: there is none.
func (c *Comm) startTrials() (stop func()) {
	if !c.settings.compares() || c.info.Clock == nil || c.info.NewStamps == nil {
		return nil
	}
	d := &comparison{comm: c, log: c.log.about(c.info), member: c.member, clock: c.info.Clock, now: time.Now, change: c.opening.changeTime(),
		others: func() []standing { return c.plugin.paces.others(c) }}
	if c.settings.compare != "" {
		if d.other = c.compared(); d.other == nil && !c.settings.canary {
			return nil
		}
	}
	d.lag = d.change
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer c.survive("nothing is compared any more, and the version in force stays")
		defer c.plugin.paces.set(d, pace{})
		for ctx.Err() == nil {
			d.tick(ctx, d.now())
			select {
			case <-ctx.Done():
			case <-time.After(d.pause()):
			}
		}
	}()
	return func() { cancel(); <-done }
}

// compared returns the version that NCCL_TUNER_COMPARE names; nil where it cannot be used, which has been logged.
func (c *Comm) compared() *version {
	s := c.settings
	if s.compare == compareNCCL {
		v, err := c.plugin.versionFrom(noFiles.content, noFiles.digest, c.log)
		if err != nil {
			return nil
		}
		return v
	}
	s.configFile, s.strict, s.reloading = "", false, true
	files := c.plugin.loadFiles(s)
	files.policy = c.plugin.loadFile(comparedKind, s.compare, s)
	read, err := c.plugin.use(files, s, c.log)
	if err != nil || !read.valid {
		c.log.Warnf("%s=%s cannot be used, and is not compared with (allowed: %s, or a policy file without mistakes)", EnvCompare, s.compare, compareNCCL)
		return nil
	}
	return read.version
}

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
	return min(d.blocks.Length/40, idlePause)
}

// tick takes up what has happened.
func (d *comparison) tick(ctx context.Context, now time.Time) {
	stamps := d.clock.read() // before what is in force: that is known before a call by it is stamped
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

// look notes what is in force. A comparison begins with an edit, and ends where one means side B:
// whoever goes back to what was in force before wants it to stay.
func (d *comparison) look(ctx context.Context) {
	f := d.member.InForce()
	v := f.Snapshot.(*snapshot).version
	var before *version // what was to stay in force
	changed := true
	if n := len(d.history); n > 0 {
		before = d.history[n-1].version
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
		before = d.sides[trial.A] // not what happens to be tried
	case d.sides[trial.A] != nil:
		before = d.sides[d.asked]
	}
	switch {
	case d.trial != nil && f.Wanted == d.sides[trial.B].Meaning():
		d.goBack(ctx)
	case before != nil && v.Meaning() == before.Meaning():
	case f.Proposed && d.trial == nil:
		d.member.Propose(before.shared()) // an edit that was given up had kept it out
	case f.Proposed || !changed:
	case before != nil && d.comm.settings.canary:
		d.begin(v, before, true)
	case d.other != nil:
		d.begin(v, d.other, false)
	}
}

// goBack ends the comparison because an edit means side B.
func (d *comparison) goBack(ctx context.Context) {
	d.log.Infof("%s is compared with %s no longer: an edit means the latter, which stays in force", d.sides[trial.A], d.sides[trial.B])
	d.asked = trial.B
	d.member.Propose(d.sides[trial.B].shared())
	d.giveUp(ctx, trial.Edited, trial.B)
}

// follows ends the comparison where another communicator of the process has ended its own.
func (d *comparison) follows(ctx context.Context, now time.Time) bool {
	block := max(d.blocks.Length, trial.LengthFor(0, d.change))
	side, ended := d.follower.ended(now, block, d.sides, d.others())
	if ended {
		d.log.Infof("%s is compared with %s no longer: another communicator of this process has ended its comparison; %s stays in force",
			d.sides[trial.A], d.sides[trial.B], d.sides[side])
		d.ask(side, now)
		d.giveUp(ctx, trial.Followed, side)
	}
	return ended
}

// giveUp ends the comparison for a reason that the trial does not know.
func (d *comparison) giveUp(ctx context.Context, why trial.State, stays trial.Side) {
	if d.blocks.Length > 0 {
		r := d.trial.Result()
		r.State = why
		d.tell(ctx, d.found(r, stays))
	}
	d.end()
}

// begin begins to compare a, which is in force, with b.
func (d *comparison) begin(a, b *version, canary bool) {
	d.end()
	d.sides, d.canary, d.asked = [2]*version{a, b}, canary, trial.A
	if a.Meaning() == b.Meaning() {
		d.log.Warnf("nothing is compared: %s and %s mean the same", a, b)
		return
	}
	if !d.clock.stampEvery(1, d.comm.info.NewStamps) {
		d.log.Warnf("nothing is compared: there is no memory for it")
		return
	}
	d.trial, d.steps, d.told, d.gaveUp = &trial.Trial{}, steps{}, trial.Result{}, false
	d.blocks, d.began, d.follower = trial.Blocks{}, d.now(), follower{}
}

// end leaves the comparison under way.
func (d *comparison) end() {
	if d.trial == nil {
		return
	}
	d.trial = nil
	d.clock.stampEvery(never, d.comm.info.NewStamps)
	d.comm.plugin.paces.set(d, pace{})
}

// learn looks for the step in the calls.
func (d *comparison) learn(now time.Time) {
	d.clock.stampEvery(1, d.comm.info.NewStamps)
	switch found, gaveUp := d.steps.find(now); {
	case found:
		if d.steps.kind != d.kind { // as in an evaluation: a pair is of steps of one kind
			d.kind = d.steps.kind
			d.trial.Drop()
		}
		d.clock.stampEvery(d.steps.period, d.comm.info.NewStamps)
		d.comm.plugin.paces.set(d, pace{d.steps.took, d.change})
	case gaveUp:
		d.ask(trial.A, now)
		if d.gaveUp {
			return
		}
		d.gaveUp = true
		d.log.Warnf("%s and %s are not compared yet: the calls of this communicator do not repeat, or never in about the same time, so nothing tells a step", d.sides[trial.A], d.sides[trial.B])
	}
}

// divide begins the trial, and begins it again where the process has learned that steps take
// longer.
func (d *comparison) divide(ctx context.Context, now time.Time) {
	longest := d.comm.plugin.paces.longest()
	length := trial.LengthFor(longest.step, longest.change)
	if length > 0 && length <= d.blocks.Length { // longer blocks than needed serve as well
		return
	}
	a, b := d.sides[trial.A], d.sides[trial.B]
	if length == 0 {
		d.log.Warnf("%s and %s are not compared: a step takes %v", a, b, longest.step.Round(time.Second))
		d.ask(trial.A, now)
		d.giveUp(ctx, trial.NoChange, trial.A)
		return
	}
	*d.trial = trial.Trial{}
	d.blocks = trial.Blocks{Length: length, Seed: trial.Seed(a.Meaning(), b.Meaning())}
	found := d.found(d.trial.Result(), trial.A)
	d.comm.found.Store(&found)
	d.log.Infof("comparing %s with %s by turns, in blocks of %v; a step is %s, %v", a, b, length,
		plural(int(d.steps.period), "call", "calls"), d.steps.took.Round(time.Millisecond))
}

// judge counts a step for the side that made it.
func (d *comparison) judge(s step) {
	if d.blocks.Length == 0 {
		return
	}
	pair, planned := d.blocks.At(s.began)
	d.trial.Past(pair)
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
	case in == nil, in.version.Meaning() != d.sides[planned].Meaning():
	case in.from > 0 && s.first < in.from+settled*d.steps.period:
	default:
		d.trial.Add(pair, planned, s.took)
	}
}

// steer brings the side of the next moments into force: of now and as long as a change takes.
func (d *comparison) steer(now time.Time) {
	_, side := d.blocks.At(now.Add(min(d.lag, d.blocks.Length/2)))
	d.ask(side, now)
}

// ask proposes a side unless it was the last one.
func (d *comparison) ask(side trial.Side, now time.Time) {
	if side == d.asked {
		return
	}
	d.asked, d.askedAt = side, now
	d.member.Propose(d.sides[side].shared())
}

// conclude tells what is known after each pair, and ends the trial.
func (d *comparison) conclude(ctx context.Context) {
	r := d.trial.Result()
	if r == d.told {
		return
	}
	d.told = r
	stays := trial.A
	if r.State != trial.Running {
		if d.comm.settings.canary && r.Slower() {
			stays = trial.B
		}
		d.member.Propose(d.sides[stays].shared())
		d.asked = stays
	}
	found := d.found(r, stays)
	if r.State != trial.Running {
		d.logEnd(found, stays)
	}
	d.tell(ctx, found)
	if r.State != trial.Running {
		d.end()
	}
}

// logEnd says what was found.
func (d *comparison) logEnd(c Comparison, stays trial.Side) {
	how, then := d.log.Infof, fmt.Sprintf("%s stays in force", d.sides[stays])
	switch {
	case c.State == trial.NoChange:
		how = d.log.Warnf
	case stays == trial.B:
		how, then = d.log.Warnf, fmt.Sprintf("%s is in force again; an edit that changes what the file means is tried anew", d.sides[trial.B])
	case c.Slower():
		how = d.log.Warnf
	}
	how("%s against %s: %s (%s); %s", d.sides[trial.A], d.sides[trial.B], c.Verdict(), c.Effort(), then)
}
