package core

// failWith fails the requests in the queue that a failed script of an entry concerns.
func (m *Machine) failWith(e *entry, r *Reply) {
	for q := range e.of.queue.all {
		if m.failsWith(e, q, r) {
			m.failQueued(q, r.Err)
		}
	}
}

// failsWith reports whether a request in the queue fails because a script of an entry has failed. A
// final error of a script with tokens may be due to the token counter, so the error fails only the
// requests for a token.
//
// If an entry passes, and the error concerns this name only, the health of the server does not fail
// the requests that would get the entry next. So failsWith fails the overdue ones.
func (m *Machine) failsWith(e *entry, q *Request, r *Reply) bool {
	forTokens := r.Final && r.Op.Tokens > 0
	noToken := r.Final && q.Fenced && !e.upkeep().tokens.left(q.Side)
	joins := e.phase == held && e.of.rules().joins(e, q) // q waits for this script and for nobody's unlock
	overdue := m.overdue(e, q)
	next := e.phase == passing && overdue && r.OnlyThis
	switch verb := r.Op.Verb; {
	case verb == VerbRelease && r.Final:
		return !e.servedByOther()
	case verb == VerbRelease:
		return overdue
	case verb == VerbRenew: // the renewal looks for the record
		return next || joins && r.Final
	case verb == VerbAcquire, e.of.places(): // without a transfer no request gets a place in the queue, or the lock
		return (r.Final || q.Once || overdue) && (q.Fenced || !forTokens)
	case e.phase == passing:
		return next || noToken
	case forTokens:
		return noToken
	}
	return joins && overdue
}

// overdue reports whether a request has waited for RetryTime while the scripts of an entry were
// failing.
func (m *Machine) overdue(e *entry, r *Request) bool {
	failures := &e.upkeep().retry
	return failures.failing() && m.now-max(failures.since, r.Asked) >= m.cfg.RetryTime
}
