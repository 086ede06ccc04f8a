package policy

// evaluator evaluates conditions, each once per call: rows may share them.
type evaluator struct {
	m     machine
	env   whenEnv
	call  uint64   // counts the calls
	known []uint64 // by a condition's id: 2*call, or 2*call+1 if it holds for that call
}

// next turns to a call.
func (e *evaluator) next(q *Query, c Comm) {
	e.env.setCall(q, c.Ranks)
	e.call++
}

// holds returns an error only the first time that the condition comes up in a call.
func (e *evaluator) holds(c *Condition) (holds bool, err error) {
	for len(e.known) <= c.id {
		e.known = append(e.known, 0)
	}
	if known := e.known[c.id]; known/2 == e.call {
		return known%2 == 1, nil
	}
	holds, err = e.m.holds(c, e.env)
	e.known[c.id] = 2 * e.call
	if holds {
		e.known[c.id]++
	}
	return holds, err
}
