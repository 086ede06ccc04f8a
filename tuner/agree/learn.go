package agree

import "fmt"

// learn obeys the decision that stands for change k.
func (m *Member) learn(d Decision) {
	m.lock()
	defer m.unlock()
	if m.failed != nil {
		return // too late: a call has failed, so this rank is behind the others
	}
	k := m.k
	if d.Commit {
		if m.state != promised {
			m.fail(fmt.Errorf("%w: change %d was committed, while this rank was %s", ErrBroken, k, m.state))
			return
		}
		m.state = committed
		if h := m.cfg.Handle; h != nil {
			m.ready(m.change.Switch, Never, h(m.change.snapshot))
		}
		m.spent = append(m.spent, m.keys.ack(k, m.hash, m.slot))
		m.release()
		return
	}
	c := m.change
	if c.staged {
		m.retired = append(m.retired, c.snapshot)
	}
	if m.state == promised {
		m.spent = append(m.spent, m.keys.ack(k, m.hash, m.slot))
	}
	if d.Frozen {
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
	m.note(false, "change %d: aborted, %s%s", k, d, retry)
}
