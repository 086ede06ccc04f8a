package agree

// How a change ends: who may decide, and what a rank does with the decision. The background runs all of
// it that needs the store. A decision is the token of the proposal, moved to a key that says commit or abort. A token
// moves once, so there is one decision, and a rank that finds no token looks for it.

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// countReports compares the ranks' reports in dir with this rank's hash and returns the
// decision that follows; ok is false while some are missing.
func (m *Member) countReports(dir string, hash uint64) (verdict Decision, ok bool) {
	reports, err := m.list(dir)
	if err != nil {
		return Decision{}, false
	}
	agreed := make(map[int]bool, m.cfg.Ranks)
	for _, key := range reports {
		slots, theirs, ok := key.report()
		if !ok {
			continue
		}
		if theirs != hash {
			return Decision{Abort: Misaligned}, true
		}
		for _, slot := range slots {
			if slot < m.cfg.Ranks {
				agreed[slot] = true
			}
		}
	}
	return Decision{Commit: true}, len(agreed) == m.cfg.Ranks
}

// decide makes a decision of change k, unless there is one, and obeys the one that there
// is. It moves the proposal's token instead of putting a record, so that a decision which
// was made cannot be made again, even if somebody removes records.
func (m *Member) decide(c change, d Decision) time.Duration {
	d.By = m.slot
	if d.Detail != "" {
		_, _ = m.put(m.keys.detail(c.k), []byte(d.Detail)) // for the log only
	}
	ctx, end := m.op()
	err := m.cfg.Store.Move(ctx, m.keys.token(c.k, c.Tag), m.keys.decision(c.k, d))
	end()
	if err == nil {
		m.obsolete.add(m.keys.open(c.k))
	}
	found, lookErr := m.readDecision(c)
	switch {
	case lookErr == nil && found:
		return 0
	case lookErr == nil && errors.Is(err, ErrNoRecord):
		m.missToken(c)
	}
	return m.retry()
}

// pollDecision reads the decision of change k and returns when to poll again.
func (m *Member) pollDecision(c change) time.Duration {
	if found, err := m.readDecision(c); err == nil && found {
		return 0
	}
	return m.retry()
}

// readDecision reads the decision of change k, and obeys it. A rank that may have been
// counted as arrived obeys only a decision made of this proposal's token.
func (m *Member) readDecision(c change) (found bool, err error) {
	counted := m.isCounted()
	ctx, end := m.op()
	defer end()
	decisions, err := listKeys(ctx, m.cfg.Store, m.keys.dir(kindDecision))
	if err != nil {
		return false, err
	}
	for _, key := range decisions {
		d, ok := key.decision()
		if !ok || key.number != c.k {
			continue
		}
		if counted {
			if mark, err := m.cfg.Store.Mark(ctx, key.text); err != nil || mark != c.Token {
				continue
			}
		}
		if d.Abort == CannotStage {
			detail, _, _ := m.cfg.Store.Get(ctx, m.keys.detail(c.k))
			d.Detail = string(detail)
		}
		m.applyDecision(c.k, d, counted)
		return true, nil
	}
	return false, nil
}

// isCounted reports that the others may have counted this rank as arrived.
func (m *Member) isCounted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change.state == arrived && m.change.arrival.attempted
}

