package mutants

// scriptMutants break the contract in the header of each script: it takes nothing that others hold,
// shortens no life, is safe to repeat, and tells those who wait.
var scriptMutants = []mutant{
	{"acquire.lua", "takes what others hold", scripts + "acquire.lua", "", "if not ours then", "if false then", tables + "TestScripts"},
	{"acquire.lua", "shortens a life", scripts + "acquire.lua", "", "ours ~= 4 or ttl < tonumber(ARGV[1])", "true", tables + "TestScripts"},
	{"acquire.lua", "sets no end", scripts + "acquire.lua", "", "ours ~= 4 or ttl < tonumber(ARGV[1])", "false", tables + "TestScripts"},
	{"transfer.lua", "takes what others hold", scripts + "transfer.lua", "", "not ours", "false", tables + "TestScripts"},
	{"transfer.lua", "a copy shortens a life", scripts + "transfer.lua", "", "ours > 3 or redis.call('PTTL', key) < tonumber(ARGV[1])", "true", tables + "TestScripts"},
	{"renew.lua", "makes a record anew", scripts + "renew.lua", "", "  if answer == 1 then\n", "  if answer == 0 then\n    answer = redis.call('HSET', KEYS[i], ARGV[i + 1], 1)\n  end\n  if answer == 1 then\n", tables + "TestScript_Renew"},
	{"renew.lua", "shortens a life", scripts + "renew.lua", "", " and answer < lease", "", tables + "TestScript_Renew"},
	{"release.lua", "does not check the owner", scripts + "release.lua", "", "return gone > 0 and publish", "return publish", tables + "TestScripts"},
	{"release.lua", "tells nobody", scripts + "messages.lua", "", "redis.pcall('PUBLISH', channel, message)", "0", tables + "TestScripts"},
	{"acquire_many.lua", "takes what others hold", scripts + "acquire_many.lua", "", "mine == 0", "false", tables + "TestScript_ManyLikeOne"},
	{"reserve.lua", "relies on an earlier script for its time", scripts + "reserve.lua", "", "redis.call('PEXPIRE', key, ARGV[1])", "", tables + "TestScripts"},
	{"readwrite_acquire.lua", "reads beside a writer", scripts + "readwrite_acquire.lua", "", "mode == 'write' or side", "side", tables + "TestScripts_ReadWrite"},
	{"readwrite_transfer.lua", "a reader becomes a writer", scripts + "readwrite_transfer.lua", "", "side == 'write' and taken(", "false and taken(", tables + "TestScripts_ReadWrite"},
	{"readwrite_release.lua", "removes the others", scripts + "readers.lua", "", "if left then\n    for i = 1, #dead", "if false then\n    for i = 1, #dead", tables + "TestScripts_ReadWrite"},
	{"readwrite_release.lua", "a shared record keeps a life that nobody has", scripts + "readers.lua", "", "redis.call('PEXPIRE', key, math.max(longest, 1))", "", tables + "TestScripts_ReadWrite"},
	{"readwrite_renew.lua", "the reader's own key ends", scripts + "readwrite_renew.lua", "", "redis.call('PTTL', own) < lease", "false", tables + "TestScripts_ReadWrite"},
	{"readwrite_acquire.lua", "overtakes", scripts + "readwrite_acquire.lua", "", "if line and not ours then", "if false then", tables + "TestScript_LineOfReadersAndWriters"},
	{"readwrite_release.lua", "serves nobody", scripts + "readwrite_release.lua", "", "ok, turn, given = pcall(line.serve, key)", "", tables + "TestScript_LineOfReadersAndWriters"},
	{"readwrite_transfer.lua", "tells no reader", scripts + "readwrite_transfer.lua", "", "pcall(line.serve, key, whole - 1)", "", tables + "TestScript_LineOfReadersAndWriters"},
	{"readwrite_release.lua", "a grant to a reader tells no other reader", scripts + "plain_line.lua", "", "tell(line, free - 1)", "", tables + "TestScript_LineGrantsSides"},
	{"readwrite_release.lua", "a reader is granted all", scripts + "plain_line.lua", "", "local reads = n == 1", "local reads = false", tables + "TestScript_LineGrantsSides"},
	{"readwrite_release.lua", "readers that read leave nothing free", scripts + "plain_line.lua", "", "reads and whole - 1 or 0", "0", tables + "TestScript_LineOfReadersAndWriters"},
	{"readwrite_transfer.lua", "no writer of the line waits", scripts + "readwrite_transfer.lua", "", "waits = ok and sum >= whole", "", shell + "TestReadWrite_WriterWaitsForOneHold"},
	{"several_acquire.lua", "takes a part", scripts + "several_acquire.lua", "", "ARGV[2] ~= '0'", "true", tables + "TestScripts_Several"},
	{"several_acquire.lua", "takes what others have", scripts + "several_acquire.lua", "", "taken(key, prefix, entries(key, first, last))", "false", tables + "TestScripts_Several"},
	{"several_acquire.lua", "keeps a place behind what it waits for", scripts + "several_acquire.lua", "", "pcall(line.yield, lock(i), wish)\n  elseif", "left = nil\n  elseif", tables + "TestScript_LineOfSets"},
	{"several_acquire.lua", "keeps the places of what it could have", scripts + "several_acquire.lua", "", "  for _, i in ipairs(free) do\n    pcall(line.yield, lock(i), wish)\n  end\n", "", tables + "TestScript_LineOfSets"},
	{"several_acquire.lua", "does not join", scripts + "several_acquire.lua", "", "local ok, joined = pcall(line.enter, key, wish, needs)", "local ok, joined = true, true", tables + "TestScript_LineOfSets"},
	{"several_acquire.lua", "a reader needs all", scripts + "several_acquire.lua", "", "want == 'read' and 1 or whole", "whole", tables + "TestScripts_Several"},
	{"several_acquire.lua", "keeps the places of what it has got", scripts + "several_acquire.lua", "", "    pcall(line.depart, lock(i), wish) -- not before", "    -- not before", tables + "TestScript_LineOfSets"},
	{"several_acquire.lua", "all lines are those of plain locks", scripts + "several_acquire.lua", "", "'redisson_lock__channel:' or 'redisson_rwlock:'", "'redisson_lock__channel:' or 'redisson_lock__channel:'", tables + "TestScript_LineOfSets"},
	{"several_release.lua", "stays in the lines", scripts + "several_release.lua", "", "pcall(line.depart, key, ARGV[3 * n + 2])", "", tables + "TestScript_LineOfSets"},
	{"several_release.lua", "serves no line", scripts + "several_release.lua", "", "fine, turn, given = pcall(line.serve, key)", "fine = true", tables + "TestScript_LineOfSets"},
	{"several_acquire.lua", "an error leaves a part", scripts + "several_acquire.lua", "", "give(which[back])", "", tables + "TestScript_SeveralStoppedHalfway"},
	{"permits_acquire.lua", "takes more than are free", scripts + "permits_acquire.lua", "", "kept <= free - n", "kept <= free", tables + "TestScripts_Permits"},
	{"permits_acquire.lua", "a copy takes as many again", scripts + "permits_acquire.lua", "", "for h = new,", "for h = new + 1,", tables + "TestScripts_Permits"},
	{"line.lua", "a lock is taken although others are first", scripts + "plain_line.lua", "", "ahead(line, manager, free - n) <= free - n", "true", tables + "TestScript_LineIsNotOvertaken"},
	{"line.lua", "a grant is overwritten", scripts + "plain_line.lua", "", "if redis.call('EXISTS', key) == 1 then", "if false then", tables + "TestScript_LineIsNotOvertaken"},
	{"line.lua", "clients in no line are never first", scripts + "plain_line.lua", "", "outside ~= 0 or ", "not outside or ", tables + "TestScript_LineTells"},
	{"line.lua", "others overtake", scripts + "permits_acquire.lua", "", "ok and sum or 0", "0", tables + "TestScript_PermitsLine"},
	{"line.lua", "the place of a manager that was told lasts", scripts + "line.lua", "", "now < till and", "", tables + "TestScript_PermitsPlacesEnd"},
	{"line.lua", "leaves although a newer script has joined", scripts + "line.lua", "", "n and newest <= id", "n", tables + "TestScript_PermitsPlacesEnd"},
	{"line.lua", "a copy that runs late joins anew", scripts + "line.lua", "", "old and newest > id", "false", tables + "TestScript_LineLateJoin"},
	{"line.lua", "a grant by message that nobody hears", scripts + "plain_line.lua", "", "outside ~= 0 or heard == 0", "outside ~= 0", tables + "TestScript_LineGrantByMessage"},
	{"line.lua", "a grant by message of another server's clock", scripts + "plain_line.lua", "", "where ~= server()", "false", "internal/clientsim TestGrant_ByAnotherServer"},
	{"permits_transfer.lua", "passes on what has expired", scripts + "permits_transfer.lua", "", "score > now", "score > 0", tables + "TestScripts_Permits"},
	{"permits_release.lua", "an expired one counts as given back", scripts + "permits_release.lua", "", "tonumber(score) > now", "true", tables + "TestScripts_Permits"},
	{"permits_release.lua", "tells nobody in the line", scripts + "permits_release.lua", "", "pcall(tell, line, free)", "true", tables + "TestScript_PermitsLine"},
	{"permits_release.lua", "stays in the line", scripts + "permits_release.lua", "", "pcall(leave, line, manager, number)", "", tables + "TestScript_PermitsPlacesEnd"},
	{"line.lua", "the first, which gathers, is not told", scripts + "line.lua", "", "n <= free or i == 0 and free > 0 and string.find(flags, 'g')", "n <= free", tables + "TestScript_PermitsFirstGathers"},
	{"line.lua", "a manager is told again and again", scripts + "line.lua", "", "local heard = told or", "local heard =", tables + "TestScript_PermitsLine"},
	{"permits_acquire.lua", "those behind gather, too", scripts + "permits_acquire.lua", "", "(not other or other == manager)", "true", tables + "TestScript_PermitsFirstGathers"},
	{"permits_renew.lua", "an expired one lives again", scripts + "permits_renew.lua", "", "score <= now", "false", tables + "TestScripts_Permits"},
	{"fair.lua", "a copy that runs late joins", scripts + "fair.lua", "", "joining = {}\n", "\n", fairTables},
	{"fair_acquire.lua", "takes a lock that others are first for", scripts + "fair_acquire.lua", "", "(empty or next == mine)", "true", fairTables},
	{"fair_transfer.lua", "does not look who is first", scripts + "fair_transfer.lua", "", "head() ~= mine", "false", fairTables},
	{"fair_release.lua", "does not check the holder", scripts + "fair_release.lua", "", "if ours then", "if true then", fairTables},
	{"fair_release.lua", "serves nobody", scripts + "fair_release.lua", "", " and serve()", " and 0", fairTables},
	{"fair.lua", "a grant by message of another server's clock", scripts + "fair.lua", "", "where ~= server()", "false", grantTables},
	{"fair.lua", "a grant by message that nobody hears", scripts + "fair.lua", "", "hear.err or hear[2] == 0", "hear.err", grantTables},
	{"fair.lua", "a grant by message without a check", scripts + "grant.lua", "", "redis.sha1hex(secret .. lock .. ' ' .. grant)", "redis.sha1hex(grant)", grantTables},
	{"fair_acquire.lua", "a place that leaves keeps what it was granted", scripts + "fair_acquire.lua", "", " or carries(leaving)", "", grantTables},
}

