package agree

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/agree/memstore"
)

// A checker watches the invariants of the protocol while a world runs.
type checker struct {
	w *world

	mu         sync.Mutex
	violations []string
	lines      []string
	used       []map[int]string // per communicator: the version of each call
	decisions  map[string][]byte
	owner      map[int]string             // slot to identity
	acks       map[string]map[uint64]bool // per identity: changes acknowledged
	props      map[uint64]Proposal        // by k
	live       map[*rank]map[*snapshot]bool
	version    map[*rank]uint64    // k in force
	hashes     map[string][]uint64 // per identity: the hash before each call it has come to
}

func (c *checker) init() {
	c.used = make([]map[int]string, max(1, c.w.comms))
	for i := range c.used {
		c.used[i] = map[int]string{}
	}
	c.decisions = map[string][]byte{}
	c.owner = map[int]string{}
	c.acks = map[string]map[uint64]bool{}
	c.props = map[uint64]Proposal{}
	c.live = map[*rank]map[*snapshot]bool{}
	c.version = map[*rank]uint64{}
	c.hashes = map[string][]uint64{}
}

func (c *checker) trace(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%12v ", time.Since(c.w.begin))+fmt.Sprintf(format, args...))
}

// violation reports that an invariant is broken; 0 stands for what else holds.
func (c *checker) violation(invariant int, format string, args ...any) {
	c.trace("VIOLATION of invariant %d: %s", invariant, fmt.Sprintf(format, args...))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violations = append(c.violations, fmt.Sprintf("violation of invariant %d: ", invariant)+fmt.Sprintf(format, args...))
}

// landed keeps what acknowledgements and proposals exist.
func (c *checker) landed(h *memstore.Handle, key string, value []byte) {
	c.trace("handle %s puts %s %s", h.Name, key, value)
	if c.w.landed != nil {
		c.w.landed(c.w, h.Name, key)
	}
	c.mu.Lock()
	broken := ""
	defer func() {
		c.mu.Unlock()
		if broken != "" {
			c.violation(2, "%s", broken)
		}
	}()
	switch parts := strings.Split(key, "/"); {
	case parts[0] == proposals:
		_, k, _ := parseProposalName(parts[1])
		c.props[k], _ = decode[Proposal](value)
	case len(parts) == 4 && parts[2] == "slot":
		var slot int
		fmt.Sscan(parts[3], &slot)
		c.owner[slot] = string(value)
	case len(parts) == 5 && parts[2] == "a":
		var k uint64
		fmt.Sscan(parts[3], &k)
		slots, hash, _ := parseAckName(parts[4])
		for _, slot := range slots {
			if c.acks[c.owner[slot]] == nil {
				c.acks[c.owner[slot]] = map[uint64]bool{}
			}
			c.acks[c.owner[slot]][k] = true
			if broken == "" {
				broken = c.untrue(c.owner[slot], k, hash)
			}
		}
	}
}

// untrue says what is wrong with an acknowledgement: it tells the others that the
// rank's main thread has come to c, and what calls it had made by then. That a
// rank which says so otherwise happens to stop at S, or that another's hash saves
// the day, does not make it true.
func (c *checker) untrue(identity string, k, hash uint64) string {
	check, hashes := c.props[k].Check, c.hashes[identity]
	switch {
	case uint64(len(hashes)) <= check:
		return fmt.Sprintf("%s acknowledges change %d before it has come to call %d", identity, k, check)
	case hashes[check] != hash:
		return fmt.Sprintf("%s acknowledges change %d with a hash that is not of its calls before call %d", identity, k, check)
	}
	return ""
}

// reached keeps the hash that a rank has at its next call.
func (c *checker) reached(r *rank, hash uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	identity := r.identity()
	c.hashes[identity] = append(c.hashes[identity], hash)
}

// read watches invariant 6: a decision once read never changes.
func (c *checker) read(h *memstore.Handle, key string, value []byte) {
	if !strings.Contains(key, "/d/") {
		return
	}
	c.mu.Lock()
	before, ok := c.decisions[key]
	if !ok {
		c.decisions[key] = value
	}
	c.mu.Unlock()
	if ok && !bytes.Equal(before, value) {
		c.violation(6, "%s was %s and is now %s", key, before, value)
	}
}

// decide watches invariants 1 and 2.
func (c *checker) decide(r *rank, m *Member, call int, n uint64, by *snapshot) {
	m.mu.Lock()
	k, s := m.k, m.state
	version := fmt.Sprintf("%d %s", changeOf(m, by), r.meaning(by.content))
	alone := s == static && !m.duplicate
	m.mu.Unlock()
	r.decided = append(r.decided, by.content)
	c.mu.Lock()
	before, ok := c.used[r.comm][call]
	if !ok && !(alone && c.w.comms > 1) {
		c.used[r.comm][call] = version
	}
	retired := by.retired
	var broken uint64
	for acked := range c.acks[r.identity()] {
		knows := k > acked || k == acked && s == committed
		if !knows && n >= c.props[acked].Switch {
			broken = acked
		}
	}
	c.mu.Unlock()
	// A limit: the slots of ranks that found no store may be taken by another
	// communicator of the same id, whose ranks then change with the rest of this.
	limit := alone && c.w.comms > 1 && !c.w.aloneToo
	if ok && before != version && !limit {
		c.violation(1, "rank %d decides call %d by version %q, another rank did by %q", r.id, call, version, before)
	}
	if broken > 0 {
		c.violation(2, "rank %d decides call %d without knowing change %d", r.id, n, broken)
	}
	if retired {
		c.violation(0, "rank %d decides call %d by a retired snapshot", r.id, n)
	}
}

