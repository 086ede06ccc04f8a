package agree

// Members need no records of decided changes: they look for the next one. Only a duplicate, which joins late,
// goes through all changes. So the history record is put before the first removal. It says either that a
// duplicate needs the records or that they are being removed.

// removeHistory removes the records of changes before k, once all ranks have acknowledged k: no
// rank needs them any more. The change that brought the version in force stays, for tools.
func (m *Member) removeHistory(k uint64) {
	if k < 2 {
		return
	}
	names, err := m.list(m.keys.decisions())
	if err != nil {
		return
	}
	m.mu.Lock()
	inForce := m.versions.current.k
	m.mu.Unlock()
	for _, name := range names {
		of, d, ok := parseDecision(name)
		if !ok || of >= k || of == inForce {
			continue
		}
		if !m.mayForget() {
			return
		}
		// What is not removed now only takes space until the communicator ends.
		for _, dir := range []string{m.keys.acks(of), m.keys.arrivals(of), m.keys.contents(of), m.keys.tokens(of)} {
			ctx, end := m.op()
			_ = m.cfg.Store.Drop(ctx, dir)
			end()
		}
		m.obsolete.add(m.keys.decisions()+"/"+name, m.keys.proposal(of))
		if d.Abort == CannotStage {
			m.obsolete.add(m.keys.detail(of))
		}
	}
}

// mayForget reports whether no duplicate needs the records of decided changes, and from then on
// none ever will.
func (m *Member) mayForget() bool {
	if !m.background.forgets {
		stands, err := m.put(m.keys.history(), []byte(historyRemoved))
		m.background.forgets = err == nil && string(stands) == historyRemoved
	}
	return m.background.forgets
}

// removeAll removes the records of a communicator if this rank is the last to leave. The record ended stays, so
// that a new communicator of the same id does not take the leftovers for its own. A late removal hits no later
// communicator, because the keys are never used again.
func (m *Member) removeAll() {
	names, err := m.list(m.keys.departedDir())
	if err != nil || len(names) < m.cfg.Ranks || !m.mayForget() {
		return
	}
	if _, err := m.put(m.keys.ended(), nil); err != nil {
		return
	}
	for _, dir := range []string{proposals, undecided} {
		if names, err = m.list(dir); err != nil {
			return
		}
		for _, name := range names {
			if comm, k, ok := parseProposalName(name); ok && comm == m.keys {
				m.obsolete.add(m.keys.open(k), m.keys.proposal(k))
			}
		}
	}
	m.removeObsolete()
	// The slots go first: a tool that sees what is left must not take a rank for one that lives.
	for _, dir := range []string{m.keys.slots(), m.keys.all()} {
		ctx, end := m.op()
		_ = m.cfg.Store.Drop(ctx, dir) // a leftover only takes space
		end()
	}
}
