package core

// upgrade handles a request for the side Alone whose owner shares the entry with its hold h. The
// request fails at once if the entry has other holds. Otherwise sendDue sends a transfer, which
// changes nothing if other processes share the record.
func (m *Machine) upgrade(e *entry, h *Hold, r *Request) {
	u := e.makeUpkeep()
	if e.hold != h || h.next() != nil || u.upgrade != nil {
		m.fail(r, ErrNotAcquired)
		return
	}
	r.entry, r.state = e, reqUpgrading
	u.upgrade = r
	m.sendDue(e)
}

// upgraded handles the answer to a transfer, which may have been that of an upgrade. The request
// gets a hold if the entry has the side Alone now and the request's owner still has a hold.
func (m *Machine) upgraded(e *entry, r *Reply) {
	u := e.upkeep()
	request := u.upgrade
	switch {
	case request == nil, r.Op.Side != Alone:
		return
	case r.Op.Sent < request.Asked:
		return // sent for an earlier request: others may have got a larger token since
	case r.OK && u.tokens.missing(request):
		return // sent for an earlier request without a token: the next transfer brings the token
	}
	u.upgrade = nil
	switch h := e.hold; {
	case r.Ran != Yes:
		m.fail(request, r.Err)
	case r.OK && h != nil && h.Request.Owner() == request.Owner() && m.now < h.end():
		m.grant(e, request)
	default:
		m.fail(request, ErrNotAcquired)
	}
}

// undoUpgrade gives an entry the number and the side that the entry had before an upgrade that
// changed nothing or got no answer. If an unanswered upgrade may still run, the entry gets a new
// number, so that the late upgrade finds an unknown number.
func (m *Machine) undoUpgrade(e *entry) {
	u := e.makeUpkeep()
	u.number, u.side = e.number, e.side
	if u.unknown.replaced() {
		m.renumber(e, e.of.rules().side(e))
	}
}

// failUpgrade fails the request of an upgrade, if any.
func (m *Machine) failUpgrade(e *entry, err error) {
	if u := e.upkeep(); u.upgrade != nil {
		r := u.upgrade
		u.upgrade = nil
		m.fail(r, err)
	}
}
