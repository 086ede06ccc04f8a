package agree

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A checker watches the invariants of the protocol while a world runs.
type checker struct {
	w *world

	mu         sync.Mutex
	violations []string
	lines      []string
	used       []map[int]string // per communicator: the version of each call
	decisions  map[uint64]Decision
	owner      map[int]string             // slot to identity
	arrived    map[string]map[uint64]bool // per identity: changes for which its arrival has landed
	props      map[uint64]Proposal        // by k
	version    map[*rank]uint64           // k in force
	hashes     map[string][]uint64        // per identity: the hash before each call it has come to
	shapes     map[string][]uint64        // and what the call was
}

func (c *checker) init() {
	c.used = make([]map[int]string, max(1, c.w.comms))
	for i := range c.used {
		c.used[i] = map[int]string{}
	}
	c.decisions = map[uint64]Decision{}
	c.owner = map[int]string{}
	c.arrived = map[string]map[uint64]bool{}
	c.shapes = map[string][]uint64{}
	c.props = map[uint64]Proposal{}
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
	c.violations = append(c.violations, fmt.Sprintf("violation of invariant %d: ", invariant)+
		fmt.Sprintf(format, args...))
}

// generation is what tells the changes of a later communicator of the id from those of the first.
func generation(comm keys) (above uint64) {
	fmt.Sscanf(string(comm), "comm-%d", &above)
	return above << 32
}

// landed keeps which reports and proposals exist.
func (c *checker) landed(h *memHandle, key string, value []byte) {
	c.trace("handle %s puts %s %s", h.Name, key, value)
	if c.w.landed != nil {
		c.w.landed(c.w, h.Name, key)
	}
	c.mu.Lock()
	invariant, broken := 2, ""
	defer func() {
		c.mu.Unlock()
		if broken != "" {
			c.violation(invariant, "%s", broken)
		}
	}()
	switch parts := strings.Split(key, "/"); {
	case parts[0] == "p":
		proposal, _ := ParseKey(key)
		if p, _ := decode[Proposal](value); p.Freeze || p.Content != "" {
			c.props[generation(keys(proposal.Comm))+proposal.number] = p
		}
	case len(parts) == 4 && parts[2] == "d":
		decision, _ := ParseKey(key)
		d, _ := decision.decision()
		k := decision.number + generation(keys(parts[1]))
		if before, ok := c.decisions[k]; ok && !c.w.vanishes {
			invariant, broken = 6, fmt.Sprintf("change %d was decided: %s, and is again: %s", k, before, d)
		}
		c.decisions[k] = d
	case len(parts) == 4 && parts[2] == "slot":
		var slot int
		fmt.Sscan(parts[3], &slot)
		c.owner[slot], _ = parseSlot(value) // of the generation that lives
	case len(parts) == 5 && (parts[2] == "a" || parts[2] == "m"):
		var k uint64
		fmt.Sscan(parts[3], &k)
		k += generation(keys(parts[1]))
		report, _ := ParseKey(key)
		slots, hash, _ := report.report()
		for i, slot := range slots {
			identity := c.owner[slot]
			if parts[2] == "m" {
				if c.arrived[identity] == nil {
					c.arrived[identity] = map[uint64]bool{}
				}
				c.arrived[identity][k] = true
			}
			// A rank that arrives by proxy has not come to the call yet.
			if own := parts[2] == "a" || i == 0; own && broken == "" && !c.w.vanishes {
				broken = c.untrue(identity, parts[2], k, hash)
			}
		}
	}
}

// untrue says what is wrong with a report. A report tells the others that the rank's main
// thread has come to a call, and what calls it had made by then. A false one is a violation
// even where the rank happens to stop, or another's hash prevents the commit.
func (c *checker) untrue(identity, kind string, k, hash uint64) string {
	p, hashes, shapes := c.props[k], c.hashes[identity], c.shapes[identity]
	if kind == "a" {
		switch {
		case uint64(len(hashes)) <= p.Check:
			return fmt.Sprintf("%s acknowledges change %d before it has come to call %d", identity, k, p.Check)
		case hashes[p.Check] != hash:
			return fmt.Sprintf("%s acknowledges change %d with a hash that is not of its calls before call %d",
				identity, k, p.Check)
		}
		return ""
	}
	_, decided := c.decisions[k] // the rank may have gone on before the report landed
	last := uint64(len(hashes)) - 1
	for n := last; n >= p.Switch && (n == last || decided); n-- {
		if arrivalHash(p.Tag, n, hashes[n], shapes[n]) == hash {
			return ""
		}
	}
	return fmt.Sprintf("%s reports its arrival for change %d, but not with the hash of its call %d", identity, k, last)
}

// reached keeps the hash that a rank has at its next call.
func (c *checker) reached(r *rank, hash, shape uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	identity := r.identity()
	c.hashes[identity] = append(c.hashes[identity], hash)
	c.shapes[identity] = append(c.shapes[identity], shape)
}

// decide watches invariants 1 and 2.
func (c *checker) decide(r *rank, m *Member, call int, n uint64, by *snapshot) {
	m.mu.Lock()
	k := m.change.k + generation(m.keys)
	version := fmt.Sprintf("%d %s", m.inForce.change, r.meaning(by.content))
	m.mu.Unlock()
	r.decided = append(r.decided, by.content)
	c.mu.Lock()
	before, ok := c.used[r.comm][call]
	if !ok {
		c.used[r.comm][call] = version
	}
	var broken uint64
	for change := range c.arrived[r.identity()] {
		if k <= change {
			broken = change
		}
	}
	c.mu.Unlock()
	if ok && before != version {
		c.violation(1, "rank %d decides call %d by version %q, another rank did by %q", r.id, call, version, before)
	}
	if broken > 0 {
		c.violation(2, "rank %d decides call %d without knowing change %d", r.id, n, broken)
	}
}

// switched watches invariant 4: versions rise.
func (c *checker) switched(r *rank, m *Member, n uint64, to *snapshot) {
	m.mu.Lock()
	k := m.inForce.change
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

// waited watches invariant 7: the main thread waits only where the barrier may be.
func (c *checker) waited(r *rank, n uint64, d time.Duration) {
	r.stall = max(r.stall, d)
	if d == 0 {
		return
	}
	c.trace("rank %d waited %v at call %d", r.id, d, n)
	c.mu.Lock()
	ok := false
	for _, p := range c.props {
		ok = ok || p.Switch <= n && n <= p.Switch+barrierWithin
	}
	c.mu.Unlock()
	if !ok && !c.w.vanishes {
		c.violation(7, "rank %d waited %v at call %d, where no barrier can be", r.id, d, n)
	}
}

// end looks at what can only be seen afterwards. Invariants 3 and 5 are watched
// by the members themselves: they fail with ErrBroken.
func (c *checker) end() {
	c.mu.Lock()
	decisions := maps.Clone(c.decisions)
	c.mu.Unlock()
	misaligned := slices.ContainsFunc(c.w.ranks, func(r *rank) bool { return r.phantoms > 0 })
	for k, d := range decisions {
		if d.Abort == Misaligned && !misaligned && !c.w.vanishes {
			c.violation(0, "change %d is decided: %s, though all ranks count alike", k, d)
		}
	}
	for _, r := range c.w.ranks {
		if r.logged("has emptied or replaced it; this communicator keeps") && !c.w.vanishes {
			c.violation(0, "rank %d keeps its version for good as if records had vanished, and none has", r.id)
		}
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
