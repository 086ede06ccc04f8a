package trial

import (
	"context"
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

// Config is what a comparison or an experiment needs.
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
	Tell func(context.Context, Conclusion) // is told of what is known after each pair
}

// A machine brings versions into force by blocks of time, and times the steps that they make. Which version a block
// is for, and what its steps tell, is up to the design that uses it: a comparison or an experiment.
type machine struct {
	Config
	now func() time.Time

	blocks  blocks
	steps   steps
	kind    uint64   // of the steps that were found last
	history []period // what was in force, the latest last
	asked   Variant  // proposed last
	askedAt time.Time
	lag     time.Duration // from a proposal until it is in force
	stuck   time.Duration // of steps since what was asked is awaited
	gaveUp  bool          // and said that there are no steps
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

// pause is the time between two ticks while a design is under way.
func (m *machine) pause() time.Duration {
	if m.steps.period == 0 {
		return learnPause
	}
	return min(m.blocks.length/40, idlePause)
}

// begin prepares for a design. It returns false if there is no memory for stamps.
func (m *machine) begin() bool {
	m.steps, m.blocks, m.gaveUp = steps{}, blocks{}, false
	return m.Clock.stampEvery(1, m.NewStamps)
}

// end leaves the design under way.
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
		if m.asked != nil && f.Version.Meaning() == m.asked.Meaning() {
			m.lag = (3*m.lag + m.now().Sub(m.askedAt)) / 4
		}
		m.history = append(m.history, period{f.Version, f.From})
		if len(m.history) > 4 {
			m.history = m.history[1:]
		}
	}
	return f, before, changed
}

// take adds stamps, and calls done for each step that they end.
func (m *machine) take(stamps []Stamp, done func(step)) {
	for _, s := range stamps {
		if one, ok := m.steps.add(s); ok {
			done(one)
			m.stuck += min(one.took, 2*m.steps.took) // no change could come in a pause
			if !m.awaits() {
				m.stuck = 0
			}
		}
	}
}

// neverChanges reports that changes do not come, as where all calls of a communicator are alike.
func (m *machine) neverChanges() bool { return m.stuck > max(mostWait, waitBlocks*m.blocks.length) }

// find looks for the step in the calls while it is not known. found reports that it has been found, other that it is of
// another kind than the last, none that many calls do not repeat.
func (m *machine) find(now time.Time) (found, other, none bool) {
	if m.steps.period > 0 {
		return false, false, false
	}
	m.Clock.stampEvery(1, m.NewStamps)
	if found, none = m.steps.find(now); found {
		other = m.steps.kind != m.kind
		m.kind = m.steps.kind
		m.Clock.stampEvery(m.steps.period, m.NewStamps)
	}
	return found, other, none
}

// warnOnce says why there are no steps, once for each design that is under way.
func (m *machine) warnOnce(format string, args ...any) {
	if !m.gaveUp {
		m.gaveUp = true
		m.Log.Warnf(format, args...)
	}
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
	case length == m.blocks.length:
		return false, 0
	case length < m.blocks.length: // longer blocks than needed serve as well, but tell less
		if ample := lengthFor(longest.steps, 2*longest.change); !mayShorten || ample == 0 || ample >= m.blocks.length {
			return false, 0
		}
	}
	m.blocks.length = length
	return true, 0
}

// maker returns the version by which all calls of a step were decided; nil if that has changed in it, or too shortly
// before.
func (m *machine) maker(s step) Variant {
	var in *period
	for i := range m.history {
		h := &m.history[i]
		switch {
		case h.from <= s.first:
			in = h
		case h.from < s.end:
			return nil // a change came in this step
		}
	}
	if in == nil || in.from > 0 && s.first < in.from+settled*m.steps.period {
		return nil
	}
	return in.Variant
}

// ahead is when a change that is proposed now will be in force.
func (m *machine) ahead(now time.Time) time.Time { return now.Add(m.lag) }

// waits reports that what was asked for last is still to come. To ask for something else would only begin the change
// anew, and where blocks are shorter than changes take, none would ever come.
func (m *machine) waits(now time.Time) bool { return m.awaits() && now.Sub(m.askedAt) < mostWait }

// awaits reports that what was asked for last is not in force.
func (m *machine) awaits() bool {
	return m.asked != nil && m.history[len(m.history)-1].Meaning() != m.asked.Meaning()
}

// ask proposes a version unless it was the last one.
func (m *machine) ask(v Variant, now time.Time) {
	if m.asked != nil && v.Meaning() == m.asked.Meaning() {
		return
	}
	m.asked, m.askedAt = v, now
	m.Versions.Propose(v)
}
