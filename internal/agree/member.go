package agree

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	Identity string // unique among all members that ever live: random id, host, pid; one line
	Name     string // that the program gave the communicator on this rank; "": none, or not told
	Store    Store
	Poller   *Poller // of the same store
	Clock    Clock
	Timing   Timing
	Log      Log
	Counter  *Counter
	// Uniform makes the call after S the barrier even if it is like the call before it. If all calls are
	// alike, nobody then notices a rank that has made one call more.
	Uniform bool
	// Thread returns a number of the calling thread. nil: its number in Linux.
	Thread func() int

	// Observer may be nil.
	Observer Observer

	// Own is this rank's policy file at the moment.
	Own Version
	// Stage turns content, of which DigestOf is digest, into a snapshot. It runs in the
	// goroutine of Join or of the member, never in AtTrigger.
	// It asks ranks about what each rank finds by itself, if the version depends on it.
	Stage func(content []byte, digest string, ranks Ranks) (Snapshot, error)
}

// A Snapshot is a version that is ready for use by one member. Its methods run where
// Stage does, and in Close.
type Snapshot interface {
	Meaning() string // digest of what it means to this rank
	// Retire is called once the snapshot is no longer in force, or will never be. It is not called for the
	// snapshot that is in force at the end.
	Retire()
}

// An Observer hears how a member's changes end. It is called with the member's mutex held, also
// on the main thread, and so must be quick.
type Observer interface {
	// Committed: a version has come into force. took is the time since this rank's own file
	// was found to hold it, 0 if the file does not.
	Committed(took time.Duration)
	Aborted(why Reason)
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

// A Member is one rank of one communicator. One thread calls AtTrigger, the main thread; all
// other methods may be called by any goroutine. Join starts the background, which makes all
// store operations from then on.
//
// Each part says in its own file who may touch it.
type Member struct {
	cfg       Config // constant
	slotState        // constant once Join has returned
	lifecycle        // any goroutine

	// Any goroutine adds to these, with or without mu. They are emptied without mu, because
	// that takes longer than a moment.
	logLines queue[logLine]
	retired  queue[Snapshot]
	obsolete queue[string] // keys of records that nobody reads again

	slowPut atomic.Int64 // the time of the slowest put lately; the background stores it

	mu       sync.Mutex // guards what follows up to the empty line; held for moments only
	versions versions
	change   change
	wait     wait
	ending   ending

	background background // of the background's goroutine alone
	notes      uint64     // how many Note has put; of Note alone
}

// slotState is a member's place among the ranks.
type slotState struct {
	keys keys
	slot int // -1 if static
	// slotMark tells this rank's own slot record from a later one under the same key.
	slotMark string
}

// lifecycle tells the background what to work on and when to end. All of it is safe for any goroutine.
type lifecycle struct {
	ctx  context.Context // of the background
	stop context.CancelFunc
	done chan struct{} // closed when the background has ended
	wake chan struct{} // holds one request of wakeUp
	// newest is the highest change that is known to be proposed. Proposals have no gaps, so all below
	// exist, too. The Poller stores it.
	newest atomic.Uint64
}

// noteProposed notes that change k is proposed.
func (l *lifecycle) noteProposed(k uint64) {
	if k > l.newest.Load() {
		l.newest.Store(k)
		l.wakeUp()
	}
}

// wakeUp makes the background take its next step now.
func (l *lifecycle) wakeUp() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Snapshot returns what is in force. The main thread need not ask: AtTrigger returns it.
func (m *Member) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versions.current.snapshot
}

// Offer makes a new valid state of this rank's own file the pending edit. It does nothing
// if the meaning is the one last offered.
func (m *Member) Offer(v Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.versions
	if v.Meaning == s.lastRead {
		return
	}
	s.lastRead, s.wanted = v.Meaning, v.Meaning
	s.pending = &pendingEdit{VersionName: v.name(), content: v.Content, since: m.cfg.Clock.Now()}
	m.wakeUp()
}

// Propose makes a version the pending edit, although this rank's own file does not hold it. Proposing the
// version in force withdraws the last proposal.
//
// An edit of any rank's file goes first. Propose does nothing while an edit of this rank's file is pending.
// It also does nothing while an edit is in force that InForce has not reported yet. An edit that comes into
// force withdraws the proposal.
func (m *Member) Propose(v Version) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.versions
	if e := s.pending; s.editUnreported || e != nil && (!e.proposed || e.Meaning == v.Meaning) {
		return
	}
	s.pending = &pendingEdit{VersionName: v.name(), content: v.Content, since: m.cfg.Clock.Now(), proposed: true}
	m.wakeUp()
}

// InForce is the version that is in force.
type InForce struct {
	Snapshot Snapshot
	From     uint64 // the first call that it decides
	Proposed bool   // it comes from Propose, not from an edit
	// Wanted is the meaning of the latest edit: of this rank's file, or of another's if it has come
	// into force.
	Wanted string
}

// InForce returns what is in force.
func (m *Member) InForce() InForce {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.versions
	s.editUnreported = false
	return InForce{s.current.snapshot, s.current.from, s.current.proposed, s.wanted}
}

// Slot returns the member's slot, or -1 if it takes no part in changes.
func (m *Member) Slot() int { return m.slot }

// Owner returns the identity of a slot's owner, "" while none is known.
func (m *Member) Owner(ctx context.Context, slot int) (identity string, err error) {
	value, _, err := m.cfg.Store.Get(ctx, m.keys.slot(slot))
	identity, _ = parseSlot(value)
	return identity, err
}

// IsStatic reports that the member takes no part in changes, because it found no free slot.
func (m *Member) IsStatic() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change.state == static
}

// IsFrozen reports that the member keeps its version for good although it was able to change.
func (m *Member) IsFrozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change.state == frozen
}

// IsPending reports that a change is wanted or under way.
func (m *Member) IsPending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versions.pending != nil || m.change.seen
}
