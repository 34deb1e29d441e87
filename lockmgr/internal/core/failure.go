package core

// failWith fails the requests in the queue that a failed script of an entry concerns.
func (m *Machine) failWith(e *entry, r *Reply) {
	for q := range e.of.queue.all {
		if m.failsWith(e, q, r) {
			m.failQueued(q, r.Err)
		}
	}
}

// failsWith reports whether a request in the queue fails because a script of an entry has failed.
func (m *Machine) failsWith(e *entry, q *Request, r *Reply) bool {
	switch verb := r.Op.Verb; {
	case verb == VerbRelease && r.Final:
		return !e.unneeded()
	case verb == VerbRelease:
		return m.overdue(e, q)
	case verb == VerbAcquire, verb == VerbTransfer && e.of.places() != nil:
		// Without this script no request gets the lock, or a place in the queue.
		concerned := q.Fenced || !r.tokensRefused()
		return concerned && (r.Final || q.Once || m.overdue(e, q))
	}
	return m.failsBeside(e, q, r)
}

// failsBeside is failsWith for a renewal, and for a transfer that not every request needs. After an
// error of this name only, the server is not failing, so health.go fails no request: in phase
// passing, failsBeside fails the overdue ones.
func (m *Machine) failsBeside(e *entry, q *Request, r *Reply) bool {
	joins := e.phase == held && e.of.rules().joins(e, q) // q waits for this script and for nobody's unlock
	switch {
	case e.phase == passing && r.OnlyThis && m.overdue(e, q):
		return true
	case r.Op.Verb == VerbRenew: // the renewal looks for the record
		return joins && r.Final
	case e.phase == passing || r.tokensRefused():
		return r.Final && e.upkeep().tokens.missing(q)
	}
	return joins && m.overdue(e, q)
}

// tokensRefused reports whether the error of a script may concern the token counter only. Such an
// error fails no request without a token.
func (r *Reply) tokensRefused() bool { return r.Final && r.Op.Tokens > 0 }

// overdue reports whether a request has waited for RetryTime while the scripts of an entry were
// failing.
func (m *Machine) overdue(e *entry, r *Request) bool {
	failures := &e.upkeep().retry
	return failures.failing() && m.now-max(failures.failingSince, r.Asked) >= m.cfg.RetryTime
}
