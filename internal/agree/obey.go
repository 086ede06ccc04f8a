package agree

import "fmt"

// obey follows a decision of change k. fromToken: it is known to be made of this proposal's
// token. A rank that has arrived by proxy meanwhile obeys only such a decision.
func (m *Member) obey(d Decision, fromToken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == arrived && m.arrival.attempted && !fromToken {
		return // the next poll compares the token
	}
	if m.failed != nil {
		return // too late: a call has failed, so this rank is behind the others
	}
	k := m.k
	if d.Commit {
		if m.state != arrived || d.At != m.arrival.at {
			m.fail(fmt.Errorf("%w: change %d was committed for call %d, while this rank was %s (call %d)", ErrBroken, k, d.At, m.state, m.arrival.at))
			return
		}
		m.markObsolete()
		m.state = committed
		m.release()
		return
	}
	m.observeAbort(d.Abort)
	c := m.change
	if c.staged {
		m.retired = append(m.retired, c.snapshot)
	}
	m.markObsolete()
	if d.Frozen() {
		m.next(frozen)
		m.logLocked(true, "change %d: %s; this communicator keeps version %.12s for good", k, d, m.current.Meaning)
		return
	}
	m.next(idle)
	retry := ""
	if e := m.pending; e != nil && e.Meaning == c.Meaning {
		now := m.cfg.Clock.Now()
		if e.aborted(d, now) {
			m.logLocked(true, "change %d: aborted for the %dth time because a rank cannot use version %.12s, the last: %s; it is given up until the file changes", k, e.vetoes, e.Meaning, d)
			m.pending = nil
			return
		}
		if retry = fmt.Sprintf(", next try in %v", e.notBefore-now); e.alike {
			retry = ", next try once another call was made"
		}
	}
	advice := d.Abort.advice()
	warn := advice != "" && !m.advised[d.Abort]
	if warn {
		m.advised[d.Abort] = true
		advice = ": " + advice
	} else {
		advice = ""
	}
	m.logLocked(warn, "change %d: aborted, %s%s%s", k, d, retry, advice)
}

// markObsolete lets the background remove this rank's reports for change k.
func (m *Member) markObsolete() {
	if m.change.acked {
		m.obsolete = append(m.obsolete, m.keys.ack(m.k, m.hash, m.slot))
	}
	if m.arrival.attempted && !m.arrival.byProxy {
		m.obsolete = append(m.obsolete, m.arrival.key)
	}
}
