package mutants

const (
	fairSeeds   = "lockmgr/internal/sim TestSeeds_Fair"
	fairScripts = "lockmgr/internal/wire/script/fair"
	fairTables  = shell + "TestScripts_Fair"
	fairLines   = machine + " TestLine_ManyPlacesAreLost TestLine_ManyLeave"
	fairFront   = machine + " TestLine_RequestWithoutAPlaceIsBehind"
)

// The mutants of fair locks: of the core's rules, and of the scripts.
var fairMutants = []mutant{
	// Who is at the front.
	{"fair lock", "the front never goes back", machine, "l.front = 0\n\tif r.OK {\n\t\tl.front, l.frontUntil = r.Front,", "if r.OK {\n\t\tl.front, l.frontUntil = max(l.front, r.Front),", fairSeeds},
	{"fair lock", "all come before the others in the queue", machine, "r.own.Number > min(l.front, l.sent) ||", "false ||", fairSeeds},
	{"fair lock", "a request without a place is at the front", machine, "return r.own.Number == 0 || r.own.Number > min(l.front, l.sent)", "return r.own.Number > min(l.front, l.sent)", fairFront},
	{"fair lock", "the front counts for ever", machine, " || m.now >= l.frontUntil ||", " ||", fairFront},
	{"fair lock", "a place that is lost is at the front", machine, "min(l.front, l.sent)", "l.front", stories},
	{"fair lock", "a grant for another asks nobody who is next", machine, "answered.Verb != VerbAcquire || !n.takesTurns() && r.own.Number != e.number", "answered.Verb != VerbAcquire", stories},

	// Who joins.
	{"fair lock", "a place that was asked for once is there", machine, "r.own.Number > l.sent)", "r.own.Number > l.tried)", stories},
	{"fair lock", "a place that is missing stays lost", machine, "if r.Missing && !x.Once {", "if false {", stories},
	{"fair lock", "a try without a place says that places are lost", machine, "if r.Missing && !x.Once {", "if r.Missing {", stories},
	{"fair lock", "a single try joins the queue", machine, "return !r.Once && (r.own.Number == 0", "return (r.own.Number == 0", fairSeeds},
	{"fair lock", "a transfer that finds nothing has added places", machine, "r.OtherKind || r.Op.Verb == VerbTransfer && !r.OK && !r.GaveWay {", "r.OtherKind {", stories},
	{"fair lock", "an acquire that finds another kind has removed places", machine, "r.OtherKind || r.Op.Verb == VerbTransfer", "r.Op.Verb == VerbTransfer", stories},
	{"fair lock", "a waiter of a held lock gets no place", machine, "if n.entry.phase != idle {\n\t\tn.makeDetails()\n", "if false {", stories},
	{"fair lock", "a place waits for the next event to join again", machine, "if e.of.lineDue(m.now) {\n\t\t\t\tat = m.now\n\t\t\t}", "", stories},
	{"fair lock", "as many join as there are", machine, "r != nil && len(out) < mostMoved", "r != nil", fairLines},
	{"fair lock", "as many leave as there are", machine, "l.leaving[:min(len(l.leaving), mostMoved)]", "l.leaving", fairLines},
	{"fair lock", "a place that is still to join is missing", machine, "r != nil && r.own.Number <= joined;", "r != nil && joined >= 0;", fairLines},
	{"fair lock", "each try has a new number", machine, "if n.takesTurns() || number == 0 {", "if true {", fairSeeds},
	{"fair lock", "a release takes the number of a place away", machine, "r != nil && n.takesTurns() {\n\t\tr.own.Number = 0", "r != nil {\n\t\tr.own.Number = 0", stories},

	// Who leaves.
	{"fair lock", "a place stays when its request leaves", machine, "l.leaving = append(l.leaving, r.own.Number)", "_ = r", fairSeeds},
	{"fair lock", "no script is sent for a place that leaves", machine, "(len(l.leaving) > 0 || n.queue.tail", "(n.queue.tail", stories},
	{"fair lock", "a place that was granted leaves as well", machine, "l.leaving = l.leaving[:last]", "_ = last", stories},
	{"fair lock", "a place that is over stays when nobody waits", machine, "l.last >= max(l.cleared, 1)", "false", stories},
	{"fair lock", "the place of the new holder may be left", machine, "l.cleared++", "_ = l", stories},
	{"fair lock", "a number that is no place clears those before it", machine, "r.OK && r.Op.Number == l.cleared {\n\t\tl.cleared++", "r.OK {\n\t\tl.cleared = max(l.cleared, r.Op.Number+1)", stories},
	{"fair lock", "no release for places that leave", machine, "strays() > 0 || e.of.details.special.leftovers() {", "strays() > 0 {", stories},
	{"fair lock", "no release for those that left during one", machine, "case n.details.special.leftovers() && n.queue.head == nil:", "case false:", stories},
	{"fair lock", "Close leaves places of those that left during a release", machine, "case n.details.special.leftovers() && n.queue.head == nil:", "case n.details.special.leftovers() && n.queue.head == nil && !m.closing:", stories},
	{"fair lock", "a release that is given up is tried for ever", machine, "l.leaving, l.last = nil, 0", "_ = l", stories},
	{"fair lock", "places that wait are over", machine, "\t\t\tx.Before = r.own.Number\n", "\t\t\t_ = r\n", fairSeeds},
	{"fair lock", "no place is over", machine, "x.Before = m.lastNumber + 1", "x.Before = 1", fairSeeds},

	// Deadlines.
	{"fair lock", "a manager that waits moves no deadlines", machine, "min(at, e.gatherEnd(), e.of.refreshAt())", "min(at, e.gatherEnd())", stories},
	{"fair lock", "a holder moves no deadlines", machine, "\treturn n.refreshAt()\n}", "\treturn Forever\n}", stories},
	{"fair lock", "deadlines are moved all the time", machine, "l.refreshAt = m.now + m.cfg.PlaceTime/4", "l.refreshAt = m.now", fairSeeds},
	{"fair lock", "a refresh that failed is not repeated", machine, "if x.Refresh {\n\t\t\tl.refreshAt = m.now", "if false {\n\t\t\tl.refreshAt = m.now", stories},
	{"fair lock", "a failed script is repeated at once", machine, "n.lineDue(m.now) && (!u.retry.failing() || m.now >= u.nextTransfer):", "n.lineDue(m.now):", fairSeeds},

	// Giving way.
	{"fair lock", "a transfer never gives way", machine, "x.Pass = e.hold == nil", "x.Pass = false", fairSeeds},
	{"fair lock", "a holder gives way", machine, "x.Pass = e.hold == nil", "x.Pass = true", fairSeeds},
	{"fair lock", "what was given back is lost", machine, "case r.Ran == Yes && r.GaveWay:", "case false:", stories},
	{"fair lock", "a message before the answer is forgotten", machine, "case e.woken:", "case false:", stories},
	{"fair lock", "a message during a transfer is not noted", machine, "e.woken = e.woken || ev.Message || ev.Confirmed\n\t\tcase asking:", "e.woken = e.woken || ev.Confirmed\n\t\tcase asking:", stories},
	{"fair lock", "a confirmation during a transfer is not noted", machine, "e.woken = e.woken || ev.Message || ev.Confirmed\n\t\tcase asking:", "e.woken = e.woken || ev.Message\n\t\tcase asking:", stories},
	{"fair lock", "an old message counts", machine, "\te.woken = false\n\tm.transfer(e, r.Side", "\tm.transfer(e, r.Side", stories},
	{"fair lock", "polls late when it has given way", machine, "m.now+m.poll(n, r.TTL))\n\t\tm.hear(n)", "m.now+m.poll(n, -1))\n\t\tm.hear(n)", stories},
	{"fair lock", "waits for a transfer that is refused for good", machine, "lineless := !n.takesTurns() && ", "lineless := false && ", stories},

	// What a manager hears.
	{"fair lock", "deaf when it has given way", machine, "m.now+m.poll(n, r.TTL))\n\t\tm.hear(n)", "m.now+m.poll(n, r.TTL))", fairSeeds},
	{"fair lock", "deaf to places when it was refused", machine, "m.becomeWaiting(e, poll)\n\t\tm.hear(n)", "m.becomeWaiting(e, poll)", fairSeeds},
	{"fair lock", "begins to hear when it has to wait only", machine, "l.front == 0 && n.queue.head != nil", "false && n.queue.head != nil", stories},
	{"fair lock", "always hears its first place", machine, "if l.mixed && !r.Once {", "if !r.Once {", stories},
	{"fair lock", "never hears its first place", machine, "if l.mixed && !r.Once {", "if false && !r.Once {", fairSeeds},
	{"fair lock", "hears earlier places, too", machine, "if l.ear != 0 {\n\t\tm.stats.Subscriptions--", "if false {\n\t\tm.stats.Subscriptions--", fairSeeds},
	{"fair lock", "hears a place for ever", machine, "{ m.hearPlace(n, 0) }", "{}", fairSeeds},
	{"fair lock", "a late message of an earlier place wakes", machine, "return ev, ev.Place == l.ear", "return ev, true", stories},
	{"fair lock", "the channel of a place stands for that of the name", machine, "ev.Subscribed = n.sub == subOn", "_ = ev", stories},

	// Numbers.
	{"fair lock", "a hold has the number of an acquire that may run", machine, "case !r.Passed && h.unsure:", "case false:", stories},
	{"fair lock", "one removal explains several acquires", machine, "u.strays() == 1 && !slices.ContainsFunc(u.suspects, func(s suspect) bool { return s.several })", "u.strays() == 1", stories},

	// No turns.
	{"fair lock", "a run ends", machine, "if !n.takesTurns() {\n\t\treturn goOn\n\t}", "", stories},
	{"fair lock", "transfers come early in a long run", machine, "early := n.takesTurns() && ", "early := ", stories},
	{"fair lock", "transfers further apart while nobody is known", machine, "t.alone && n.takesTurns() {", "t.alone {", stories},

	// The scripts.
	{"fair lock", "fair.lua: a copy that runs late joins", fairScripts + ".lua", "  joining = {}\n", "", fairTables},
	{"fair lock", "fair.lua: forgets which scripts have run", fairScripts + ".lua", "redis.pcall('HSET', waits, '@' .. manager, ARGV[10])", "local _", fairTables},
	{"fair lock", "fair.lua: the waits of others are not noted", fairScripts + ".lua", "more = more + wait - old", "more = more", fairTables},
	{"fair lock", "fair.lua: a wait counts from now", fairScripts + ".lua", "wait = math.max(0, till - last)", "wait = math.max(0, till - now)", fairTables},
	{"fair lock", "fair.lua: a new place does not last beyond the waits of others", fairScripts + ".lua", "whole(now + ahead() + life)", "whole(now + life)", fairTables},
	{"fair lock", "fair.lua: a refreshed place does not last beyond the waits of others", fairScripts + ".lua", "whole(now + sum + life)", "whole(now + life)", fairTables},
	{"fair lock", "fair.lua: a wait is noted once", fairScripts + ".lua", "if wait ~= noted then", "if not noted then", fairTables},
	{"fair lock", "fair.lua: a wait that seems smaller counts", fairScripts + ".lua", "        wait = math.max(old, wait)\n", "", fairTables},
	{"fair lock", "fair.lua: clients of Redisson behind a place stay", fairScripts + ".lua", "        move(member, by)\n", "", fairTables},
	{"fair lock", "fair.lua: clients behind the place of another manager move", fairScripts + ".lua", "      by = 0 -- the manager", "      by = by -- the manager", fairTables},
	{"fair lock", "fair.lua: the first place lasts for longer", fairScripts + ".lua", "    if over > 0 then", "    if false then", fairTables},
	{"fair lock", "fair.lua: nobody behind a dead manager is told", fairScripts + ".lua", "        redis.pcall('PUBLISH', channel .. ':' .. member, '0')\n", "", fairTables},
	{"fair lock", "fair_acquire.lua: a refresh tells nobody", fairScripts + "_acquire.lua", " or ARGV[4] == '1' then", " then", fairTables},
	{"fair lock", "fair.lua: places are not sorted", fairScripts + ".lua", "    table.sort(ours)\n", "", fairTables},
	{"fair lock", "fair.lua: waits of those that have gone count", fairScripts + ".lua", "if noted['sum'] and noted['sum'] ~= sum then", "if false then", fairTables},
	{"fair lock", "fair.lua: the front is that of all places", fairScripts + ".lua", "      if not n then\n        break\n      end\n      last = n", "      last = n or last", fairTables},
	{"fair lock", "fair.lua: places that are over stay", fairScripts + ".lua", "till > now and not (n and n < before)", "till > now", fairTables},
	{"fair lock", "fair.lua: places that are over stay behind others", fairScripts + ".lua", "    if n and n < before then\n", "    if false then\n", fairTables},
	{"fair lock", "fair.lua: places that leave stay", fairScripts + ".lua", "for i = 1, #leaving do", "for i = 1, 0 do", fairTables},
	{"fair lock", "fair.lua: what is over keeps its wait", fairScripts + ".lua", "      redis.call('HDEL', waits, first)\n", "", fairTables},
	{"fair lock", "fair.lua: a deadline without a place is a place", fairScripts + ".lua", "new = not there[member]", "new = new", shell + "TestScript_FairBrokenQueue"},
	{"fair lock", "fair.lua: a first member without a deadline stays", fairScripts + ".lua", "if till and till > now", "if not till or till > now", shell + "TestScript_FairBrokenQueue"},
	{"fair lock", "fair.lua: shortens a life", fairScripts + ".lua", "if least < tonumber(ARGV[6]) then", "if true then", fairTables},
	{"fair lock", "fair.lua: leaves the old holder in", fairScripts + ".lua", "    redis.call('HDEL', lock, place(others[i]))\n", "", fairTables},
	{"fair lock", "fair.lua: the place of the holder stays", fairScripts + ".lua", "    redis.call('LREM', queue, 1, mine)\n    if not head()", "    if not head()", fairTables},
	{"fair lock", "fair.lua: tells itself", fairScripts + ".lua", "if not first or number(first) then", "if not first then", fairTables},
	{"fair lock", "fair.lua: tells the place of another manager", fairScripts + ".lua", "first = string.match(first, '^(.*):%d+:f$') or first", "first = first .. ''", fairTables},
	{"fair lock", "fair_acquire.lua: takes what others come first for", fairScripts + "_acquire.lua", "(empty or next == mine)", "true", fairTables},
	{"fair lock", "fair_acquire.lua: a copy that runs late takes a free lock", fairScripts + "_acquire.lua", "not taken and not late and (empty", "not taken and (empty", fairTables},
	{"fair lock", "fair_acquire.lua: does not miss its own place", fairScripts + "_acquire.lua", "  missing = 1\nend\nif not taken", "end\nif not taken", fairTables},
	{"fair lock", "fair_acquire.lua: a stray stays", fairScripts + "_acquire.lua", "    redis.call('DEL', lock)\n", "", fairTables},
	{"fair lock", "fair_acquire.lua: tells nobody", fairScripts + "_acquire.lua", "    tell()\n", "", fairTables},
	{"fair lock", "fair_transfer.lua: makes a record anew", fairScripts + "_transfer.lua", "if not recorded and not carries() then", "if false then", fairTables},
	{"fair lock", "fair_transfer.lua: does not ask who is first", fairScripts + "_transfer.lua", "not recorded and not empty and head() ~= mine", "false", fairTables},
	{"fair lock", "fair_transfer.lua: gives back what the next one has", fairScripts + "_transfer.lua", "ARGV[8] == '1' and not recorded and", "ARGV[8] == '1' and", fairTables},
	{"fair lock", "fair_transfer.lua: does not miss the place of the next one", fairScripts + "_transfer.lua", "    missing = 1\n", "", fairTables},
	{"fair lock", "fair_transfer.lua: gives way and tells nobody", fairScripts + "_transfer.lua", "  tell()\n", "", fairTables},
	{"fair lock", "fair_release.lua: whoever the holder is", fairScripts + "_release.lua", "if ours then", "if true then", fairTables},
	{"fair lock", "fair_release.lua: tells nobody", fairScripts + "_release.lua", "told = tell()", "told = 0", fairTables},
	{"fair lock", "fair_release.lua: tells nobody if the record has ended", fairScripts + "_release.lua", "if redis.call('EXISTS', lock) == 0 and (#others > 0 or head() ~= first) then", "if ours then", fairTables},
	{"fair lock", "fair_release.lua: tells although another one has the lock", fairScripts + "_release.lua", "redis.call('EXISTS', lock) == 0 and ", "", fairTables},

	// The commands.
	{"fair lock", "gives way though it has a holder", "lockmgr/internal/wire", "return ok && (r.OK || op.Line.Pass)", "return ok", wires + "TestFair_BadReplies"},
	{"fair lock", "a grant without a token", "lockmgr/internal/wire", "(len(a.Array) == 5) != (op.Tokens > 0)", "false", wires + "TestFair_BadReplies"},
	{"fair lock", "a release of another number", "lockmgr/internal/wire", "len(a.Array) > 2 || v[0] < 0 || v[0] > 1 ||", "len(a.Array) > 2 ||", wires + "TestFair_BadReplies"},
	{"fair lock", "a key of another type is a lost lock", "lockmgr/internal/wire", "f.Kind == WrongType && op.Kind != core.Fair:", "f.Kind == WrongType:", wires + "TestFair_KeyOfAnotherType"},
	{"fair lock", "places are those of plain locks", "lockmgr/internal/wire", "return HolderID(manager, n) + fairEnd", "return HolderID(manager, n)", wires + "TestFair_Channels"},
	{"fair lock", "hears the channel of a plain lock", "lockmgr", "return wire.FairChannel(p.id.uuid, e.Name)", "return wire.Channel(e.Name)", shell + "TestFair_Channels"},
	{"fair lock", "hears the manager for a place", "lockmgr", "return wire.PlaceChannel(p.id.uuid, e.Name, e.Place)", "return wire.FairChannel(p.id.uuid, e.Name)", shell + "TestFair_Channels"},
	{"fair lock", "lists that run together", "lockmgr/internal/wire", "c.Args = append(c.Args, strconv.Itoa(len(list)))", "c.Args = append(c.Args, \"0\")", wires + "TestFair_WordsOfACommand"},
}
