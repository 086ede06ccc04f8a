package agree

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"time"
)

// propose puts a proposal for the pending edit, if there is one and it may be tried now,
// and returns when to look again.
func (m *Member) propose(k uint64) time.Duration {
	m.mu.Lock()
	e := m.pending
	if e != nil && e.EffectDigest == m.inForce.Snapshot.EffectDigest() {
		m.pending, e = nil, nil
	}
	m.mu.Unlock()
	if e == nil {
		return m.cfg.Timing.IdlePoll
	}
	if e.waitsForOther(m.cfg.Counter) {
		return m.cfg.Timing.IdlePoll
	}
	if wait := e.notBefore - m.cfg.Clock.Now(); wait > 0 {
		return wait
	}
	if !m.allSlots() {
		return m.cfg.Timing.IdlePoll
	}
	proposed := VersionID{Content: e.Content, EffectDigest: e.EffectDigest, Dir: m.keys.of(kindContent, k)}
	if e.stored != k {
		if _, err := m.put(proposed.Key(), e.content); errors.Is(err, ErrRefused) {
			if e.attempts == 0 {
				m.log(true, "version %.12s waits: %v", e.EffectDigest, err)
			}
			e.delay(m.cfg.Clock.Now())
			return m.cfg.Timing.ActivePoll
		} else if err != nil {
			return m.cfg.Timing.ActivePoll
		}
		e.stored = k
	}
	lead := max(m.cfg.Timing.MinLead, m.background.rate.during(m.settle()))
	if e.attempts == 0 { // what was too early once need not be so for ever
		m.background.farther -= (m.background.farther + 3) / 4
	}
	m.background.lead = lead
	lead += min(m.background.farther, mostFarther*lead)
	check := max(m.cfg.Counter.Seq.Load(), e.floor) + lead
	p := Proposal{VersionID: proposed, Check: check, Switch: check + lead + m.jitter(k, lead), Slot: m.slot,
		Tag: fmt.Sprintf("%s %d", m.cfg.Identity, m.background.tries)}
	m.background.tries++
	// A put that fails may land later: so each try has a token of its own, which goes with the change's other records.
	token := m.keys.token(k, p.Tag)
	if _, err := m.put(token, nil); err != nil {
		return m.cfg.Timing.ActivePoll
	}
	var err error
	if p.Token, err = m.mark(token); err != nil || p.Token == "" {
		e.delay(m.cfg.Clock.Now())
		return m.cfg.Timing.ActivePoll
	}
	mine := encode(p)
	stands, err := m.put(m.keys.proposal(k), mine)
	if err != nil {
		e.delay(m.cfg.Clock.Now())
		return m.cfg.Timing.ActivePoll
	}
	if !bytes.Equal(stands, mine) { // another rank was first
		m.obsolete.add(token)
		if first, err := decode[Proposal](stands); err == nil && first.Key() != proposed.Key() {
			m.obsolete.add(proposed.Key())
		}
	}
	return m.acceptProposal(k, stands)
}

// allSlots reports whether every rank takes part. Slots are never given back, so
// one full listing is enough.
func (m *Member) allSlots() bool {
	if m.background.full {
		return true
	}
	slots, err := m.list(m.keys.dir(kindSlot))
	if err != nil {
		return false
	}
	m.background.full = len(slots) >= m.cfg.Ranks
	if !m.background.full && !m.background.saidEmpty {
		m.background.saidEmpty = true
		m.log(false, "a change waits: %d of %d ranks have joined at the store", len(slots), m.cfg.Ranks)
	}
	return m.background.full
}

// jitter spreads the switches of communicators that change at the same time: a thread that
// waits at the barrier of one does not come to the barrier of the other.
func (m *Member) jitter(k, lead uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, m.keys, k)
	return h.Sum64() % max(8, lead/4)
}

