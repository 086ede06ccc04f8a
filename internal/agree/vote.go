package agree

// The vote of a rank on a change: its promise at call c, its arrival at the barrier and its wait for the decision. The
// main thread runs AtTrigger and what that calls, without the store. The background runs the functions step..., which
// put the records. decide.go follows the decision.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// AtTrigger takes part in a change. The main thread calls it before it decides call n if n has reached the
// trigger. call is HashCall of call n. AtTrigger returns the snapshot to decide by from this call on, or nil
// if the snapshot stays. It never touches the store, and waits only at the barrier, for the decision.
func (m *Member) AtTrigger(n, call uint64) (next Snapshot, err error) {
	at := reached{n, call, m.cfg.Counter.Hash(), m.cfg.Poller.ticks.Add(1), m.cfg.Thread(), m.cfg.Clock.Now()}
	// Each of these takes the mutex and gives it back, so that none calls another member with it.
	if before, arrives := m.vote(at); arrives {
		m.represent(before, at)
	}
	return m.obey(n)
}

// reached is a call that has reached the trigger.
type reached struct {
	n      uint64        // its number
	call   uint64        // its HashCall
	before uint64        // Counter.Hash of the calls before it
	tick   uint64        // the value of Poller.ticks
	thread int           // that makes the call
	now    time.Duration // the time
}

// vote takes the step of the change that a call brings. It returns the change before, and whether this rank has
// arrived.
func (m *Member) vote(at reached) (before change, arrives bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.change
	if m.failed != nil || before.state != armed && before.state != promised {
		return before, false
	}
	m.change = before.vote(at, m.cfg.Uniform)
	switch {
	case m.change.state == withdrawn:
		m.withdraw(m.change.why)
	case m.change.state == promised && before.state == armed:
		m.cfg.Counter.Trigger.Store(m.change.Switch)
		m.wakeUp()
	}
	return before, m.change.state == arrived
}

// vote returns what a change becomes by a call: a function of both, which tests and readers can follow without a clock
// and a store. At c the rank promises to stop at its trigger from S on; if c has passed,
// it makes sure that it never puts an ack.
//
// At the barrier it arrives. That is the first call after S that differs from the call before it. A rank that has made
// one call more or less than the others arrives at another call, or after other calls, and so is noticed. If all calls
// are alike, nothing would show it, and the rank withdraws.
func (c change) vote(at reached, uniform bool) change {
	switch {
	case c.state == armed && at.n > c.Check:
		c.state, c.why = withdrawn, Late
	case c.state == armed && at.n == c.Check:
		c.state, c.hash = promised, at.before
	case c.state == promised && at.n > c.Switch && (at.call != c.lastPassed.call || uniform):
		c.state = arrived
		c.arrival = arrival{at: at.n, hash: arrivalHash(c.Tag, at.n, at.before, at.call), since: at.now}
	case c.state == promised && at.n >= c.Switch+barrierWithin:
		c.state, c.why = withdrawn, Alike
	case c.state == promised && at.n >= c.Switch:
		c.lastPassed = lastPassed{at.n + 1, at.call, at.tick, at.thread}
	}
	return c
}

// barrierWithin is how many calls after S may be the barrier. The main thread enters Go at
// each of them.
const barrierWithin = 256

// represent makes the siblings arrive that have come to the same call on this thread. NCCL asks the ranks of a thread
// one after the other, so they cannot all wait there. Each has promised to stop at its trigger. Two ranks of a process
// may represent each other, so no mutex is held beside another.
func (m *Member) represent(before change, at reached) {
	own := before.vote(at, m.cfg.Uniform).arrival
	slots := []int{m.slot}
	var represented []*Member
	for _, s := range m.cfg.Poller.siblings(m) {
		if s.arriveByProxy(before, at, own) {
			represented = append(represented, s)
			slots = append(slots, s.slot)
		}
	}
	key := m.keys.arrival(before.k, own.hash, slots...)
	for _, s := range append(represented, m) {
		s.mu.Lock()
		if s.change.state == arrived && s.change.k == before.k {
			s.change.arrival.key = key
			if s == m {
				s.change.arrival.represented = represented
			}
			s.wakeUp()
		}
		s.mu.Unlock()
	}
}

