package agree

import "fmt"

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
	case m.ending.failed != nil:
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
		m.log(true, "change %d: %s; this communicator keeps version %.12s for good", k, d, m.versions.current.Meaning)
		return
	}
	m.next(idle)
	retry := ""
	if e := m.versions.pending; e != nil && e.Meaning == c.Meaning {
		now := m.cfg.Clock.Now()
		if e.aborted(d, now, m.cfg.Counter) {
			m.log(true, "change %d: aborted for the %dth time because a rank cannot use version %.12s, the last: %s; "+
				"it is given up until the file changes", k, e.vetoes, e.Meaning, d)
			m.versions.pending = nil
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
		advice = ": " + advice
	} else {
		advice = ""
	}
	m.log(warn, "change %d: aborted, %s%s%s", k, d, retry, advice)
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
