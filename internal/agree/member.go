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
	EffectDigest() string // digest of what it means to this rank
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
	obsolete queue[string] // keys of records that nobody reads again

	slowPut atomic.Int64 // the time of the slowest put lately; the background stores it

	mu             sync.Mutex // guards what follows up to the empty line; held for moments only
	change         change
	inForce        InForce
	pending        *pendingEdit // nil: none
	lastRead       string       // the effect digest of the own file as last read
	editUnreported bool         // an edit has come into force since InForce was last asked
	wait           wait
	leaving        bool  // the background is to end
	failed         error // all calls fail; nil: they do not

	background background // of the background's goroutine alone
	notes      uint64     // how many PublishStatus has put; of PublishStatus alone
}

// state is a member's state in change k. docs/dev/PROTOCOL.md has a diagram of the transitions.
type state int

const (
	idle      state = iota // nothing promised; trigger Never
	armed                  // the version is staged; trigger c
	promised               // made its promise at call c, looks for the barrier from call S on; trigger S
	arrived                // at the barrier, by itself or by proxy; trigger S
	committed              // has read commit, switches at the barrier; trigger S
	withdrawn              // will not arrive for this change; trigger Never
	frozen                 // keeps its version for good; trigger Never
	static                 // without a slot: keeps its version for good; trigger Never
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

// arrival is what a rank knows of its arrival at the barrier of change k. The zero value means that it has not
// arrived.
type arrival struct {
	at    uint64 // the barrier's call
	hash  uint64 // see arrivalHash
	since time.Duration
	// key is that of the record; "" until the rank that puts it knows whom it represents.
	key string
	// represented are the other ranks of this process that arrive by the same record; nil in those ranks
	// themselves.
	represented []*Member
	byProxy     bool // another rank of this process puts the record
	// attempted: the record may exist, so the change may be committed.
	attempted bool
	landed    bool // the record exists
}

// lastPassed describes the last call that the main thread let pass while it looked for the barrier. The zero value
// means that there was none. See Member.arriveByProxy.
type lastPassed struct {
	next   uint64 // the number of the call after it
	call   uint64 // its HashCall
	tick   uint64 // the value of Poller.ticks at the call
	thread int    // the thread that made it
}

// wait is the main thread's wait at the barrier, and the store operation that must not delay it. Member.mu
// guards it.
type wait struct {
	decided chan struct{}      // ends the wait; nil while there is none
	cancel  context.CancelFunc // ends the background's store operation; nil while there is none
}

// release ends the wait.
func (w *wait) release() {
	if w.decided != nil {
		close(w.decided)
		w.decided = nil
	}
}

// interrupt ends the background's store operation.
func (w *wait) interrupt() {
	if w.cancel != nil {
		w.cancel()
	}
}

// InForce is the version that is in force.
type InForce struct {
	Snapshot Snapshot
	From     uint64 // the first call that it decides
	Proposed bool   // it comes from Propose, not from an edit
	// LatestEdit is the effect digest of the latest edit: of this rank's file, or of another's if it has come
	// into force.
	LatestEdit string
	change     uint64 // that brought it; 0: it is the start version
}

// A pendingEdit is a version that this rank wants in force and that is not yet. It is a new state of the
// rank's own file (Offer), or a side of a comparison (Propose). A file that merely differs from the version
// in force makes no pending edit. Otherwise nodes that still see an old file would switch back for ever.
type pendingEdit struct {
	// These are constant.
	VersionID
	content  []byte
	since    time.Duration // when it was offered or proposed
	proposed bool          // by Propose: nobody has saved a file

	// These are the background's alone.
	stored    uint64        // the change for which its content was put
	attempts  int           // proposals of this version that were aborted, or could not be put
	vetoes    int           // of them, because a rank could not stage it
	notBefore time.Duration // of the next attempt
	alike     bool          // the last attempt found all calls alike: the next waits for another one
	last      uint64        // alike: Counter.Last then, which calls like those do not change
	floor     uint64        // the checkpoint must lie above this call
}

const (
	maxVetoes     = 5
	maxRetryDelay = 60 * time.Second
	mostFarther   = 64 // times the lead
)

// aborted counts one more aborted proposal of this version, whoever made it: ranks that see
// the same file have the same edit pending.
func (e *pendingEdit) aborted(d Decision, now time.Duration, c *Counter) (giveUp bool) {
	e.delay(now)
	e.alike, e.last = d.Abort == Alike, c.Last.Load()
	switch d.Abort {
	case Late:
		e.floor = max(e.floor, d.Calls)
	case CannotStage, OtherBuild:
		e.vetoes++
	}
	return e.vetoes >= maxVetoes
}

// waitsForOther reports that calls were alike when the last attempt was aborted, and still are.
// Another attempt would end as that has.
func (e *pendingEdit) waitsForOther(c *Counter) bool {
	e.alike = e.alike && c.Last.Load() == e.last
	return e.alike
}

// delay makes the next attempt wait.
func (e *pendingEdit) delay(now time.Duration) {
	e.notBefore = now + min(maxRetryDelay, time.Second<<min(e.attempts, 6))
	e.attempts++
}

// background is what the member's goroutine keeps for itself. No other goroutine touches it.
type background struct {
	rate    rate
	lead    uint64        // of the last proposal, without
	farther uint64        // calls by which leads are longer, since ranks needed more time
	calls   uint64        // decided, as last seen
	callsAt time.Duration // when they last increased

	urgent    bool // the main thread waits for what this step does
	pollsFast bool // it has not waited for long yet
	progress  progress

	tries     int             // proposals made
	full      bool            // all slots are claimed
	saidEmpty bool            // it was logged that slots are missing
	advised   map[Reason]bool // what was logged with advice
}

// progress is what the background has done for change k, from acceptProposal on.
type progress struct {
	since     time.Duration // when the proposal was seen
	promised  time.Duration // when the promise was seen; 0: it was not
	missed    time.Duration // since when the token is gone without a decision; 0: it is not
	announced bool          // the own proposal: the others can find it
	acked     bool          // the ack has landed
	allAcked  bool          // the own proposal: the acks of all ranks are there, with equal hashes
	vetoed    bool          // and logged so
	doubted   bool          // arrived: it was logged that records have vanished
}

// rate keeps how many calls were made lately. A lead is as many calls as were made in any stretch of the time that it
// has to last: calls that come in clusters are no rate, and a burst of long ago says nothing of now.
type rate struct{ samples []rateSample } // the latest last

type rateSample struct {
	at    time.Duration
	calls uint64
}

const (
	// rateWindow is for how long calls are remembered, and at least for so many of the stretches.
	rateWindow    = 20 * time.Second
	rateStretches = 8
	// ratePause is the least time between two samples.
	ratePause = 40 * time.Millisecond
)

func (r *rate) sample(now time.Duration, calls uint64, stretch time.Duration) {
	if n := len(r.samples); n > 0 && now-r.samples[n-1].at < ratePause {
		return
	}
	for len(r.samples) > 2 && now-r.samples[1].at > max(rateWindow, rateStretches*stretch) {
		r.samples = r.samples[1:]
	}
	r.samples = append(r.samples, rateSample{now, calls})
}

// during returns the most calls to expect in d.
func (r *rate) during(d time.Duration) (most uint64) {
	s := r.samples
	if len(s) < 2 {
		return 0
	}
	if last := s[len(s)-1]; last.at-s[0].at < d { // only some of it was seen
		return uint64(float64(last.calls-s[0].calls) * d.Seconds() / (last.at - s[0].at).Seconds())
	}
	first := 0
	for i := range s {
		for s[i].at-s[first].at >= d {
			most, first = max(most, s[i].calls-s[first].calls), first+1
		}
	}
	return most
}

// wakeUp makes the background take its next step now.
func (m *Member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// noteProposed notes that change k is proposed.
func (m *Member) noteProposed(k uint64) {
	if k > m.newest.Load() {
		m.newest.Store(k)
		m.wakeUp()
	}
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

// dropStaged forgets what was staged for a change that does not come.
func (m *Member) dropStaged() { m.change.snapshot = nil }

// putInForce brings a version into force at v.From. The caller is the main thread and holds the mutex.
func (m *Member) putInForce(v InForce) {
	e, mine, meaning := m.pending, m.change.mine, v.Snapshot.EffectDigest()
	own := e != nil && !e.proposed && e.EffectDigest == meaning
	edited := own || !mine // what other ranks propose are edits
	v.Proposed, v.LatestEdit = !edited, m.inForce.LatestEdit
	if edited {
		m.editUnreported, v.LatestEdit = true, meaning
	}
	m.inForce = v
	if e != nil && (e.EffectDigest == meaning || e.proposed && edited) {
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
	if own || mine { // not every rank, at each turn of a comparison
		m.log(false, "change %d: version %.12s is active from call %d on%s", v.change, meaning, v.From, since)
	}
	m.wakeUp()
}

// fail makes this call and all later ones fail. A rank that left out one call would decide each later call
// one call behind the others.
func (m *Member) fail(err error) {
	m.log(true, "change %d: %v; this call and all later ones of the communicator fail", m.change.k, err)
	m.failSilently(err)
}

func (m *Member) failSilently(err error) {
	m.failed = err
	m.cfg.Counter.Trigger.Store(0)
	m.wait.release()
}

// Offer makes a new valid state of this rank's own file the pending edit. It does nothing
// if the meaning is the one last offered.
func (m *Member) Offer(v VersionID, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.EffectDigest == m.lastRead {
		return
	}
	m.lastRead, m.inForce.LatestEdit = v.EffectDigest, v.EffectDigest
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
	if e := m.pending; m.editUnreported || e != nil && (!e.proposed || e.EffectDigest == v.EffectDigest) {
		return
	}
	m.pending = &pendingEdit{VersionID: v, content: content, since: m.cfg.Clock.Now(), proposed: true}
	m.wakeUp()
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