// clientMutants break the promises of docs/guarantees.md that the core alone can't keep, and the
// rules of the doc.go of wire, notify, renewal, futures and actor.
var clientMutants = []mutant{
	{"deadline", "counted from the answer, in the lane", wire, "Lane.reply", "o.replies.Replies = append(", "op.Sent = l.cfg.Now()\n\to.replies.Replies = append(", seeds},
	{"deadline", "renewals wait for others", wire, "Lane.sendSoon", "len(l.renewals) > 0", "len(l.renewals) > 0 && l.flying == 0", wires + "TestLane_RenewalsHaveTheirOwnSender"},
	{"deadline", "without the margin", manager, "newLoop", "o.Margin", "0", shell + "TestLease_FixedEndsOnTime"},
	{"deadline", "Valid does not look at it", manager, "Lock.Valid", "l.Remaining() > 0", "!l.ticket.over.Load() && l.ticket.hold().lostErr() == nil", shell + "TestLock_ValidEndsWhileTheManagerIsStuck"},
	{"deadline", "valid after an early loss", manager, "hold.end", "h.until.Store(0)", "", client + "TestHandle_StaleTouchesNothing"},
	{"deadline", "nothing is done on time", manager, "loop.carryOut", "l.core.Next() <= now", "false", shell + "TestLease_FixedEndsOnTime"},
	{"deadline", "a suspension of the host does not count", manager, "clock.exact", "+ c.suspended()", "", shell + "TestLock_LostWhileTheHostIsSuspended"},

	{"loss", "the positions in a renewal's reply are ignored", wire, "exception", "out = Answer{Kind: Int}", "", shell + "TestRenewal_FindsALoss"},
	{"loss", "only Close is told", manager, "loop.perform", "l.lost(e.Hold, e.Err)", "if e.Err == core.ErrClosed {\n\t\t\tl.lost(e.Hold, e.Err)\n\t\t}", client + "TestLock_LossIsToldForEach"},
	{"loss", "contexts live on", manager, "hold.end", "c.cancel(cause)", "_ = c", shell + "TestLock_LostAtTheDeadlineOfASilentServer"},
	{"loss", "a forced unlock is not looked into", manager, "Manager.force", "m.actor.Post(core.Verify{Name: name})", "func() { _ = core.Verify{Name: name} }()", shell + "TestForceUnlock_IsSeenAtOnce"},

	{"cancel", "a grant that nobody takes is dropped", manager, "loop.granted", "l.actor.Post(core.Untaken{Request: r})", "", shell + "TestCancel_WhileTheManagerIsStuckLeavesNothing"},
	{"cancel", "a lock that nobody has taken stays", manager, "ticket.Drop", "l.unlock(true)", "", shell + "TestCancel_AfterTheGrantGivesTheLockBack"},
	{"cancel", "a lock that is given back stays reserved", manager, "ticket.Drop", "l.unlock(true)", "l.unlock(false)", shell + "TestKeepFor_NotKept"},

	{"close", "does not wait", manager, "Manager.Close", "waitFor(ctx, m.gone)", "error(nil)", client + "TestClose_AtEveryPointLeavesNothing"},
	{"close", "waits longer than its context", manager, "Manager.Close", "m.actor.Post(core.Abort{})", "", client + "TestClose_WithAnEndedContextLeavesWhatExpires"},

	{"callbacks", "of locks run on the goroutine of the manager", manager, "ticket.Dispatch", "t.shell.callbacks.put(run)", "run()", shell + "TestCallback_ThatHangsDelaysOnlyCallbacks"},

	{"handle", "unlocks twice", manager, "Lock.unlock", "!t.over.CompareAndSwap(false, true)", "t.over.Store(true); false", client + "TestUnlock_TwiceIsHarmless"},

	{"a message is a hint", "it grants", manager, "loop.step", "l.listen(keyOf(ev), ev.watch, ev.seq)", "for _, e := range l.effects {\n\t\t\t\t\tif r, ok := e.(core.Run); ok && ev.event.Message && r.Op.Verb == core.VerbAcquire {\n\t\t\t\t\t\tr.Op.Sent = now\n\t\t\t\t\t\tl.effects = l.core.Step(now, &core.Replies{Replies: []core.Reply{{Op: r.Op, ID: r.Op.ID, Ran: core.Yes, OK: true}}}, l.effects)\n\t\t\t\t\t}\n\t\t\t\t}\n\t\t\t\tl.listen(keyOf(ev), ev.watch, ev.seq)", servers + "TestMessage_OfAnyTextGrantsNothing"},
	{"a message is a hint", "only the first one is heard", manager, "loop.step", "l.listen(keyOf(ev), ev.watch, ev.seq)", "", shell + "TestTurns_OthersGetTheirs"},

	{"unknown", "a time-out is a refusal", wire, "failureOf", "core.Maybe", "core.No", shell + "TestTryLock_LostReply"},

	{"only a grant is one", "a reply of no known kind", wire, "readMessage", "case m.IsNil():", "case m.IsNil(), m.Error() == nil:", shell + "TestServerError_StrangeReplies"},
	{"only a grant is one", "no token where one was asked for", wire, "readAcquired", "op.Tokens == 0", "true", wires + "FuzzAnswer_OnlyAGrantIsAGrant"},

	{"errors", "a silent server looks like another owner", wire, "Lane.Submit", "l.health.sent(len(ops), now)", "", shell + "TestLock_OnASilentServerIsUnavailable"},

	{"names", "the channel is in another slot", wire, "around", "\":{\", \"}\"", "\":\", \"\"", shell + "FuzzName_TwoShareNoKey"},
	{"names", "a lock may have the name of another record", manager, "checkName", "wire.IsReserved(name)", "false", shell + "FuzzName_TwoShareNoKey"},

	{"shared commands", "answers out of step are believed", wire, "element", "len(a.Array) != n", "n < 0", wires + "TestAnswer_OutOfStep"},
	{"shared commands", "repeated though they may have run", wire, "batch.refused", " || f.Ran != core.No", "", wires + "TestBatch_RefusedCommandIsSplit"},

	{"several", "a partial release looks whole", wire, "readReleasedSeveral", "done > 0 && done < int64(len(op.Items))", "false", shell + "TestLockAll_LostIfAnyPartIs"},

	{"spread", "a refused try keeps what it got", wire, "spread.afterTake", "return s.undo(s.refusal(refused, r.Item-1), from)", "return s.refusal(refused, r.Item-1), from >= 0", wires + "TestSpread_RefusedTryKeepsNothing"},
	{"spread", "the line of a later slot is not left", wire, "spread.inLineUnreached", "i >= s.next && ", "false && ", wires + "TestSpread_LeavesALaterLine"},
	{"spread", "the lease counts from the last command", wire, "earliest", "min(at, ", "max(at, ", wires + "TestSpread_TakesOneMasterAfterTheOther"},
	{"spread", "a set is renewed if a part is", wire, "spread.combined", "all && r.OK", "some || r.OK", wires + "TestSpread_OnePartIsGone"},

	{"replicas", "one less is enough", wire, "confirmer.ask", "n < int64(", "n+1 < int64(", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "an acquire without replicas did not run", wire, "confirmer.confirm", "core.Maybe", "core.No", wires + "TestReplicas_NotConfirmed"},

	{"cluster", "one lane for all", wire, "Lanes.submit", "l.laneNumber(keyOf(op))", "0", wires + "TestLanes_HungShardDelaysNoOther"},
	{"cluster", "what a master refuses is answered", wire, "Lane.report", "l.cfg.group.redirect(*t, a.Failure, l.cfg.where)", "false", wires + "TestLanes_PassOnWhatAMasterRefuses"},
	{"cluster", "no ASKING", wire, "Redis.One", "if asking {", "if false {", ofNodes + "TestNodes_FollowRedirections"},
	{"cluster", "a node of another cluster is greeted", nodes, "Nodes.greet", "!sameCluster(n.layout, a.layout)", "false", ofNodes + "TestNode_SaysWhichNodeItIs"},
	{"cluster", "a script runs at any node", wire, "newScript", "text = onlyAt + text", "text = \"table.remove(ARGV) \" + text", shell + "TestCluster_NodeBecomesForeignUnseen"},
	{"cluster", "an answer of any node counts", wire, "Redis.checkID", "id == s.Node", "id != \"\"", ofNodes + "TestNode_ChangesUnseen"},
	{"cluster", "channels stay at the old master", manager, "hubs.moved", "h.lanes.Master(w.Channel()) != w.master", "false", shell + "TestCluster_SlotMoves"},

	{"notify", "confirmed when it is asked for", "notify", "connection.send", "c.link.subscribe(names)", "c.link.subscribe(names)\n\tfor _, ch := range chs {\n\t\tif c.confirmed(ch) {\n\t\t\tc.core.tell(ch, event{reason: ReasonConfirmed})\n\t\t}\n\t}", hub + "TestStories"},
	{"notify", "does not subscribe again", "notify", "connection.connected", "c.enqueue(ch)", "if c.core.stats.Connects == 1 {\n\t\t\tc.enqueue(ch)\n\t\t}", hub + "TestHub_Reconnects"},
	{"notify", "does not tell of a gap", "notify", "connection.disconnect", "if wasLive", "if false && wasLive", hub + "TestStories"},
	{"notify", "what came between two Nexts is missed", "notify", "Watch.Next", "w.marks.seq > after", "false", hub + "TestStories"},
	{"notify", "one forbidden channel takes all along", "notify", "connection.refuse", "len(chs)/2", "len(chs)", hub + "TestHub_ForbiddenChannel"},

	{"renewal", "before it is due", "renewal", "Map.boundary", "ceil(due, m.slot)", "max(floor(due, m.slot), floor(now, m.slot)+1)", renewer + "TestMap_WhenAnItemComesOut"},

	{"futures", "settled twice", "futures", "Future.settle", "f.state.Load() != pending", "false", future + "TestResolve"},
	{"futures", "a value that nobody has taken stays", "futures", "Future.Cancel", "f.source.Drop(v)", "_ = v", future + "TestCancel_GivesBackWhatNobodyHasTaken"},
	{"futures", "a value that is taken is given back", "futures", "Future.Result", "!f.state.CompareAndSwap(offered, taken)", "f.state.Load() != offered", future + "TestCancel_LeavesATakenValue"},

	{"actor", "a parked actor is not woken", "actor", "mailbox.take", "m.idle = park", "m.idle = false", actors + "TestActor_KeepsTheOrderOfAProducer"},
	{"actor", "urgent messages wait for all others", "actor", "Actor.handle", "a.box.takeUrgent()", "nil", actors + "TestActor_UrgentMessagesOvertake"},
}