// applyDecision follows a decision of change k, unless that is over. tokenVerified: it is known to be made of this
// proposal's token. A rank that has arrived by proxy meanwhile obeys only such a decision.
func (m *Member) applyDecision(k uint64, d Decision, tokenVerified bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.change
	switch {
	case c.k != k:
		return // a sibling that has lost the records has frozen this rank meanwhile
	case c.state == arrived && c.arrival.attempted && !tokenVerified:
		return // the next poll compares the token
	case m.failed != nil:
		return // too late: a call has failed, so this rank is behind the others
	}
	if d.Commit {
		if c.state != arrived || d.At != c.arrival.at {
			m.fail(fmt.Errorf("%w: change %d was committed for call %d, while this rank was %s (call %d)", ErrBroken,
				k, d.At, c.state, c.arrival.at))
			return
		}
		m.markObsolete()
		m.change.state = committed
		m.wait.release()
		return
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Aborted(d.Abort)
	}
	m.dropStaged()
	m.markObsolete()
	if c.mine {
		m.obsolete.add(c.Key()) // also where nobody acknowledges anything, so that no history is removed
	}
	if d.Frozen() {
		m.next(frozen)
		m.log(true, "change %d: %s; this communicator keeps version %.12s for good", k, d,
			m.inForce.Snapshot.EffectDigest())
		return
	}
	m.next(idle)
	retry := ""
	if d.Abort == Late || d.Abort == Slow { // by farther than that the next proposals are, also of other versions
		m.background.farther = max(2*m.background.farther, m.background.lead)
	}
	if e := m.pending; e != nil && e.EffectDigest == c.EffectDigest {
		now := m.cfg.Clock.Now()
		if e.aborted(d, now, m.cfg.Counter) {
			m.log(true, "change %d: aborted for the %dth time because a rank cannot use version %.12s, the last: %s; "+
				"it is given up until the file changes", k, e.vetoes, e.EffectDigest, d)
			m.pending = nil
			return
		}
		if retry = fmt.Sprintf(", next try in %v", e.notBefore-now); e.alike {
			retry = ", next try once another call was made"
		}
	}
	advice := d.Abort.advice()
	warn := advice != "" && !m.background.advised[d.Abort]
	if warn {
		m.background.advised[d.Abort] = true
		retry += ": " + advice
	}
	m.log(warn, "change %d: aborted, %s%s", k, d, retry)
}

// markObsolete lets the background remove this rank's reports for change k.
func (m *Member) markObsolete() {
	if m.background.progress.acked {
		m.obsolete.add(m.keys.ack(m.change.k, m.change.hash, m.slot))
	}
	if at := m.change.arrival; at.attempted && !at.byProxy {
		m.obsolete.add(at.key)
	}
}

// intact reports whether the records that this rank relies on are the ones that it knows:
// its slot and the proposal's token. gone: there is no token, as after any decision.
func (m *Member) intact(c change) (intact, gone bool, err error) {
	token := m.keys.token(c.k, c.Tag)
	for _, r := range []struct{ key, mark string }{{m.keys.slot(m.slot), m.slotMark}, {token, c.Token}} {
		mark, err := m.mark(r.key)
		if err != nil || mark != r.mark {
			return false, r.key == token && mark == "", err
		}
	}
	return true, false, nil
}

// missToken handles a token that is gone without a decision. A rank that cannot have been
// counted as arrived freezes after a while. Another one cannot know whether the others have
// changed: it waits, because the records may only be out of sight.
func (m *Member) missToken(c change) {
	now, counted, progress := m.cfg.Clock.Now(), m.isCounted(), &m.background.progress
	if progress.missed == 0 {
		progress.missed = now
	}
	switch missed := now - progress.missed; {
	case !counted && missed > stageLimit:
		m.loseRecords()
	case counted && !progress.doubted && missed > firstWarning:
		progress.doubted = true
		m.log(true,
			"change %d: the ranks' records have vanished from the rendezvous (somebody has emptied or replaced it), "+
				"so this rank cannot know whether the others changed", c.k)
	}
}

// loseRecords freezes this rank and those that it represents: the records are not those
// that this rank knows, so nothing they say counts.
func (m *Member) loseRecords() {
	m.mu.Lock()
	at := m.change.arrival
	m.mu.Unlock()
	for _, s := range append(slices.Clone(at.represented), m) {
		s.mu.Lock()
		waits := s.change.state == arrived && s.change.arrival.key == at.key
		if s.failed == nil && (s == m || waits) {
			s.dropStaged()
			s.next(frozen)
			s.log(true, "the ranks' records have vanished from the rendezvous: somebody has emptied or replaced it; "+
				"this communicator keeps version %.12s for good", s.inForce.Snapshot.EffectDigest())
		}
		s.mu.Unlock()
	}
}

// superseded reports that this rank has proposed the change and wants another version since.
func (m *Member) superseded(c change) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return c.mine && m.pending != nil && m.pending.EffectDigest != c.EffectDigest
}
