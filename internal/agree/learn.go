package agree

import "fmt"

// learn obeys the decision that stands for change k. isOurs: it is known to be made of
// this proposal's token, which a rank that was signed for meanwhile needs to know.
func (m *Member) learn(d Decision, isOurs bool) {
	m.lock()
	defer m.unlock()
	if m.state == standing && m.meeting.attempted && !isOurs {
		return // the next look makes sure
	}
	if m.failed != nil {
		return // too late: a call has failed, so this rank is behind the others
	}
	k := m.k
	if d.Commit {
		if m.state != standing || d.At != m.meeting.at {
			m.fail(fmt.Errorf("%w: change %d was committed for call %d, while this rank was %s (call %d)", ErrBroken, k, d.At, m.state, m.meeting.at))
			return
		}
		m.forgetLater()
		m.state = committed
		m.release()
		return
	}
	c := m.change
	if c.staged {
		m.retired = append(m.retired, c.snapshot)
	}
	m.forgetLater()
	if d.Frozen() {
		m.why = d.String()
		m.next(frozen)
		m.note(true, "change %d: %s; this communicator keeps version %.12s for good", k, d, m.current.Meaning)
		return
	}
	m.next(idle)
	retry := ""
	if w := m.wish; w != nil && w.Meaning == c.Meaning {
		now := m.cfg.Clock.Now()
		if w.aborted(d, now) {
			m.note(true, "change %d: aborted for the %dth time because a rank cannot use version %.12s, the last: %s; it is given up until the file changes", k, w.vetoes, w.Meaning, d)
			m.wish = nil
			return
		}
		retry = fmt.Sprintf(", next try in %v", w.notBefore-now)
	}
	advice := d.Abort.advice()
	warn := advice != "" && !m.advised[d.Abort]
	if warn {
		m.advised[d.Abort] = true
		advice = ": " + advice
	} else {
		advice = ""
	}
	m.note(warn, "change %d: aborted, %s%s%s", k, d, retry, advice)
}

// forgetLater lets the background remove what this rank has put for change k.
func (m *Member) forgetLater() {
	if m.change.acked {
		m.spent = append(m.spent, m.keys.ack(m.k, m.hash, m.slot))
	}
	if m.meeting.attempted && !m.meeting.proxy {
		m.spent = append(m.spent, m.meeting.key)
	}
}
