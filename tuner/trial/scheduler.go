package trial

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// A Variant is a version of the policy that is tried.
type Variant interface {
	EffectDigest() string // digest of what it means on this machine
	String() string       // its name for a message
}

// Versions changes the version in force on all ranks of the communicator.
type Versions interface {
	// Propose asks for a change to a version. The version in force withdraws what was proposed.
	Propose(Variant)
	InForce() InForce
}

// InForce is the version that decides calls now.
type InForce struct {
	Version    Variant
	From       uint64 // its first call
	Proposed   bool   // Propose has brought it, no edit
	LatestEdit string // the EffectDigest of the latest edit
}

// Log is NCCL's logger.
type Log interface {
	Infof(format string, args ...any)
	Warnf(format string, args ...any)
}

// Config is what an experiment needs.
type Config struct {
	Evidence Evidence // of the communicator; what is found out is added

	Versions Versions
	Change   time.Duration // how long a change takes that nothing delays
	Learn    *Subject      // nil: versions are compared
	Other    Variant       // what the policy is compared with; nil: only edits are compared
	Canary   bool          // compare each edit with the version before, and roll it back if it is surely slower

	Clock *Clock
	Peers *Peers
	Peer  *Peer // this communicator

	Log  Log
	Save func(context.Context, Evidence) // keeps what is known by now
}

// A scheduler runs experiments. It brings versions into force by the wall clock, block by block, and times the steps
// that they make. A step belongs to the version that has decided its calls, whatever was planned.
type scheduler struct {
	Config
	now func() time.Time

	// Of a comparison (comparison.go): its sides, whether B was in force before A, and when it began.
	sides    [2]Variant
	canary   bool
	began    time.Time
	follower follower

	// Of what learns (learner.go).
	base  Variant     // what was in force; nil: not begun
	saved int         // blocks when it was saved last
	tried *experiment // whose leaders are compared with base; nil: not yet

	watching bool // for steps
	watch
	history   []period // what was in force, the latest last
	asked     Variant  // proposed last
	askedAt   time.Time
	changedAt time.Time     // when what is in force came
	lag       time.Duration // from a proposal until it is in force
}

// watch is an experiment, and the steps that it looks for and times.
type watch struct {
	doing      string                       // "trying 3 candidates", for a message
	rest       Variant                      // in force while nothing tells steps
	experiment *experiment                  // nil: no step is known yet
	with       func([]int) (Variant, error) // makes the version of some arms
	arms       map[string][]int             // of what was planned, by its EffectDigest
	seen       int                          // of what was judged (rounds)
	accounted  uint64                       // calls that are in what was made

	steps     steps
	queue     queue
	kind      uint64    // of the steps that were found last
	only      uint64    // the kind that the experiment is about; 0: not known yet
	reference uint64    // calls in a step, as the first of its kind was found
	aside     time.Time // since when steps are of another kind; zero: they are not
	gaveUp    bool      // and said that there are no steps

	length     time.Duration // of a block
	planned    Variant       // for the block plannedFor; nil: nothing
	plannedFor int64
	stuck      time.Duration // of steps since what was asked is awaited
}

// period is a version's time in force.
type period struct {
	Variant
	from uint64 // its first call
}

const (
	// unsettled is how many steps after the one with the change do not count. The job's other communicators change at
	// about the same time, and the GPU still runs what the host launched before.
	unsettled = 1

	learnPause = 50 * time.Millisecond
	idlePause  = time.Second
	mostWait   = 2 * time.Minute // for what was asked: a change that was refused for good never comes
	waitBlocks = 10              // the same where blocks are long

	mostHistory      = 64 // versions
	mostBlocksUnseen = 2  // for which an arm stays in force while nothing tells steps

	// Blocks have few lengths: of two that follow each other, the ratio is 3/2 or 4/3. So communicators of a job that
	// have measured slightly different steps still use the same.
	shortest = 2 * time.Second

	// A block is made for so many steps at least. It has more where steps vary, until noise moves its mean by no more
	// than precision.
	stepsInBlock = 15
	mostInBlock  = 100
	precision    = 0.01 // of a step
)