// changeOf tells which change brought what decides. The member may not have noticed yet
// that its main thread has switched, and the checker must not make it.
func changeOf(m *Member, by *snapshot) uint64 {
	if by.change > 0 {
		return by.change
	}
	return m.current.k
}

// switched watches invariant 4: versions rise.
func (c *checker) switched(r *rank, m *Member, n uint64, to *snapshot) {
	m.mu.Lock()
	k := changeOf(m, to)
	m.mu.Unlock()
	r.switches = append(r.switches, n)
	c.trace("rank %d switches to change %d, %q, at call %d", r.id, k, to.content, n)
	c.mu.Lock()
	before := c.version[r]
	c.version[r] = k
	c.mu.Unlock()
	if k <= before {
		c.violation(4, "rank %d switches from change %d to %d", r.id, before, k)
	}
}

// waited watches invariant 7: the main thread waits only at S.
func (c *checker) waited(r *rank, n uint64, d time.Duration) {
	r.stall = max(r.stall, d)
	if d == 0 {
		return
	}
	c.trace("rank %d waited %v at call %d", r.id, d, n)
	c.mu.Lock()
	ok := false
	for _, p := range c.props {
		ok = ok || p.Switch == n
	}
	c.mu.Unlock()
	if !ok {
		c.violation(7, "rank %d waited %v at call %d, which is no switch", r.id, d, n)
	}
}

func (c *checker) staged(r *rank, content string) *snapshot {
	s := &snapshot{content: content}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live[r] == nil {
		c.live[r] = map[*snapshot]bool{}
	}
	c.live[r][s] = true
	return s
}

func (c *checker) retire(r *rank, s *snapshot) {
	c.mu.Lock()
	twice := s.retired
	s.retired = true
	delete(c.live[r], s)
	c.mu.Unlock()
	if twice {
		c.violation(0, "rank %d: snapshot %q is retired twice", r.id, s.content)
	}
}

// began watches that each version is announced once, and only if it is in force.
func (c *checker) began(r *rank, s *snapshot) {
	c.mu.Lock()
	twice, retired := s.begun, s.retired
	s.begun = true
	c.mu.Unlock()
	if twice || retired {
		c.violation(0, "rank %d: snapshot %q begins, twice: %v, after it was retired: %v", r.id, s.content, twice, retired)
	}
}

// closed watches that nothing is left of a member but its last snapshot.
func (c *checker) closed(r *rank, m *Member) {
	c.mu.Lock()
	left := len(c.live[r])
	last := c.live[r][m.current.snapshot.(*snapshot)]
	c.mu.Unlock()
	if left != 1 || !last {
		c.violation(0, "rank %d: %d snapshots are left after finalize, the one in force among them: %v", r.id, left, last)
	}
}

// end looks at what can only be seen afterwards. Invariants 3 and 5 are watched
// by the members themselves: they fail with ErrBroken.
func (c *checker) end() {
	c.mu.Lock()
	decisions := maps.Clone(c.decisions)
	c.mu.Unlock()
	misaligned := slices.ContainsFunc(c.w.ranks, func(r *rank) bool { return r.phantoms > 0 })
	for key, text := range decisions {
		if d, _ := decode[Decision](text); d.Abort == Misaligned && !misaligned {
			c.violation(0, "%s is %s, though all ranks count alike", key, d)
		}
	}
	for _, r := range c.w.ranks {
		switch {
		case errors.Is(r.callErr, ErrBroken):
			c.violation(3, "rank %d: %v", r.id, r.callErr)
		case errors.Is(r.callErr, ErrStalled) && !c.w.mayStall && !r.crashed:
			c.violation(7, "rank %d: %v, though the store was never lost", r.id, r.callErr)
		case !r.ended && r.callErr == nil && r.joinErr == nil && !r.crashed:
			c.violation(0, "rank %d has not ended", r.id)
		case r.stall > c.w.longest && c.w.longest > 0 && !r.crashed:
			c.violation(7, "rank %d: a call waited %v, though the store was never lost", r.id, r.stall)
		}
	}
}

// story is everything that happened, and its fingerprint.
func (c *checker) story() (lines []string, sum uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Within one instant the order is the scheduler's.
	lines = slices.Clone(c.lines)
	slices.Sort(lines)
	h := fnv.New64a()
	for _, line := range lines {
		h.Write([]byte(line))
	}
	return c.lines, h.Sum64()
}
