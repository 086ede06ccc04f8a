package trial

import (
	"context"
	"math"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A Variant is a version of the policy that is tried.
type Variant interface {
	Meaning() string // digest of what it means on this machine
	String() string  // its name for a message
}

// Versions changes the version in force on all ranks of the communicator.
type Versions interface {
	// Propose asks for a change to a version. The version in force withdraws what was proposed.
	Propose(Variant)
	InForce() InForce
}

// InForce is the version that decides calls now.
type InForce struct {
	Version  Variant
	From     uint64 // its first call
	Proposed bool   // Propose has brought it, no edit
	Wanted   string // the meaning of the latest edit
}

// Log is NCCL's logger.
type Log interface {
	Infof(format string, args ...any)
	Warnf(format string, args ...any)
}

// Config is what an experiment needs.
type Config struct {
	Key string // names the communicator in what is found
	nccl.Comm

	Versions Versions
	Change   time.Duration // how long a change takes that nothing delays
	Other    Variant       // what the policy is compared with; nil: only edits are compared
	Canary   bool          // compare each edit with the version before, and roll it back if it is surely slower

	Clock     *Clock
	NewStamps func() *[ClockStamps]Stamp // makes the clock's memory; nil where there is none
	Peers     *Peers
	Peer      *Peer // this communicator

	Log  Log
	Tell func(context.Context, Conclusion) // is told of what is known after each pair of blocks
}

// A machine makes the blocks of an experiment: it brings versions into force by the wall clock, and times the steps
// that they make. A step belongs to the version that has decided its calls, whatever was planned.
type machine struct {
	Config
	now func() time.Time

	experiment *experiment                  // nil: none is under way
	with       func([]int) (Variant, error) // makes the version of some arms
	rest       Variant                      // in force while nothing tells steps
	doing      string                       // what cannot be done then, for a message
	only       uint64                       // the kind of steps that it is about; 0: any
	reference  uint64                       // calls in a step, as the first of its kind was found
	referred   uint64                       // that kind

	length    time.Duration     // of a block
	plans     map[int64]Variant // by block, of the latest blocks
	arms      map[string][]int  // of what was planned, by its meaning
	steps     steps
	queue     queue
	kind      uint64   // of the steps that were found last
	history   []period // what was in force, the latest last
	asked     Variant  // proposed last
	askedAt   time.Time
	changedAt time.Time     // when what is in force came
	accounted uint64        // calls that are in what was made
	lag       time.Duration // from a proposal until it is in force
	stuck     time.Duration // of steps since what was asked is awaited
	gaveUp    bool          // and said that there are no steps
}

// period is a version's time in force.
type period struct {
	Variant
	from uint64 // its first call
}

// settled is how many steps after the one with the change do not count. The job's other communicators change at
// about the same time, and the GPU still runs what the host launched before.
const settled = 1

const (
	learnPause = 50 * time.Millisecond
	idlePause  = time.Second
	mostWait   = 2 * time.Minute // for what was asked: a change that was refused for good never comes
	waitBlocks = 10              // the same where blocks are long

	mostHistory = 64 // versions

	mostBlocksUnseen = 2 // for which an arm stays in force while nothing tells steps
)

// Blocks have few lengths: of two that follow each other, the ratio is 3/2 or 4/3. So communicators of a job that have
// measured slightly different steps still use the same.
const (
	shortest = 2 * time.Second
	longest  = 2048 * time.Second
)

// A block is made for so many steps at least. It has more where steps vary, until noise moves the mean of a block by
// no more than precision.
const (
	stepsInBlock = 15
	mostInBlock  = 100
	precision    = 0.01 // of a step
)

func newMachine(config Config) *machine {
	return &machine{Config: config, now: time.Now, lag: config.Change}
}

// run calls tick until ctx ends. pause is the time between two ticks.
func (m *machine) run(ctx context.Context, tick func(context.Context, time.Time), pause func() time.Duration) {
	defer m.Peers.setPace(m.Peer, pace{})
	for ctx.Err() == nil {
		tick(ctx, m.now())
		select {
		case <-ctx.Done():
		case <-time.After(pause()):
		}
	}
}

// pause is the time between two ticks while an experiment is under way.
func (m *machine) pause() time.Duration {
	if m.steps.period == 0 {
		return learnPause
	}
	return min(m.length/40, idlePause)
}

// stamp begins to stamp calls. It returns false if there is no memory for that.
func (m *machine) stamp() bool {
	m.steps, m.length, m.gaveUp, m.only = steps{}, 0, false, 0
	return m.Clock.stampEvery(1, m.NewStamps)
}

// begin begins an experiment, whose versions with makes. none are the arms of what is in force now.
func (m *machine) begin(x *experiment, with func([]int) (Variant, error), none Variant) {
	m.experiment, m.with, m.stuck, m.accounted, m.queue.recent = x, with, 0, 0, nil
	m.plans, m.arms = map[int64]Variant{}, map[string][]int{none.Meaning(): make([]int, len(x.Factors))}
}

// refer makes the step that was found the one that blocks are about.
func (m *machine) refer() {
	if m.kind != m.referred {
		m.reference, m.referred = m.steps.period, m.kind
	}
}

// end leaves the experiment under way.
func (m *machine) end() {
	m.Clock.stampEvery(never, m.NewStamps)
	m.Peers.setPace(m.Peer, pace{})
}

// look notes what is in force, what was at the last look (nil: this is the first), and whether that has changed.
func (m *machine) look() (f InForce, before Variant, changed bool) {
	f = m.Versions.InForce()
	changed = true
	if n := len(m.history); n > 0 {
		before = m.history[n-1].Variant
		changed = before.Meaning() != f.Version.Meaning()
	}
	if changed {
		m.account(f.From)
		m.changedAt = m.now()
		if m.asked != nil && f.Version.Meaning() == m.asked.Meaning() {
			m.lag = (3*m.lag + m.now().Sub(m.askedAt)) / 4
		}
		m.history = append(m.history, period{f.Version, f.From})
		m.history = m.history[max(0, len(m.history)-mostHistory):]
	}
	return f, before, changed
}

// account adds the calls before this one to what was made.
func (m *machine) account(to uint64) {
	if to <= m.accounted || m.experiment == nil || m.reference == 0 || len(m.history) == 0 {
		return
	}
	if arms, known := m.arms[m.history[len(m.history)-1].Meaning()]; known && m.accounted > 0 {
		m.experiment.made(arms, float64(to-m.accounted)/float64(m.reference))
	}
	m.accounted = to
}

// observe adds the steps that stamps end. While it is not known what a step is, it looks for it in the calls, and calls
// found once it is: other reports that it is of another kind than the last. observe returns whether steps are known.
func (m *machine) observe(stamps []Stamp, now time.Time, found func(other bool)) bool {
	for _, s := range stamps {
		if one, ok := m.steps.add(s); ok {
			m.stuck += min(one.took, 2*m.steps.took) // no change could come in a pause
			if !m.awaits() {
				m.stuck = 0
			}
			m.judge(one)
		}
	}
	if n := len(stamps); n > 0 {
		m.account(stamps[n-1].Call)
	}
	if m.steps.period > 0 {
		return true
	}
	m.Clock.stampEvery(1, m.NewStamps)
	if m.length > 0 && now.Sub(m.changedAt) > mostBlocksUnseen*m.length {
		m.ask(m.rest, now)
	}
	switch ok, none := m.steps.find(now); {
	case ok:
		other := m.steps.kind != m.kind
		m.kind = m.steps.kind
		m.Clock.stampEvery(m.steps.period, m.NewStamps)
		found(other)
	case none:
		if m.ask(m.rest, now); !m.gaveUp {
			m.gaveUp = true
			m.Log.Warnf("%s yet: the calls of this communicator do not repeat, or never in about the same time, so "+
				"nothing tells a step", m.doing)
		}
	}
	return m.steps.period > 0
}

// judge counts a step for the arms that made it.
func (m *machine) judge(s step) {
	if m.experiment == nil || m.length == 0 || m.only != 0 && m.kind != m.only {
		return
	}
	steps := float64(m.steps.period) / float64(m.reference)
	if m.queue.add(s.first, m.steps.period, math.Log(s.took.Seconds()/steps), m.history) {
		m.experiment.forget() // blocks had steps of other versions
	}
	v := m.maker(s)
	if v == nil {
		return
	}
	arms, known := m.arms[v.Meaning()]
	if !known {
		return
	}
	// Steps may have been found to be several of those that the run is about, or a part of one.
	m.experiment.add(arms, s.began, times(s.took, 1/steps), steps, m.length)
	if x := m.experiment; !x.hurt && x.surelyBad() {
		x.hurt = true
		if v, err := m.version(x.leaders()); err == nil {
			m.plans[m.blockOf(m.now())] = v
		}
	}
}

// maker returns the version by which all calls of a step were decided; nil if that has changed in it, or too shortly
// before.
func (m *machine) maker(s step) Variant {
	var in *period
	for i := range m.history {
		h := &m.history[i]
		switch {
		case h.from+m.queue.ahead <= s.first:
			in = h
		case h.from+m.queue.ahead < s.end:
			return nil // a change came in this step
		}
	}
	if in == nil || in.from > 0 && s.first < in.from+m.queue.ahead+settled*m.steps.period {
		return nil
	}
	return in.Variant
}

// version returns the version of arms, by which steps may be made from now on.
func (m *machine) version(arms []int) (Variant, error) {
	v, err := m.with(arms)
	if err == nil {
		m.arms[v.Meaning()] = arms
	}
	return v, err
}

// divide finds how long blocks are. anew reports that their length has changed: the process has learned that steps or
// changes take longer, or, if blocks may become shorter, that they surely take less. tooLong is what a step takes if no
// block is long enough; else 0.
func (m *machine) divide(mayShorten bool) (anew bool, tooLong time.Duration) {
	// Where changes take longer than blocks, as after calls that came much faster, blocks become longer, too.
	m.Peers.setPace(m.Peer, pace{inBlock(m.steps.took, m.steps.noise), max(m.Change, m.lag/2)})
	longest := m.Peers.longest()
	length := lengthFor(longest.steps, longest.change)
	switch {
	case length == 0:
		return false, longest.steps / stepsInBlock
	case length == m.length:
		return false, 0
	case length < m.length: // longer blocks than needed serve as well, but tell less
		if ample := lengthFor(longest.steps, 2*longest.change); !mayShorten || ample == 0 || ample >= m.length {
			return false, 0
		}
	}
	m.length, m.plans = length, map[int64]Variant{}
	return true, 0
}

// inBlock is the time of the steps that a block is made for.
func inBlock(step time.Duration, noise float64) time.Duration {
	return time.Duration(min(max(stepsInBlock, noise*noise/(precision*precision)), mostInBlock) * float64(step))
}

// lengthFor returns how long blocks are where their steps take so long, and a change of the policy; 0 if that is too
// long. A change that nothing delays takes half a block at most.
func lengthFor(steps, change time.Duration) time.Duration {
	for length := shortest; length <= longest; length *= 2 {
		for _, l := range []time.Duration{length, length * 3 / 2} {
			if l >= max(steps, 2*change) && l <= longest {
				return l
			}
		}
	}
	return 0
}

func (m *machine) blockOf(t time.Time) int64 { return t.UnixNano() / int64(m.length) }

// next is the block that a change which is proposed now is for.
func (m *machine) next(now time.Time) int64 { return m.blockOf(now.Add(m.lag)) }

// steer proposes what is planned for the time at which the change will be in force.
func (m *machine) steer(now time.Time) error {
	block := m.next(now)
	planned := m.plans[block]
	if planned == nil {
		var err error
		if planned, err = m.version(m.experiment.draw(block)); err != nil {
			return err
		}
		for of := range m.plans {
			if of < block {
				delete(m.plans, of)
			}
		}
		m.plans[block] = planned
	}
	// To ask for something else would only begin the change anew, and where blocks are shorter than changes take, none
	// would ever come.
	if !m.awaits() || now.Sub(m.askedAt) >= mostWait {
		m.ask(planned, now)
	}
	return nil
}

// awaits reports that what was asked for last is not in force.
func (m *machine) awaits() bool {
	return m.asked != nil && m.history[len(m.history)-1].Meaning() != m.asked.Meaning()
}

// neverChanges reports that changes do not come, as where all calls of a communicator are alike.
func (m *machine) neverChanges() bool { return m.stuck > max(mostWait, waitBlocks*m.length) }

// ask proposes a version unless it was the last one.
func (m *machine) ask(v Variant, now time.Time) {
	if m.asked != nil && v.Meaning() == m.asked.Meaning() {
		return
	}
	m.asked, m.askedAt = v, now
	m.Versions.Propose(v)
}

// mix makes a draw of a number (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
