package agree

// state is a member's state in change k. docs/PROTOCOL.md has a diagram of the transitions.
type state int

const (
	idle      state = iota // nothing promised; trigger Never
	armed                  // the version is staged; trigger c
	promised               // made its promise at call c, looks for the barrier from call S on; trigger S
	arrived                // at the barrier, by itself or by proxy; trigger S
	committed              // has read commit, switches at the barrier; trigger S
	withdrawn              // will not arrive for this change; trigger Never
	frozen                 // keeps its version for good; trigger Never
	static                 // without a slot: follows the changes decided before it joined
)

func (s state) String() string {
	return [...]string{"idle", "armed", "promised", "arrived", "committed", "withdrawn", "frozen", "static"}[s]
}

// change is the change that comes next and how far this rank is in it. Member.mu guards it.
//
// The main thread promises, arrives and switches; the background goes on to all other states. A
// sibling makes this rank arrive by proxy and takes that back. So what the background reads in one
// step, of a copy, may be over at the end of the step.
type change struct {
	k     uint64
	state state
	// What follows is zero until the proposal is known.
	Proposal
	seen       bool
	mine       bool       // this rank has proposed it
	snapshot   Snapshot   // nil until the version is staged
	why        Reason     // withdrawn: the reason to abort with
	hash       uint64     // Counter.Hash at c, from the promise on
	lastPassed lastPassed // promised
	arrival    arrival    // arrived, committed
}

// next turns to the change after k, in state s.
func (m *Member) next(s state) {
	m.change = change{k: m.change.k + 1, state: s}
	m.wait.release()
	m.cfg.Counter.Trigger.Store(Never)
}

// withdraw takes this rank out of change k. The caller knows that this rank has not put its
// arrival, so change k can only be aborted.
func (m *Member) withdraw(why Reason) {
	if m.ending.failed != nil {
		return // the trigger has to stay: no later call may be decided
	}
	m.change.state, m.change.why, m.change.arrival = withdrawn, why, arrival{}
	m.wait.release()
	m.cfg.Counter.Trigger.Store(Never)
	m.wakeUp()
}

// dropStaged retires what was staged for a change that does not come.
func (m *Member) dropStaged() {
	if m.change.snapshot != nil {
		m.retired.add(m.change.snapshot)
		m.change.snapshot = nil
	}
}