// Conduct compares, or learns, until ctx ends. It brings versions into force by ordinary changes, so it can do no more
// than a user who edits the file.
func Conduct(ctx context.Context, config Config) {
	s := newScheduler(config)
	defer s.Peers.setPace(s.Peer, pace{})
	for ctx.Err() == nil {
		s.tick(ctx, s.now())
		select {
		case <-ctx.Done():
		case <-time.After(s.pause()):
		}
	}
	s.stopLearning(context.WithoutCancel(ctx))
}

func newScheduler(config Config) *scheduler {
	return &scheduler{Config: config, now: time.Now, lag: config.Change}
}

// pause is the time between two ticks.
func (s *scheduler) pause() time.Duration {
	switch {
	case !s.watching:
		return idlePause
	case s.steps.period == 0:
		return learnPause
	}
	return min(s.length/40, idlePause)
}

// tick takes up what has happened.
func (s *scheduler) tick(ctx context.Context, now time.Time) {
	stamps := s.Clock.read() // before what is in force: that is known before a call by it is stamped
	f, before, changed := s.look()
	s.edits(ctx, f, before, changed)
	if !s.watching || s.follows(ctx, now) || !s.observe(ctx, stamps, now) {
		return
	}
	if s.divide() {
		s.Log.Infof("%s, in blocks of %v; a step is %s, %v", s.doing, s.length,
			wording.Plural(int(s.steps.period), "call"), s.steps.took.Round(time.Millisecond))
	}
	if s.kind != s.only {
		s.stepAside(ctx, now)
		return
	}
	s.aside = time.Time{}
	n := s.experiment.rounds()
	switch news := n != s.seen; {
	case s.stuck > max(mostWait, waitBlocks*s.length) && s.experiment.turns:
		s.endTurns(ctx, NoChange, A)
	case s.stuck > max(mostWait, waitBlocks*s.length):
		s.Evidence.LeftOut = append(s.Evidence.LeftOut, noChange)
		s.endTrying(ctx, noChange)
	case news && s.experiment.turns:
		s.judgeTurns(ctx)
	case news:
		s.judgeArms(ctx)
	}
	if s.seen = n; s.watching {
		if err := s.steer(now); err != nil { // both sides of a comparison are there
			s.Log.Warnf("nothing is learned: %v", err)
			s.stopLearning(ctx)
		}
	}
}

const noChange = "what is to be tried does not become active, as where all calls of a communicator are alike"

// watchFor begins to stamp calls, to find steps for an experiment.
func (s *scheduler) watchFor(doing string, rest Variant) {
	s.watch, s.watching = watch{doing: doing, rest: rest}, true
	s.Clock.stampEvery(1)
}

// begin begins an experiment, whose versions with makes. none are the arms of what is in force now.
func (s *scheduler) begin(x *experiment, with func([]int) (Variant, error), none Variant) {
	s.experiment, s.with, s.stuck, s.accounted, s.queue.recent, s.seen = x, with, 0, 0, nil, -1
	s.planned, s.arms = nil, map[string][]int{none.EffectDigest(): make([]int, len(x.Factors))}
}

// leave leaves the experiment under way, and lets a version stay; nil: what is in force.
func (s *scheduler) leave(stays Variant) {
	if stays != nil {
		s.asked, s.askedAt = stays, s.now()
		s.Versions.Propose(stays)
	}
	s.Clock.stampEvery(never)
	s.Peers.setPace(s.Peer, pace{})
	s.watching = false
}

// look notes what is in force, what was at the last look (nil: this is the first), and whether that has changed.
func (s *scheduler) look() (f InForce, before Variant, changed bool) {
	f = s.Versions.InForce()
	changed = true
	if n := len(s.history); n > 0 {
		before = s.history[n-1].Variant
		changed = before.EffectDigest() != f.Version.EffectDigest()
	}
	if changed {
		s.account(f.From)
		s.changedAt = s.now()
		if s.asked != nil && f.Version.EffectDigest() == s.asked.EffectDigest() {
			s.lag = (3*s.lag + s.now().Sub(s.askedAt)) / 4
		}
		s.history = append(s.history, period{f.Version, f.From})
		s.history = s.history[max(0, len(s.history)-mostHistory):]
	}
	return f, before, changed
}