// obey waits for the decision if this rank has arrived, and switches at the call that a commit names.
func (m *Member) obey(n uint64) (next Snapshot, err error) {
	waited := false
	defer func() {
		if err != nil || waited {
			m.flushLog() // the background may hang in the store
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.change.state == arrived && n >= m.change.arrival.at && m.failed == nil {
		m.await()
		waited = true
	}
	if m.failed != nil {
		return nil, m.failed
	}
	switch {
	case m.change.state == committed && n > m.change.arrival.at:
		m.fail(fmt.Errorf("%w: change %d was to come at call %d, this is call %d", ErrBroken, m.change.k,
			m.change.arrival.at, n))
		return nil, m.failed
	case m.change.state == committed && n == m.change.arrival.at:
		m.putInForce(InForce{Snapshot: m.change.snapshot, From: n, change: m.change.k})
		m.next(idle)
		return m.inForce.Snapshot, nil
	}
	return nil, nil
}

// stepPromised puts the ack of this rank's promise, and polls for a decision. An ack binds nobody. From the acks the
// proposer learns whether all ranks will stop at the barrier. If some are missing late, it aborts: nobody waits in
// vain.
func (m *Member) stepPromised(c change, count uint64) time.Duration {
	progress := &m.background.progress
	if progress.promised == 0 {
		progress.promised = m.cfg.Clock.Now()
	}
	switch {
	case m.superseded(c):
		return m.decide(c, Decision{Abort: Superseded})
	case c.mine && !progress.allAcked && count > c.Check+(c.Switch-c.Check)*3/4 &&
		m.cfg.Clock.Now()-progress.promised > m.settle()/2: // calls may come in clusters
		return m.decide(c, Decision{Abort: Slow})
	case !progress.acked:
		_, err := m.put(m.keys.ack(c.k, c.hash, m.slot), nil)
		if progress.acked = err == nil; err != nil {
			return m.pollDecision(c)
		}
	}
	if c.mine && !progress.allAcked {
		verdict, ok := m.countReports(m.keys.of(kindAck, c.k), c.hash)
		if ok && !verdict.Commit {
			return m.decide(c, verdict)
		}
		if progress.allAcked = ok; ok {
			m.removeHistory(c.k)
		}
	}
	wait := m.pollDecision(c)
	if wait > 0 && m.cfg.Clock.Now()-m.background.callsAt > m.settle() {
		wait = m.cfg.Timing.IdlePoll // a communicator that makes no calls may do so for hours
	}
	return wait
}

// arrivalHash is equal for ranks that arrive for the same proposal at the same call n, after the same calls.
// before is Counter.Hash at call n.
func arrivalHash(tag string, n, before, call uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(tag))
	for _, number := range []uint64{n, before, call} {
		h.Write(binary.LittleEndian.AppendUint64(nil, number))
	}
	return h.Sum64()
}

// arriveByProxy makes this rank arrive together with a sibling, whose change is of, if it has come to
// the same call on the same thread. A rank of another thread may be behind, and arrives by itself.
//
// Equal counts are not enough. A rank that is one call behind the sibling, and has made an extra call that no other
// rank makes, has the same count. NCCL asks about a group of calls for one rank after the other. So this rank is not
// behind if it has made a call since the sibling's last one, which the ticks tell. Its next call may still be an
// extra one: that is harmless, because the collectives before it are those of the others.
func (m *Member) arriveByProxy(of change, call reached, at arrival) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, counter := &m.change, m.cfg.Counter
	if c.state != promised || c.k != of.k || c.Tag != of.Tag ||
		c.lastPassed.next > at.at || c.lastPassed.tick < of.lastPassed.tick || c.lastPassed.thread != call.thread ||
		counter.Seq.Load() != at.at || counter.Hash() != call.before {
		return false
	}
	at.byProxy, at.attempted = true, true
	c.state, c.arrival = arrived, at
	return true
}

const (
	firstWarning = time.Second            // of waiting at the barrier, until the log has a warning
	nextWarning  = 10 * time.Second       // from one warning to the next
	longStall    = 100 * time.Millisecond // a wait that is worth a line in the log
	waitSlice    = time.Second            // see await
)

