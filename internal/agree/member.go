package agree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

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
	Own        VersionID
	OwnContent []byte
	// Stage turns content, of which DigestOf is digest, into a snapshot. It runs in the
	// goroutine of Join or of the member, never in AtTrigger.
	// It asks ranks about what each rank finds by itself, if the version depends on it.
	Stage func(content []byte, digest string, ranks Ranks) (Snapshot, error)
}

// Log is NCCL's logger. A Member logs events, not calls.
type Log interface {
	Infof(format string, args ...any)
	Warnf(format string, args ...any)
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
type Member struct {
	cfg Config // constant

	// The place among the ranks, constant once Join has returned.
	keys     keys
	slot     int    // -1: it is static
	slotMark string // tells this rank's own slot record from a later one under the same key

	// Any goroutine may use what follows up to the empty line.
	ctx    context.Context // of the background
	stop   context.CancelFunc
	done   chan struct{} // closed when the background has ended
	wake   chan struct{} // holds one request of wakeUp
	newest atomic.Uint64 // the highest change known to be proposed; there are no gaps. The Poller stores it.

	// Any goroutine adds to these, with or without mu. They are emptied without mu, because
	// that takes longer than a moment.
	logLines queue[func(slot string)]
	retired  queue[Snapshot]
	obsolete queue[string] // keys of records that nobody reads again

	slowPut atomic.Int64 // the time of the slowest put lately; the background stores it

	mu             sync.Mutex // guards what follows up to the empty line; held for moments only
	change         change
	inForce        InForce
	past           []InForce    // static: the versions that are still to come
	pending        *pendingEdit // nil: none
	lastRead       string       // the meaning of the own file as last read
	editUnreported bool         // an edit has come into force since InForce was last asked
	wait           wait
	leaving        bool  // the background is to end
	failed         error // all calls fail; nil: they do not

	background background // of the background's goroutine alone
	notes      uint64     // how many PublishStatus has put; of PublishStatus alone
}

// noteProposed notes that change k is proposed.
func (m *Member) noteProposed(k uint64) {
	if k > m.newest.Load() {
		m.newest.Store(k)
		m.wakeUp()
	}
}

// wakeUp makes the background take its next step now.
func (m *Member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

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

// update lets the background write what the main thread reads.
func (m *Member) update(write func(*change)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	write(&m.change)
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
	if m.failed != nil {
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

// putInForce brings a version into force at v.From. The caller is the main thread and holds the mutex.
func (m *Member) putInForce(v InForce) {
	e, mine, meaning := m.pending, m.change.mine, v.Snapshot.Meaning()
	own := e != nil && !e.proposed && e.Meaning == meaning
	edited := own || !mine // what other ranks propose are edits
	m.retired.add(m.inForce.Snapshot)
	v.Proposed, v.Wanted = !edited, m.inForce.Wanted
	if edited {
		m.editUnreported, v.Wanted = true, meaning
	}
	m.inForce = v
	if e != nil && (e.Meaning == meaning || e.proposed && edited) {
		m.pending = nil
	}
	since, took := "", time.Duration(0)
	if own {
		took = m.cfg.Clock.Now() - e.since
		since = fmt.Sprintf(", %v after the save", took.Round(time.Millisecond))
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Committed(took)
	}
	if own || mine || m.IsStatic() { // not every rank, at each turn of a comparison
		m.log(false, "change %d: version %.12s is in force from call %d on%s", v.change, meaning, v.From, since)
	}
	m.wakeUp()
}

// Offer makes a new valid state of this rank's own file the pending edit. It does nothing
// if the meaning is the one last offered.
func (m *Member) Offer(v VersionID, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.Meaning == m.lastRead {
		return
	}
	m.lastRead, m.inForce.Wanted = v.Meaning, v.Meaning
	m.pending = &pendingEdit{VersionID: v, content: content, since: m.cfg.Clock.Now()}
	m.wakeUp()
}

// Propose makes a version the pending edit, although this rank's own file does not hold it. Proposing the
// version in force withdraws the last proposal.
//
// An edit of any rank's file goes first. Propose does nothing while an edit of this rank's file is pending.
// It also does nothing while an edit is in force that InForce has not reported yet. An edit that comes into
// force withdraws the proposal.
func (m *Member) Propose(v VersionID, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.pending; m.editUnreported || e != nil && (!e.proposed || e.Meaning == v.Meaning) {
		return
	}
	m.pending = &pendingEdit{VersionID: v, content: content, since: m.cfg.Clock.Now(), proposed: true}
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
	change uint64 // that brought it; 0: it is the start version
}

// InForce returns what is in force.
func (m *Member) InForce() InForce {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.editUnreported = false
	return m.inForce
}

// Snapshot returns what is in force. The main thread need not ask: AtTrigger returns it.
func (m *Member) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inForce.Snapshot
}

// Slot returns the member's slot, or -1 if it is static.
func (m *Member) Slot() int { return m.slot }

// Owner returns the identity of a slot's owner, "" while none is known.
func (m *Member) Owner(ctx context.Context, slot int) (identity string, err error) {
	value, _, err := m.cfg.Store.Get(ctx, m.keys.slot(slot))
	identity, _ = parseSlot(value)
	return identity, err
}

// IsStatic reports that the member takes no part in changes, because it found no free slot.
func (m *Member) IsStatic() bool { return m.slot < 0 }

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
	return m.pending != nil || m.change.seen
}

// PublishStatus replaces the note on the communicator that slot 0 keeps for tools. No member reads it. One goroutine
// may call PublishStatus at a time, before Close.
func (m *Member) PublishStatus(ctx context.Context, value []byte) error {
	ctx, end := withLimit(ctx, m.cfg.Clock, m.cfg.Timing.OpLimit)
	defer end()
	_, err := m.cfg.Store.PutOnce(ctx, m.keys.note(m.notes+1), value)
	if err != nil {
		return err
	}
	if m.notes > 0 {
		_ = m.cfg.Store.Remove(ctx, m.keys.note(m.notes)) // a leftover only takes space
	}
	m.notes++
	return nil
}

// A queue holds what is found out under the member's mutex and done without it. Any goroutine
// may use it.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
}

func (q *queue[T]) add(items ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, items...)
}

// take empties the queue.
func (q *queue[T]) take() (items []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items = q.items, nil
	return items
}

// log keeps a line for flushLog: a slow logger must not delay the main thread.
func (m *Member) log(warn bool, format string, args ...any) {
	text, emit := fmt.Sprintf(format, args...), m.cfg.Log.Infof
	if warn {
		emit = m.cfg.Log.Warnf
	}
	m.logLines.add(func(slot string) { emit("%s%s", text, slot) })
}

// flushLog writes the collected lines; the caller does not hold the mutex. Each line names
// the slot, because NCCL's logger takes the background's threads for those of another rank.
func (m *Member) flushLog() {
	slot := ""
	if m.slot >= 0 {
		slot = fmt.Sprintf(" [slot %d]", m.slot)
	}
	for _, write := range m.logLines.take() {
		write(slot)
	}
}

// retireOld tells snapshots that they are no longer needed.
func (m *Member) retireOld() {
	for _, snapshot := range m.retired.take() {
		snapshot.Retire()
	}
}

// removeObsolete removes this rank's records that nobody reads again. It tries once, since
// they only take up space.
func (m *Member) removeObsolete() {
	for _, key := range m.obsolete.take() {
		ctx, end := m.op()
		_ = m.cfg.Store.Remove(ctx, key) // a leftover only takes space
		end()
	}
}