// account adds the calls before this one to what was made.
func (s *scheduler) account(to uint64) {
	if to <= s.accounted || s.experiment == nil || len(s.history) == 0 {
		return
	}
	x := s.experiment
	arms, known := s.arms[s.history[len(s.history)-1].EffectDigest()]
	if known && s.tried != nil { // what was found is compared: that costs, too
		x, arms = s.tried, [][]int{make([]int, len(s.tried.Factors)), s.tried.leaders()}[arms[0]]
	}
	if known && !x.turns && s.accounted > 0 {
		x.made(arms, float64(to-s.accounted)/float64(s.reference))
	}
	s.accounted = to
}

// observe adds the steps that stamps end. While it is not known what a step is, it looks for that in the calls. It
// returns whether steps are known.
func (s *scheduler) observe(ctx context.Context, stamps []Stamp, now time.Time) bool {
	for _, stamp := range stamps {
		if one, ok := s.steps.add(stamp); ok {
			s.stuck += min(one.took, 2*s.steps.took) // no change could come in a pause
			if !s.awaits() {
				s.stuck = 0
			}
			s.count(one)
		}
	}
	if n := len(stamps); n > 0 {
		s.account(stamps[n-1].Call)
	}
	if s.steps.period > 0 {
		return true
	}
	s.Clock.stampEvery(1)
	if s.length > 0 && now.Sub(s.changedAt) > mostBlocksUnseen*s.length {
		s.ask(s.rest, now)
	}
	switch ok, none := s.steps.find(now); {
	case ok:
		s.Clock.stampEvery(s.steps.period)
		if s.kind = s.steps.kind; s.experiment == nil || s.only != s.kind && s.experiment.run.told() < hurtJudged {
			s.beginAnew(ctx)
		} else {
			s.experiment.drop() // a block has steps of one kind only
		}
	case none:
		if s.ask(s.rest, now); !s.gaveUp {
			s.gaveUp = true
			s.Log.Warnf("nothing tells a step yet: the calls of this communicator do not repeat, or never in about "+
				"the same time (%s)", s.doing)
		}
	}
	return s.watching && s.steps.period > 0
}

// beginAnew begins an experiment about steps of the kind that was found last.
func (s *scheduler) beginAnew(ctx context.Context) {
	if s.only != s.kind {
		s.only, s.reference = s.kind, s.steps.period
	}
	switch {
	case s.Learn != nil && s.tried == nil:
		s.choose(ctx)
	case s.experiment == nil:
		s.beginTurns(seedOf(s.sides[A].EffectDigest(), s.sides[B].EffectDigest()))
	default:
		s.experiment.newRun(s.now())
	}
}

// stepAside waits while steps are of another kind, such as an evaluation's, unless that lasts.
func (s *scheduler) stepAside(ctx context.Context, now time.Time) {
	s.ask(s.rest, now)
	if s.aside.IsZero() {
		s.aside = now
	} else if now.Sub(s.aside) > time.Duration(s.experiment.run.told())*s.length {
		s.Log.Infof("the job makes steps of another kind for longer than those that were timed: now these are")
		s.save(ctx)
		s.beginAnew(ctx)
	}
}

// count counts a step for the arms that made it.
func (s *scheduler) count(one step) {
	if s.experiment == nil || s.length == 0 || s.kind != s.only {
		return
	}
	// Steps may have been found to be several of those that the experiment is about, or a part of one.
	steps := float64(s.steps.period) / float64(s.reference)
	if s.queue.add(one.first, s.steps.period, math.Log(one.took.Seconds()/steps), s.history) {
		s.experiment.forget() // blocks had steps of other versions
	}
	v := s.maker(one)
	if v == nil {
		return
	}
	arms, known := s.arms[v.EffectDigest()]
	if !known {
		return
	}
	s.experiment.add(arms, one.began, times(one.took, 1/steps), steps, s.length)
	if x := s.experiment; !x.hurt && x.surelyBad() {
		x.hurt = true
		if v, err := s.version(x.leaders()); err == nil {
			s.planned, s.plannedFor = v, s.blockOf(s.now())
		}
	}
}

