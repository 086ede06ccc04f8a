package agree

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Log is where a Member reports. Lines are said once, not per call.
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
	Strict   bool // an unreachable store fails Join
	// Uniform lets ranks meet at a call that is like the one before it. A rank that has
	// made one call more than the others is not found out where all calls are alike.
	Uniform bool
	// Thread returns what tells the calling thread from others. nil: its number in Linux.
	Thread func() int

	// Own is this rank's policy file at the moment.
	Own Version
	// Stage turns content, of which DigestOf is digest, into a snapshot. It runs in the
	// goroutine of Join or of the member, never in Slow.
	Stage func(content []byte, digest string) (Snapshot, error)
}

// A Snapshot is a version that is ready for use by one member. Its methods run where
// Stage does, and in Close.
type Snapshot interface {
	Meaning() string // digest of what it means to this rank
	// Begin is called once it has come into force, unless the member starts on it.
	Begin()
	// Retire is called once it is no longer in force or will never be, unless it is in
	// force at the end.
	Retire()
}

// Errors of Slow. NCCL's call must fail with a system error then, and so must
// all later calls of this communicator.
var (
	ErrStalled = errors.New("the store of the ranks' records is lost and this rank may not decide alone")
	ErrClosed  = errors.New("the communicator was ended while it waited for a decision")
	// ErrBroken means that a decision contradicts what this rank promised, which
	// only records from outside the protocol can bring about.
	ErrBroken = errors.New("the ranks' records contradict this rank's own")
)

// state is where a member stands with change k.
type state int

const (
	idle      state = iota // nothing promised; trigger Never
	armed                  // version staged, waits for call c; trigger c
	promised               // passed c, looks from call S on for the call to meet at; trigger S
	standing               // the main thread stands at the call, or has been signed for; trigger S
	committed              // knows commit, switches at the call; trigger S
	late                   // will not meet the others for this change; trigger Never
	frozen                 // keeps its version for good
	static                 // no slot: follows what was decided before it joined
)

func (s state) String() string {
	return [...]string{"idle", "armed", "promised", "standing", "committed", "late", "frozen", "static"}[s]
}

// A Member is one rank of one communicator. One thread calls Slow; all other
// methods may be called from anywhere.
type Member struct {
	cfg  Config
	keys keys
	slot int // -1 if static
	// slotMark tells this rank's own record of the slot from a later one.
	slotMark string
	// duplicate: all slots have other owners.
	duplicate bool

	ctx  context.Context // of the background
	stop context.CancelFunc
	done chan struct{} // closed when the background has ended
	wake chan struct{} // holds one request to look at the state again

	mu       sync.Mutex // see lock; guards what follows; held for moments only
	state    state
	k        uint64 // the change that comes next
	current  inForce
	wish     *wish
	lastRead string // meaning of the own file as last read
	change   change // change k, if its proposal is known
	follow   []planned
	begun    []Snapshot
	retired  []Snapshot
	notes    []note
	advised  map[Reason]bool
	spent    []string // keys of own acknowledgements of decided changes, and of tokens of no proposal
	hash     uint64   // at c
	meeting  meeting  // of change k, while standing or committed
	passed   uint64   // the call after the last one that Slow let pass undecided
	lastCall uint64   // what that one was
	passedAt uint64   // the Poller's tick then
	passedBy int      // Config.Thread then
	settled  chan struct{}
	waiting  bool // the main thread stands at the call
	leaving  bool
	failed   error
	why      string // why frozen or static, for people
	cancelOp context.CancelFunc

	// Of the background alone.
	tries     int // proposals made
	rate      rate
	calls     uint64        // decided, as last seen
	callsAt   time.Duration // when they last rose
	full      bool          // all slots are claimed
	slowPut   time.Duration // the slowest put lately; Slow reads it
	urgent    bool          // the main thread waits for what this step does
	hurried   bool          // and not for long yet
	saidEmpty bool          // that slots are missing
}

// inForce is the version that calls are decided by.
type inForce struct {
	version
	snapshot Snapshot
	k        uint64 // the change that brought it; 0 at the start
}

// change is what is known of a proposal. The zero value is none.
type change struct {
	Proposal
	seen     bool
	mine     bool
	snapshot Snapshot
	staged   bool
	missed   time.Duration // since when the token is gone without a decision
	since    time.Duration // when it was seen
	acked    bool          // the acknowledgement of c has landed
	ready    bool          // mine: all ranks have acknowledged c, with equal hashes
	vetoed   bool          // and said so
	why      Reason        // late: what to abort with
}

// planned is a switch that was decided before a static member joined.
type planned struct {
	at uint64
	inForce
}

// Snapshot returns what is in force. The main thread need not ask: Slow tells.
func (m *Member) Snapshot() Snapshot {
	m.lock()
	defer m.unlock()
	return m.current.snapshot
}

// Offer tells that this rank's own file has come to a new valid state. It does
// nothing if the meaning is the one last offered.
func (m *Member) Offer(v Version) {
	m.lock()
	defer m.unlock()
	if v.Meaning == m.lastRead {
		return
	}
	m.lastRead = v.Meaning
	m.wish = &wish{version: v.record(), content: v.Content, since: m.cfg.Clock.Now()}
	m.poke()
}

// poke makes the background look at the state again.
func (m *Member) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Status is what a person may want to know of a member.
type Status struct {
	Comm    string
	Slot    int // -1: none
	State   string
	Change  uint64 // the change that comes next
	Content string // digest of the version in force
	Meaning string
	Wish    string // digest of the version wished, if any
	Why     string // why frozen or static
}

// Status tells how the member stands.
func (m *Member) Status() Status {
	m.lock()
	defer m.unlock()
	s := Status{Comm: m.cfg.Comm, Slot: m.slot, State: m.state.String(), Change: m.k,
		Content: m.current.Content, Meaning: m.current.Meaning, Why: m.why}
	if m.wish != nil {
		s.Wish = m.wish.Content
	}
	return s
}
