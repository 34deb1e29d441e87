package mutants

// coreMutants break the rules of lockmgr/internal/core/doc.go, in its order. Most are caught by
// seeds of clientsim. A story catches a mutant that seeds find late or never, as another rule makes
// up for the broken one, only later.
var coreMutants = []mutant{
	{"deadline", "counted from the reply", machine, "Machine.acquired", "op.Sent, op.Sent", "m.now, m.now", seeds},
	{"deadline", "renewal counted from the reply", machine, "Machine.renewed", "r.Op.Sent", "m.now", seeds},
	{"deadline", "transfer counted from the reply", machine, "Machine.transferDone", "op.Sent", "m.now", seeds},
	{"deadline", "without the 1 %", machine, "Config.usable", "lease - lease/100", "lease", seeds},
	{"deadline", "renewal moves it back", machine, "Machine.trust", "max(e.until, sent+m.cfg.usable(lease))", "sent+m.cfg.usable(lease)", stories},
	{"deadline", "expired record passed on", machine, "Machine.passOn", "m.now >= e.until", "false", seeds},
	{"deadline", "alarm does not end a hold", machine, "Machine.dueAt", "e.holdUntil()", "e.until", seeds},
	{"deadline", "failed renewal taken for a good one", machine, "Machine.renewed", "r.Ran != Yes", "r.Ran == No", seeds},
	{"deadline", "refused renewal ignored", machine, "Machine.renewed", "m.gone(e)", "m.renewalFailed(e, nil)", seeds},
	{"deadline", "fixed lease never ends", machine, "Machine.endOf", "m.now + m.cfg.usable(r.Lease)", "Forever", seeds},
	{"deadline", "an acquire asks for a long lease", machine, "Machine.leaseOf", "min(lease, m.cfg.Lease)", "lease", seeds},
	{"deadline", "a long lease is inherited", machine, "Machine.handOver", "case u.life.long, ", "case ", stories},

	{"re-entry", "does not count", machine, "Machine.reenter", "h.count++", "", seeds},
	{"re-entry", "by anybody", machine, "entry.owned", "h.Request.Owner() != owner", "false", seeds},
	{"re-entry", "after the deadline", machine, "Machine.request", "e.phase == held && m.now >= e.holdUntil()", "false", stories},

	{"numbers", "scripts do not name suspects", machine, "entry.mayCarry", "s.number != except && s.number != e.number && !leftOut", "false && leftOut", seeds},
	{"numbers", "a transfer does not name the old holder", machine, "entry.mayCarry", "e.number != 0 && e.number != except", "false", seeds},
	{"numbers", "an answer to an earlier command is believed", machine, "Reply.expected", "r.ID == r.Op.ID && e != nil && e.flight == r.Op.ID", "e != nil", seeds},
	{"numbers", "a number for each owner", machine, "Machine.ask", "m.tryNumber(r)", "1<<40+r.Owner()", seeds},

	{"unknown", "acquire forgotten", machine, "Machine.learn", "e.makeUpkeep().unknown.addOp(op, r.Split, m.suspectUntil())", "", seeds},
	{"unknown", "release taken for done", machine, "Machine.released", "r.Ran != Yes", "r.Ran == No", seeds},
	{"unknown", "passed on after an unknown release", machine, "Machine.releaseFailed", "r.Ran == Maybe", "false", seeds},
	{"unknown", "failed release not repeated", machine, "Machine.dueAt", "case releasing:\n\t\treturn e.upkeep().retry.at", "", seeds},
	{"unknown", "no clean-up when nobody is left", machine, "Machine.releaseOrRest", "e.upkeep().unknown.strays() > 0 || ", "", stories},
	{"unknown", "suspects dropped at once", machine, "unknown.named", "!s.stray || s.until <= sent", "true", stories},
	{"unknown", "one removal explains all suspects", machine, "unknown.removed", "u.strays() == 1", "u.strays() >= 1", stories},
	{"unknown", "cancelled grant kept", machine, "Machine.passOn", "case r == nil, !n.rules().passes(e, r):\n\t\tm.release(e)", "case r == nil:\n\t\tm.rest(e)\n\tcase !n.rules().passes(e, r):\n\t\tm.release(e)", seeds},

	{"health", "nobody is told", machine, "Machine.tick", "range m.shards", "range m.shards[:0]", seeds},
	{"health", "a server that fails fails requests for others", machine, "Machine.checkWaitsOn", "n.shard == shard && n.queue.head", "n.queue.head", stories},

	{"a message is a hint", "wake-up during a try not remembered", machine, "Machine.wakeEntry", "ev.Message || ev.Confirmed || gap && e.phase", "gap && e.phase", stories},
	{"a message is a hint", "no try on confirmation", machine, "Machine.wakeWaiting", "n.worthTrying(ev), ev.Confirmed:", "n.worthTrying(ev):", stories},
	{"a message is a hint", "message ignored", machine, "Machine.wakeWaiting", "n.worthTrying(ev), ev.Confirmed:", "ev.Confirmed:", seeds},
	{"a message is a hint", "raises no doubt", machine, "Machine.wakeEntry", "m.doubt(e)", "", seeds},
	{"a message is a hint", "passed on in doubt", machine, "Machine.handTo", "!e.upkeep().doubt.open() && ", "", seeds},
	{"a message is a hint", "passed on without a proof", machine, "Machine.unproven", "!u.proven || m.now-e.sent > every*3/2+2*u.trip", "u == nil", stories},

	{"one script in flight", "release does not look", machine, "Machine.release", "e.flight == 0", "true", seeds},

	{"every end is an end", "subscription not dropped", machine, "Machine.unsubscribe", "m.listen(n, 0, false)", "", stories},
	{"every end is an end", "time-outs not kept", machine, "Machine.enqueue", "m.waitEnds.atLatest(r, r.Ends)", "", seeds},
	{"every end is an end", "Unlock not answered when the record is gone", machine, "Machine.gone", "m.answerUnlock(e, e.of.rules().goneErr())", "", seeds},
	{"every end is an end", "Close leaves holds", machine, "Machine.close", "m.release(e)", "", seeds},

	{"turns", "last come, first served", machine, "queue.push", "q.tail = r", "q.tail = r\n\tif q.head != r && q.head.Owner()%5 == 0 {\n\t\tq.remove(r)\n\t\tr.next = q.head\n\t\tq.head.prev = r\n\t\tq.head = r\n\t}", seeds},
	{"turns", "kept from processes that poll", machine, "Machine.keptLong", "m.cfg.ShareEvery > 0", "false", stories},

	{"tokens", "given twice", machine, "tokens.take", "t.next++", "", seeds},
	{"tokens", "used past the range", machine, "tokens.left", "t.next <= t.last", "true", seeds},
	{"tokens", "passed on without a script", machine, "Machine.mayTakeToken", " && e.sent >= max(r.Asked, u.freeSince)", "", stories},
	{"tokens", "used after the record was lost", machine, "Machine.disown", "e.upkeep().tokens.drop()", "", seeds},

	{"deadlock", "not looked for when an owner begins to wait", machine, "Machine.enqueue", "m.breakDeadlock(r)", "", seeds},
	{"deadlock", "not looked for when an owner begins to hold", machine, "Machine.tellGrant", "m.breakDeadlocks(r.Owner(), n)", "", stories},

	{"read-write", "readers join a writer", machine, "readWrite.joins", " && k.side(e) == Shared", "", seeds},
	{"read-write", "a reader's entry passes to a writer", machine, "readWrite.passes", "r.Side == Shared || !e.mayBeShared", "true", seeds},
	{"read-write", "joins what may be gone", machine, "Machine.prepareJoin", "case !needsTransfer && !u.doubt.open():", "case !needsTransfer:", stories},
	{"read-write", "the first to leave releases", machine, "Machine.unlock", "e.hold != nil", "e.hold != nil && false", seeds},
	{"read-write", "readers go on joining though others wait", machine, "Machine.admit", "run == runIsOver && !u.writerWaits", "false", stories},
	{"read-write", "readers do not ask whether others wait", machine, "Machine.decideRun", " || e.hold != nil && run.ended(most, m.now-run.start, &m.cfg)", "", stories},
	{"read-write", "an upgrade beside another local reader", machine, "Machine.upgrade", "e.hold != h || h.next() != nil || ", "", seeds},

	{"several", "does not give back what it has gathered", machine, "Machine.waitOver", "m.now >= e.gatherEnd()", "false", stories},
	{"several", "the rest is not named after a partial loss", machine, "Machine.gone", "e.of.rules().parts(e)", "e.of.rules().parts(e) && e.of.set() == nil", stories},
	{"several", "the rest is not given back while somebody waits", machine, "Machine.gone", "if parts {\n\t\tm.release(e)", "if parts && e.of.queue.head == nil {\n\t\tm.release(e)", stories},

	{"permits", "an entry passes to a request for more", machine, "permits.passes", "e.permits == r.own.Permits", "true", seeds},
	{"permits", "the rest is not given back after a partial loss", machine, "permits.parts", "e.permits > 1", "false", stories},
	{"permits", "told while an entry passes, it does not ask", machine, "position.toldOwn", "m.ask(e)", "", stories},
	{"permits", "an entry is passed on although others wait", machine, "Machine.decideRun", "m.runOver(e)", "false", stories},

	{"fair lock", "all requests come before those of other managers", machine, "Machine.behind", "r.own.Number > min(p.front, p.joined)", "false", stories},
	{"fair lock", "a place that is missing stays lost", machine, "places.answered", "r.Missing && !x.Once", "false", stories},
	{"fair lock", "a place stays when its request leaves", machine, "name.leavePlace", "p.leave(r.own.Number)", "_ = r", stories},
	{"fair lock", "places that wait are over", machine, "places.fill", "x.Before = r.own.Number", "_ = r", stories},
	{"fair lock", "a manager that waits moves no deadlines", machine, "Machine.tryAt", ", e.of.refreshAt()", "", stories},
	{"fair lock", "a transfer never gives way", machine, "places.fill", "e.hold == nil", "false", stories},
	{"fair lock", "what was given back is lost", machine, "Machine.transferred", "r.GaveWay", "false", stories},
	{"fair lock", "a grant by message counts from the message", machine, "Machine.takeGrant", "later(g.Sent, g.Elapsed-g.Elapsed/100)", "m.now", seeds},
	{"fair lock", "a grant by message of a fast clock", machine, "Machine.takeGrant", "g.Elapsed-g.Elapsed/100", "g.Elapsed", stories},
	{"fair lock", "a grant by message from before an answer", machine, "grants.isHint", "grant.Sent < g.ran || ", "", stories},
	{"fair lock", "a grant by message keeps its short lease", machine, "Machine.takeGrant", "e.phase == held && lease > g.Lease", "false", stories},
	{"fair lock", "a grant by message for whoever is first", machine, "Machine.takeGrant", "!n.details.special.take(n, g.Number) || ", "", stories},
	{"fair lock", "a grant while the lock is held is no reason to look", machine, "Machine.wakeEntry", "e.phase == passing && ev.Grant.Number != 0", "ev.Grant.Number != 0", stories},
	{"fair lock", "a hold has the number of an acquire that may run", machine, "Machine.numberOf", "h.unsure", "false", stories},

	{"line", "a grant by message for another place", machine, "position.take", "number == p.place && ", "", stories},
	{"line", "a grant by message for another side", machine, "position.take", " && n.queue.head.Side == p.side", "", stories},
	{"line", "a place outlives a script without an answer", machine, "position.answered", "r.Ran == Maybe && p.place != 0", "false", stories},
	{"line", "a script does not name the place", machine, "position.fill", "op.OtherNumbers = append(op.OtherNumbers, p.place)", "", stories},
	{"line", "a grant for another place stays", machine, "position.told", "p.unwanted = append(p.unwanted, g)", "", stories},
	{"line", "a try that does not join waits for a message", machine, "position.refused", "e.woken = e.woken || r.Op.Lined && r.Op.Waits == 0", "_ = r", stories},
	{"line", "a release joins although no request is likely", machine, "position.expects", "p.likely && n.kind == Exclusive", "n.kind == Exclusive", stories},
	{"line", "nobody leaves the line that a release has joined", machine, "Machine.restName", "p != nil && p.joined != 0", "false", stories},

	{"keep", "released as others are", machine, "Machine.send", "op.Reserve, op.Reserver = m.reserved(e)", "", stories},
}