// fetch reads proposal k, which is known to exist.
func (m *Member) fetch(k uint64) time.Duration {
	ctx, end := m.op()
	text, found, err := m.cfg.Store.Get(ctx, m.keys.proposal(k))
	end()
	if err != nil || !found {
		return m.cfg.Timing.ActivePoll
	}
	return m.acceptProposal(k, text)
}

// acceptProposal makes text, which is the proposal of change k, this member's change.
func (m *Member) acceptProposal(k uint64, text []byte) time.Duration {
	p, err := decode[Proposal](text)
	if err != nil {
		return m.cfg.Timing.ActivePoll // it exists, so fetch reads it again
	}
	m.background.progress = progress{since: m.cfg.Clock.Now()}
	if p.Freeze {
		m.applyDecision(k, Decision{Abort: Duplicate, By: -1}, false)
		return 0
	}
	c := change{k: k, Proposal: p, seen: true, mine: p.Slot == m.slot}
	m.update(func(now *change) { *now = c })
	if c.mine {
		m.log(false, "change %d: proposed version %.12s, checkpoint at call %d, switch at call %d, %d decided so far",
			k, p.EffectDigest, p.Check, p.Switch, m.cfg.Counter.Seq.Load())
	}
	return m.stageProposal(c)
}

// stageProposal stages the proposed version and sets the trigger to the checkpoint, or vetoes.
func (m *Member) stageProposal(c change) time.Duration {
	if err := c.valid(); err != nil {
		return m.veto(c, CannotStage, err.Error())
	}
	if m.pollDecision(c) == 0 { // it may be over already
		return 0
	}
	if m.cfg.Counter.Seq.Load() > c.Check {
		m.update(func(*change) { m.withdraw(Late) })
		return 0
	}
	// By this record the other ranks find the proposal, so it comes after that.
	if progress := &m.background.progress; c.mine && !progress.announced {
		if _, err := m.put(m.keys.open(c.k), nil); err != nil {
			return m.cfg.Timing.ActivePoll
		}
		progress.announced = true
	}
	mark, err := m.mark(m.keys.token(c.k, c.Tag))
	if err != nil || mark == "" { // it was put before the proposal, but may be out of sight yet
		return m.cfg.Timing.ActivePoll
	}
	if mark != c.Token {
		return m.veto(c, CannotStage,
			"the proposal's token is not the one that the proposer has made: the rendezvous is an older copy, or its "+
				"file system shows each machine other inode numbers")
	}
	content, ok := m.content(c)
	if !ok {
		if m.cfg.Clock.Now()-m.background.progress.since > stageLimit {
			return m.veto(c, CannotStage, "the version's content is not in the store")
		}
		return m.cfg.Timing.ActivePoll
	}
	snapshot, err := m.stage(m.ctx, c.VersionID, content)
	switch {
	case err == ErrMixedBuilds:
		return m.veto(c, OtherBuild, "")
	case err != nil:
		return m.veto(c, CannotStage, err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change.snapshot = snapshot
	if m.failed != nil { // meanwhile; see withdraw
		return forever
	}
	if m.cfg.Counter.Seq.Load() > c.Check {
		m.withdraw(Late)
		return 0
	}
	m.change.state = armed
	m.cfg.Counter.Trigger.Store(c.Check)
	return m.cfg.Timing.ActivePoll
}

// content reads the proposed version's content.
func (m *Member) content(c change) (content []byte, ok bool) {
	m.mu.Lock()
	if e := m.pending; e != nil && e.Content == c.Content {
		content = e.content
	}
	m.mu.Unlock()
	if content != nil {
		return content, true
	}
	ctx, end := m.op()
	defer end()
	return readContent(ctx, m.cfg.Store.Get, c.VersionID)
}

// veto aborts a change whose version this rank cannot use.
func (m *Member) veto(c change, why Reason, detail string) time.Duration {
	if !m.background.progress.vetoed {
		m.background.progress.vetoed = true
		m.log(true, "change %d: this rank vetoes: %s %s", c.k, why, detail)
	}
	return m.decide(c, Decision{Abort: why, Detail: detail})
}