// await waits until change k is decided, or until the background has withdrawn this rank.
// The background does all store operations meanwhile. The caller is the main thread and holds the
// mutex, which await gives back while it waits.
//
// Time in which the process is stopped, as by a debugger, does not count, and the background has to ask the store
// after it. So the wait consists of slices, and one in which the process was stopped does not count.
func (m *Member) await() {
	limit := m.cfg.Timing.StallLimit
	warn := max(firstWarning, 2*m.settle())
	k, at := m.change.k, m.change.arrival.at
	decided := make(chan struct{})
	m.wait.decided = decided
	m.wait.interrupt() // a slow operation must not delay the arrival
	m.wakeUp()
	var waited time.Duration
	for m.change.state == arrived && m.failed == nil {
		if limit > 0 && waited >= limit {
			m.fail(fmt.Errorf("%w (waited %v for change %d)", ErrStalled, waited.Round(time.Second), k))
			return
		}
		if waited >= warn {
			m.log(true, "change %d: call %d has waited %v for the store to tell the decision", k, at,
				waited.Round(time.Second))
			warn += nextWarning
		}
		began := m.cfg.Clock.Now()
		m.mu.Unlock()
		m.flushLog()
		sleep(context.Background(), m.cfg.Clock, waitSlice, decided)
		m.mu.Lock()
		if slept := m.cfg.Clock.Now() - began; slept < 2*waitSlice {
			waited += slept
		}
	}
	if waited > longStall {
		m.log(false, "change %d: call %d waited %v for the other ranks", k, at, waited.Round(time.Millisecond))
	}
}

// stepArrived does at the store what a rank at the barrier needs: it puts the arrival and
// polls the decision. If the others do not arrive in time, it aborts: NCCL cannot run the
// collective before they do, but the thread may have other work.
func (m *Member) stepArrived(c change) time.Duration {
	at := c.arrival
	if at.key == "" {
		return forever // arrive, on the thread that sets the key, wakes this rank
	}
	timeout := m.cfg.Clock.Now()-at.since > m.settle()
	m.background.pollsFast = !timeout
	if !at.attempted || !at.landed && !at.byProxy {
		if wait, ok := m.putArrival(c, timeout); !ok {
			return wait
		}
	}
	if timeout {
		return m.decide(c, Decision{Abort: Stall})
	}
	if c.mine {
		if verdict, ok := m.countReports(m.keys.of(kindArrival, c.k), at.hash); ok {
			verdict.At = at.at
			return m.decide(c, verdict)
		}
	}
	return m.pollDecision(c)
}

// putArrival puts the record that this rank has arrived, if the records that the change
// rests on are those that this rank knows. Before the attempt the rank may withdraw. After
// it the rank may not, whether or not the put succeeds, because the record may land later.
func (m *Member) putArrival(c change, timeout bool) (wait time.Duration, ok bool) {
	at := c.arrival
	if !at.attempted {
		switch intact, gone, err := m.intact(c); {
		case err == nil && gone: // most likely decided: in state withdrawn it finds out
			m.giveUp(at, Stall)
			return 0, false
		case err == nil && !intact:
			m.loseRecords()
			return 0, false
		case err != nil && timeout:
			m.giveUp(at, Stall)
			return 0, false
		case err != nil:
			return m.retry(), false
		}
		m.update(func(c *change) { c.arrival.attempted = true })
	}
	_, err := m.put(at.key, nil)
	switch {
	case errors.Is(err, ErrRefused) && !at.attempted:
		m.update(func(c *change) { c.arrival.attempted = false })
		if timeout {
			m.giveUp(at, CannotStage)
		}
		return m.retry(), false
	case err != nil:
		return m.retry(), timeout
	}
	m.update(func(c *change) { c.arrival.landed = true })
	return 0, true
}

// giveUp withdraws this rank and those that it represents. The caller knows that no record
// of their arrival exists.
func (m *Member) giveUp(at arrival, why Reason) {
	for _, s := range append(slices.Clone(at.represented), m) {
		s.mu.Lock()
		if s.change.state == arrived && s.change.arrival.key == at.key {
			s.withdraw(why)
		}
		s.mu.Unlock()
	}
}