// maker returns the version by which all calls of a step were decided; nil if that has changed in it, or too shortly
// before.
func (s *scheduler) maker(one step) Variant {
	at := indexOf(s.history, s.queue.ahead, one.first, one.end)
	if at < 0 || s.history[at].from > 0 &&
		one.first < s.history[at].from+s.queue.ahead+unsettled*s.steps.period {
		return nil
	}
	return s.history[at].Variant
}

// indexOf finds the version by which calls were decided, where the host makes calls so far ahead; -1: none, or several.
func indexOf(history []period, ahead, first, end uint64) (at int) {
	at = -1
	for i, h := range history {
		switch {
		case h.from+ahead <= first:
			at = i
		case h.from+ahead < end:
			return -1
		}
	}
	return at
}

// version returns the version of arms, by which steps may be made from now on.
func (s *scheduler) version(arms []int) (Variant, error) {
	v, err := s.with(arms)
	if err == nil {
		s.arms[v.EffectDigest()] = arms
	}
	return v, err
}

// divide finds how long blocks are. anew reports that their length has changed: the process has learned that steps or
// changes take longer, or that they surely take less.
func (s *scheduler) divide() (anew bool) {
	// Where changes take longer than blocks, as after calls that came much faster, blocks become longer, too.
	most := s.Peers.setPace(s.Peer, pace{inBlock(s.steps.took, s.steps.noise), max(s.Change, s.lag/2)})
	length := lengthFor(most)
	// Longer blocks than needed serve as well, but tell less.
	if length == s.length || length < s.length && lengthFor(pace{most.steps, 2 * most.change}) >= s.length {
		return false
	}
	s.length, s.planned = length, nil
	return true
}

// inBlock is the time of the steps that a block is made for.
func inBlock(step time.Duration, noise float64) time.Duration {
	return times(step, min(max(stepsInBlock, noise*noise/(precision*precision)), mostInBlock))
}

// lengthFor returns how long blocks are. A change that nothing delays takes half a block at most.
func lengthFor(p pace) time.Duration {
	for length := shortest; ; length *= 2 {
		for _, l := range []time.Duration{length, length * 3 / 2} {
			if l >= max(p.steps, 2*p.change) {
				return l
			}
		}
	}
}

func (s *scheduler) blockOf(t time.Time) int64 { return t.UnixNano() / int64(s.length) }

// steer proposes what is planned for the time at which the change will be in force.
func (s *scheduler) steer(now time.Time) error {
	if block := s.blockOf(now.Add(s.lag)); s.planned == nil || s.plannedFor != block {
		v, err := s.version(s.experiment.draw(block))
		if err != nil {
			return err
		}
		s.planned, s.plannedFor = v, block
	}
	// To ask for something else would only begin the change anew, and where blocks are shorter than changes take, none
	// would ever come.
	if !s.awaits() || now.Sub(s.askedAt) >= mostWait {
		s.ask(s.planned, now)
	}
	return nil
}

// awaits reports that what was asked for last is not in force.
func (s *scheduler) awaits() bool {
	return s.asked != nil && s.history[len(s.history)-1].EffectDigest() != s.asked.EffectDigest()
}

// ask proposes a version unless it was the last one.
func (s *scheduler) ask(v Variant, now time.Time) {
	if s.asked != nil && v.EffectDigest() == s.asked.EffectDigest() {
		return
	}
	s.asked, s.askedAt = v, now
	s.Versions.Propose(v)
}

// seedOf is the seed of an experiment that names tell from others.
func seedOf(names ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, names)
	return h.Sum64()
}

// mix makes a draw of a number (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
