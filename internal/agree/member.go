package agree

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Log is NCCL's logger. A Member logs events, not calls.
type Log interface {
	Infof(format string, args ...any)
	Warnf(format string, args ...any)
}

// Config is what a Member needs.
type Config struct {
	Comm     string // CommKey of the communicator, equal on all its ranks
	Ranks    int
	Rank     int    // the slot to try first; -1 if unknown
	Identity string // unique among all members that ever live: random id, host, pid
	Store    Store
	Poller   *Poller // of the same store
	Clock    Clock
	Timing   Timing
	Log      Log
	Counter  *Counter
	// Uniform makes the call after S the barrier even if it is like the call before it.
	// Where all calls are alike, a rank that has made one more of them is then not found out.
	Uniform bool
	// Thread returns a number of the calling thread. nil: its number in Linux.
	Thread func() int

	// Observer may be nil.
	Observer Observer

	// Own is this rank's policy file at the moment.
	Own Version
	// Stage turns content, of which DigestOf is digest, into a snapshot. It runs in the
	// goroutine of Join or of the member, never in AtTrigger.
	Stage func(content []byte, digest string) (Snapshot, error)
}

// A Snapshot is a version that is ready for use by one member. Its methods run where
// Stage does, and in Close.
type Snapshot interface {
	Meaning() string // digest of what it means to this rank
	// Retire is called once it is no longer in force or will never be, unless it is in
	// force at the end.
	Retire()
}

// Errors of AtTrigger. NCCL's call must then fail with a system error, and so must all
// later calls of this communicator.
var (
	ErrStalled = errors.New("the store of the ranks' records is lost and this rank may not decide alone")
	ErrClosed  = errors.New("the communicator was ended while it waited for a decision")
	// ErrBroken means that a decision contradicts what this rank promised, which
	// only records from outside the protocol can bring about.
	ErrBroken = errors.New("the ranks' records contradict this rank's own")
)

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

// A Member is one rank of one communicator. One thread calls AtTrigger; all other methods
// may be called by any goroutine.
type Member struct {
	cfg  Config
	keys keys
	slot int // -1 if static
	// slotMark tells this rank's own slot record from a later one under the same key.
	slotMark string

	ctx  context.Context // of the background
	stop context.CancelFunc
	done chan struct{} // closed when the background has ended
	wake chan struct{} // holds one request of wakeUp

	mu       sync.Mutex // guards what follows; held for moments only
	state    state
	k        uint64 // the change that comes next
	current  stagedVersion
	pending  *pendingEdit
	unseen   bool   // an edit has come into force since InForce was last asked
	wanted   string // see InForce
	lastRead string // meaning of the own file as last read
	change   change // change k, if its proposal is known
	past     []pastCommit
	retired  []Snapshot
	logLines []logLine
	advised  map[Reason]bool
	obsolete []string      // keys of this rank's reports for decided changes, and of tokens without a proposal
	hash     uint64        // at c
	arrival  arrival       // of change k, while arrived or committed
	passed   uint64        // the call after the last one that AtTrigger let pass undecided
	lastCall uint64        // HashCall of that one
	passedAt uint64        // the Poller's tick then
	passedBy int           // Config.Thread then
	decided  chan struct{} // ends the main thread's wait; nil while there is none
	waiting  bool          // the main thread waits at the barrier
	leaving  bool
	failed   error
	cancelOp context.CancelFunc

	notes uint64 // of Note alone

	// Of the background alone.
	tries     int // proposals made
	rate      rate
	calls     uint64        // decided, as last seen
	callsAt   time.Duration // when they last increased
	full      bool          // all slots are claimed
	slowPut   time.Duration // the slowest put lately; AtTrigger reads it
	urgent    bool          // the main thread waits for what this step does
	pollsFast bool          // it has not waited for long yet
	saidEmpty bool          // it was logged that slots are missing
	forgets   bool          // the history record allows to remove decided changes
}

// stagedVersion is a version that a member has made ready to decide by.
type stagedVersion struct {
	VersionName
	snapshot Snapshot
	k        uint64 // the change that brings it; 0 for the start version
	from     uint64 // the first call by it, once it is in force
	proposed bool   // see InForce
}

// change is what is known of a proposal. The zero value is none.
type change struct {
	Proposal
	seen      bool
	mine      bool
	announced bool // mine: the others can find it
	snapshot  Snapshot
	staged    bool
	missed    time.Duration // since when the token is gone without a decision; 0: it is not
	since     time.Duration // when it was seen
	acked     bool          // the ack has landed
	allAcked  bool          // mine: the acks of all ranks are there, with equal hashes
	vetoed    bool          // and logged so
	why       Reason        // withdrawn: the reason to abort with
}

// pastCommit is a switch that was decided before a static member joined, for it to follow.
type pastCommit struct {
	at uint64
	stagedVersion
}

// Snapshot returns what is in force. The main thread need not ask: AtTrigger returns it.
func (m *Member) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current.snapshot
}

// Offer makes a new valid state of this rank's own file the pending edit. It does nothing
// if the meaning is the one last offered.
func (m *Member) Offer(v Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Meaning == m.lastRead {
		return
	}
	m.lastRead, m.wanted = v.Meaning, v.Meaning
	m.pending = &pendingEdit{VersionName: v.name(), content: v.Content, since: m.cfg.Clock.Now()}
	m.wakeUp()
}

// Propose makes a version the pending edit that is not what this rank's own file says. To propose
// the version in force withdraws what was proposed. An edit of any rank's file goes first: Propose
// does nothing while this rank's waits, nor after one has come into force that InForce has not
// told yet, and one that comes into force withdraws what was proposed.
func (m *Member) Propose(v Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pending; m.unseen || e != nil && (!e.proposed || e.Meaning == v.Meaning) {
		return
	}
	m.pending = &pendingEdit{VersionName: v.name(), content: v.Content, since: m.cfg.Clock.Now(), proposed: true}
	m.wakeUp()
}

// InForce is the version that is in force.
type InForce struct {
	Snapshot Snapshot
	From     uint64 // the first call that it decides
	Proposed bool   // Propose has brought it, no edit
	// Wanted is the meaning of the latest edit, of this rank's file or one that has come into
	// force from another's.
	Wanted string
}

// InForce returns what is in force.
func (m *Member) InForce() InForce {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unseen = false
	return InForce{m.current.snapshot, m.current.from, m.current.proposed, m.wanted}
}

// Slot returns the member's, -1 if it takes no part in changes.
func (m *Member) Slot() int { return m.slot }

// Owner returns the identity of a slot's owner, "" while none is known.
func (m *Member) Owner(ctx context.Context, slot int) (identity string, err error) {
	value, _, err := m.cfg.Store.Get(ctx, m.keys.slot(slot))
	return string(value), err
}

// wakeUp makes the background take its next step now.
func (m *Member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// IsStatic reports that the member takes no part in changes, because it found no free slot.
func (m *Member) IsStatic() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == static
}
