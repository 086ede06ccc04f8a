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

	// Own is this rank's policy file at the moment.
	Own Version
	// Stage turns content into a snapshot that is ready for use, and says what it
	// means. It runs in the goroutine of Join or of the member, never in Slow.
	Stage func(content []byte) (snapshot any, meaning string, err error)
	// Begin, if not nil, gets each snapshot that has come into force since Join.
	Begin func(snapshot any)
	// Retire, if not nil, gets each snapshot that Stage made and that is no longer
	// or was never in force, except the one in force at the end.
	Retire func(snapshot any)
	// Handle, if not nil, is what the main thread knows a snapshot by when it makes a
	// Move; never 0. Without it, it goes to Slow for each switch.
	Handle func(snapshot any) uint64
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
	promised               // passed c; trigger S
	committed              // knows commit, switches at S; trigger S
	late                   // saw c too late, never acknowledges; trigger Never
	frozen                 // keeps its version for good
	static                 // no slot: follows what was decided before it joined
)

func (s state) String() string {
	return [...]string{"idle", "armed", "promised", "committed", "late", "frozen", "static"}[s]
}

// A Member is one rank of one communicator. One thread calls Slow; all other
// methods may be called from anywhere.
type Member struct {
	cfg  Config
	keys keys
	slot int // -1 if static
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
	begun    []any
	retired  []any
	untold   bool // the main thread made a switch of its own and has not come to Slow since
	notes    []note
	spent    []string // keys of own acknowledgements of decided changes
	hash     uint64   // at c
	settled  chan struct{}
	waiting  bool // the main thread waits at S
	leaving  bool
	failed   error
	why      string // why frozen or static, for people
	cancelOp context.CancelFunc

	// Of the background alone.
	rate      rate
	calls     uint64        // decided, as last seen
	callsAt   time.Duration // when they last rose
	full      bool          // all slots are claimed
	slowPut   time.Duration // the slowest put lately
	saidEmpty bool          // that slots are missing
}

// inForce is the version that calls are decided by.
type inForce struct {
	version
	snapshot any
	k        uint64 // the change that brought it; 0 at the start
}

// change is what is known of a proposal. The zero value is none.
type change struct {
	Proposal
	seen     bool
	mine     bool
	snapshot any
	staged   bool
	since    time.Duration // when it was seen
	acked    bool          // the acknowledgement has landed
	vetoed   bool          // and said so
}

// planned is a switch that was decided before a static member joined.
type planned struct {
	at uint64
	inForce
}

// Snapshot returns what is in force. The main thread need not ask: Slow tells.
func (m *Member) Snapshot() any {
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
