package mutants

// A mutant is the client with one of its rules taken away.
type mutant struct {
	rule string
	name string
	file string // from the root of the repository
	old  string // what the file must contain exactly once
	new  string
	by   string // the package and, after a space, the tests that must catch it, separated by spaces
}

// The packages whose tests catch mutants.
const (
	shell   = "lockmgr "
	client  = "internal/faults/client "
	hub     = "notify "
	renewer = "renewal "
	future  = "futures "
	actors  = "actor "
	sharing = "lockmgr/internal/sim/turns "
)

var shellMutants = []mutant{
	{"deadline", "op: counted from the answer", "lockmgr/executor.go", "\t\t\treplies.Replies = append(replies.Replies, a.reply(t.op))\n", "\t\t\tt.op.Sent = x.now()\n\t\t\treplies.Replies = append(replies.Replies, a.reply(t.op))\n",
		client + "TestASlowAnswerStretchesNoLease"},
	{"deadline", "renewal: counted from the answer", "lockmgr/executor.go", "\t\t\tx.answer(b.renewed(i))\n", "\t\t\tt.renewal.Sent = x.now()\n\t\t\tx.answer(b.renewed(i))\n", client + "TestASlowAnswerStretchesNoLease"},
	{"deadline", "no margin", "lockmgr/loop.go", "Margin: o.Margin,", "Margin: 0,", shell + "TestFixedLeaseEndsOnTime"},
	{"deadline", "Valid does not look at it", "lockmgr/lock.go", "func (l *Lock) Valid() bool { return l.Remaining() > 0 }", "func (l *Lock) Valid() bool { return !l.ticket.over.Load() && l.hold.lostErr() == nil }",
		shell + "TestValidEndsByItselfWhileTheManagerIsStuck"},
	{"deadline", "valid after an early loss", "lockmgr/lock.go", "\th.until.Store(0)\n", "", client + "TestAStaleHandleTouchesNothing"},
	{"deadline", "valid after the unlock", "lockmgr/lock.go", "if l.ticket.over.Load() {\n\t\treturn 0", "if false {\n\t\treturn 0", shell + "TestServerLockAndUnlock"},
	{"deadline", "renewals don't reach the handle", "lockmgr/loop.go", "\t\tticketOf(e.Anchor).hold.until.Store(int64(e.Anchor.Until))\n", "", shell + "TestWatchdogKeepsALockForHours"},
	{"deadline", "nothing is done on time", "lockmgr/loop.go", "if p.core.Next() <= now {", "if false {", shell + "TestFixedLeaseEndsOnTime"},
	{"deadline", "lease rounded down", "lockmgr/script.go", "int64((d+time.Millisecond-1)/time.Millisecond)", "int64(d/time.Millisecond)", shell + "FuzzLeasesAreRoundedUp"},
	{"deadline", "requests go before what keeps locks", "lockmgr/executor.go", "\tout = move(out[:0], &x.urgent)\n\treturn move(out, &x.queue)", "\tout = move(out[:0], &x.queue)\n\treturn move(out, &x.urgent)",
		client + "TestAnUnlockOvertakesABurst"},

	{"deadline", "a suspension of the host does not count", "lockmgr/clock.go", "func (c *clock) exact() time.Duration { return time.Since(c.origin) + c.suspended() }", "func (c *clock) exact() time.Duration { return time.Since(c.origin) }", shell + "TestASuspendedHostLosesItsLocks"},

	{"loss", "only a Close is one", "lockmgr/loop.go", "\t\tp.lost(e.Anchor, e.Err)\n", "\t\tif e.Err == core.ErrClosed {\n\t\t\tp.lost(e.Anchor, e.Err)\n\t\t}\n", client + "TestTheLossIsToldForEveryLock"},
	{"loss", "not told to those who ask later", "lockmgr/lock.go", "if h.err != nil {\n\t\t\tclose(h.more.lost)", "if false {\n\t\t\tclose(h.more.lost)", client + "TestAStaleHandleTouchesNothing"},
	{"loss", "contexts live on", "lockmgr/lock.go", "\t\tc.cancel(err)\n\t}\n}", "\t\t_ = c\n\t}\n}", shell + "TestSilentServerLosesTheLockAtTheDeadline"},
	{"loss", "contexts made later live", "lockmgr/lock.go", "if h.err != nil {\n\t\treturn h.err", "if false {\n\t\treturn h.err", client + "TestAStaleHandleTouchesNothing"},
	{"loss", "contexts outlive the unlock", "lockmgr/lock.go", "\t\tc.cancel(ErrNotHeld)\n", "\t\t_ = c\n", shell + "TestReentry"},
	{"loss", "positions in a renewal's reply ignored", "lockmgr/script.go", "\t\t\t\te.Lost = true\n", "\t\t\t\te.Lost = false\n", shell + "TestLossIsSeenAtTheNextRenewal"},
	{"loss", "positions taken to count from 0", "lockmgr/script.go", "e := &r.Entries[n-1]; text", "e := &r.Entries[min(n, len(r.Entries)-1)]; text", shell + "FuzzOnlyAGrantIsAGrant"},
	{"loss", "what can't be renewed is lost", "lockmgr/script.go", "\t\t\t\te.Ran, e.Final, e.Err = readServerError(textError(text), text)\n", "\t\t\t\te.Lost = true\n", shell + "TestARenewalTellsOfEachLease"},
	{"loss", "failed renewal taken for a good one", "lockmgr/script.go", "\t\tall(a.ran, a.final, a.err)\n", "\t\tall(core.Yes, false, nil)\n", shell + "FuzzOnlyAGrantIsAGrant TestServerErrorKilledWhileHolding"},
	{"loss", "forced unlock not looked into", "lockmgr/inspect.go", "m.actor.Post(core.Verify{Name: name})", "_ = core.Verify{Name: name}", shell + "TestForceUnlockIsSeenAtOnce"},

	{"loss", "ended contexts kept", "lockmgr/lock.go", "\tm.contexts = slices.DeleteFunc(m.contexts, func(c boundContext) bool { return c.ctx.Err() != nil })\n", "", shell + "TestEndedContextsAreForgotten"},
	{"loss", "ended contexts looked for at each call", "lockmgr/lock.go", "\tm.sweepAt = 2 * len(m.contexts)\n", "", shell + "TestACallOfContextLooksAtFewOthers"},

	{"cancel", "grant that nobody takes is dropped", "lockmgr/loop.go", "\t\tp.m.actor.Post(core.Unlock{Request: r})\n", "", shell + "TestAWithdrawalWhileTheManagerIsStuckLeavesNothing"},
	{"cancel", "not told to the core", "lockmgr/lock.go", "{ t.manager.actor.Post(core.Cancel{Request: &t.request}) }", "{}", client + "TestCancelsAtEveryPointLeaveNothing"},
	{"cancel", "counted as pending for ever", "lockmgr/loop.go", "\tp.m.pending.Add(-1)\n\terr = t.waitError(", "\terr = t.waitError(", client + "TestCancelsAtEveryPointLeaveNothing"},
	{"cancel", "a lock that nobody has taken stays", "lockmgr/lock.go", "func (t *ticket) Drop(l *Lock) { l.UnlockAsync() }", "func (t *ticket) Drop(l *Lock) {}", shell + "TestCancelAfterTheGrantGivesTheLockBack"},
	{"cancel", "subscription stays", "lockmgr/loop.go", "\t\tp.watches[e.Name].Close()\n", "", client + "TestCancelsAtEveryPointLeaveNothing"},
	{"callbacks", "of locks run on the manager's goroutine", "lockmgr/callbacks.go", "func (t *ticket) Dispatch(run func()) { t.manager.callbacks.put(run) }", "func (t *ticket) Dispatch(run func()) { run() }", shell + "TestACallbackThatHangsDelaysOnlyCallbacks"},
	{"callbacks", "of unlocks run on the manager's goroutine", "lockmgr/callbacks.go", "func (r *unlocking) Dispatch(run func()) { r.manager.callbacks.put(run) }", "func (r *unlocking) Dispatch(run func()) { run() }", shell + "TestACallbackThatHangsDelaysOnlyCallbacks"},
	{"callbacks", "end with a Goexit", "lockmgr/callbacks.go", "if !ended {", "if !ended && false {", shell + "TestCallbacksOutliveAGoexit"},
	{"callbacks", "two at a time", "lockmgr/callbacks.go", "if !c.running {\n\t\tc.running = true\n\t\tgo", "if true {\n\t\tc.running = true\n\t\tgo", shell + "TestCallbacksWaitInOrder"},

	{"cancel", "TryLock waits", "lockmgr/manager.go", "Once: w.wait == 0,", "Once: false,", shell + "TestWaitTimesOut"},
	{"cancel", "Wait not heeded", "lockmgr/manager.go", "\t\tt.request.GiveUp = t.asked + w.wait\n", "", shell + "TestWaitTimesOut"},

	{"close", "does not wait", "lockmgr/manager.go", "\tcase <-m.gone:\n", "\tcase <-m.gone:\n\tdefault:\n", client + "TestCloseAtEveryPointLeavesNothing"},
	{"close", "waits longer than its context", "lockmgr/manager.go", "\t\tm.actor.Post(core.Abort{})\n", "", client + "TestCloseWithAnEndedContextLeavesWhatExpires"},
	{"close", "does not wait for callbacks", "lockmgr/manager.go", "\tm.callbacks.wait(ctx)\n", "", shell + "TestCloseWaitsForCallbacksForATime"},
	{"close", "leaves the connection", "lockmgr/manager.go", "if m.closeClient != nil {", "if false {", client + "TestCloseAtEveryPointLeavesNothing"},
	{"close", "closes what is borrowed", "lockmgr/redis.go", "return start(newIdentity(), options, client, 0, nil), nil", "return start(newIdentity(), options, client, 0, client.Close), nil", shell + "TestBorrowedClientStaysOpen"},

	{"handle", "unlocks twice", "lockmgr/lock.go", "if !t.over.CompareAndSwap(false, true) {", "if t.over.Store(true); false {", client + "TestUnlockTwiceIsHarmless"},
	{"handle", "Do unlocks under the context that ended", "lockmgr/do.go", "context.WithoutCancel(ctx)", "ctx", shell + "TestDoUnlocksAfterItsContextEnded"},
	{"handle", "Do keeps the loss to itself", "lockmgr/do.go", "err = joined(err, m.finish(ctx, l))", "m.finish(ctx, l)", shell + "TestDoTellsTheLoss"},

	{"errors", "a silent server looks like another owner", "lockmgr/loop.go", "p.health.sent(len(p.tasks), now)", "_ = now", shell + "TestAWaitOnASilentServerIsUnavailable"},
	{"errors", "a failure is for ever", "lockmgr/health.go", "\th.err = err\n", "\tif err != nil {\n\t\th.err = err\n\t}\n", shell + "TestHealth"},

	{"handle", "owner of another manager", "lockmgr/options.go", "if w.owner.of != nil && w.owner.of != m.id {", "if false {", shell + "TestBadInputSendsNothing"},
	{"handle", "lease of nothing", "lockmgr/options.go", "if o.d < MinLease || o.d > MaxLease {", "if false {", shell + "TestBadInputSendsNothing"},
	{"handle", "no bound on waiters", "lockmgr/manager.go", "if m.pending.Add(1) > int64(m.options.MaxWaiters) {", "if m.pending.Add(1) < 0 {", shell + "TestBoundOnWaiters"},
	{"handle", "no bound on remembered names", "lockmgr/internal/core/machine.go", " || n >= 2*m.cfg.MaxLocks {", " {", shell + "TestRememberedNamesHaveABound"},

	{"a message is a hint", "it grants", "lockmgr/loop.go", "\t\t\t\tp.effects = p.core.Step(now, ev.Wake, p.effects)\n",
		"\t\t\t\tp.effects = p.core.Step(now, ev.Wake, p.effects)\n\t\t\t\tfor _, e := range p.effects {\n\t\t\t\t\tif r, ok := e.(core.Run); ok && ev.Message && r.Op.Kind == core.KindAcquire {\n\t\t\t\t\t\tr.Op.Sent = now\n\t\t\t\t\t\tp.effects = p.core.Step(now, &core.Replies{Replies: []core.Reply{{Op: r.Op, ID: r.Op.ID, Ran: core.Yes, OK: true}}}, p.effects)\n\t\t\t\t\t}\n\t\t\t\t}\n",
		client + "TestAForgedMessageGrantsNothing"},
	{"a message is a hint", "it wakes nobody", "lockmgr/loop.go", "Message: wake.Reason.Has(notify.ReasonMessage)", "Message: false", shell + "TestOthersGetTheirTurn"},
	{"a message is a hint", "no try when subscribed again", "lockmgr/loop.go", "Confirmed: wake.Reason.Has(notify.ReasonConfirmed)", "Confirmed: false", client + "TestAnUnlockInTheGapIsNotMissed"},
	{"a message is a hint", "a closed watch is believed", "lockmgr/loop.go", "if p.watches[ev.Name] == ev.watch { // else of a subscription that is over", "if true {", shell + "TestAWakeupOfAClosedWatchIsIgnored"},
	{"a message is a hint", "only the first one is heard", "lockmgr/loop.go", "\t\t\t\tp.rearm(ev)\n", "", shell + "TestOthersGetTheirTurn"},

	{"unknown", "a time-out is a refusal", "lockmgr/redis.go", "return core.Maybe, false, &ServerError{Kind: ErrUnavailable, Hint: hint, Err: err}", "return core.No, false, &ServerError{Kind: ErrUnavailable, Hint: hint, Err: err}", shell + "TestLostReplyToTryLock"},
	{"unknown", "a closed client is asked again", "lockmgr/redis.go", "return core.Maybe, true, &ServerError{Kind: ErrUnavailable, Hint: \"the client was closed\", Err: err}", "return core.Maybe, false, &ServerError{Kind: ErrUnavailable, Hint: \"the client was closed\", Err: err}", shell + "TestAClosedClientIsFinal"},
	{"unknown", "no time-out", "lockmgr/executor.go", "timeout: x.timeout}", "timeout: time.Hour}", shell + "TestServerErrorReplies"},
	{"unknown", "denied within a script: did not run", "lockmgr/errors.go", `word == "NOPERM" && !strings.Contains(text, "script")`, `word == "NOPERM"`, shell + "TestServerErrorReplies FuzzErrorTextsAreTyped"},
	{"unknown", "denied within a script: not understood", "lockmgr/errors.go", "if !known && deniedInScript(text) {", "if false {", shell + "TestServerErrorReplies"},
	{"unknown", "what is not understood did not run", "lockmgr/errors.go", "return core.Maybe, true, &ServerError{Kind: ErrServer, Err: err}", "return core.No, true, &ServerError{Kind: ErrServer, Err: err}", shell + "FuzzErrorTextsAreTyped"},
	{"unknown", "scripts name the new owner only", "lockmgr/script.go", "for _, o := range op.Others {", "for _, o := range op.Others[:0] {", shell + "TestServerThousandWaiters"},
	{"unknown", "NOSCRIPT is the end", "lockmgr/redis.go", "if missing > 0 {", "if false {", shell + "TestServerLockAndUnlock"},
	{"unknown", "another type at the key is asked for again", "lockmgr/script.go", "errors.Is(a.err, ErrWrongType)", "errors.Is(a.err, ErrClosed)", shell + "TestServerErrorOverwritten"},
	{"unknown", "a release that told nobody is none", "lockmgr/script.go", "r.OK, r.Subscribers = true, -1\n", "r.Subscribers = -1\n", shell + "FuzzOnlyAGrantIsAGrant"},

	{"only a grant is one", "a reply of no known kind", "lockmgr/redis.go", "return answer{kind: answerError, ran: core.Maybe, final: true, err:", "return answer{err:", shell + "TestServerErrorStrangeReplies"},
	{"only a grant is one", "no token where one was asked for", "lockmgr/script.go", "r.OK, ok = true, op.Tokens == 0", "r.OK = true", shell + "FuzzOnlyAGrantIsAGrant"},
	{"only a grant is one", "a token that is no number", "lockmgr/script.go", "return n, err == nil && n > 0", "return n, err != nil || n > 0", shell + "FuzzOnlyAGrantIsAGrant"},
	{"only a grant is one", "a text where none was asked for", "lockmgr/script.go", "\t\t\tok = ok && op.Tokens > 0\n", "", shell + "FuzzOnlyAGrantIsAGrant"},
	{"only a grant is one", "lost positions in any order", "lockmgr/script.go", "n <= last || n > len(r.Entries)", "n < min(last, 1) || n > len(r.Entries)", shell + "FuzzOnlyAGrantIsAGrant"},

	{"shared commands", "answers out of step are believed", "lockmgr/batch.go", "a.kind != answerArray || len(a.array) != n", "a.kind != answerArray || n < 0", shell + "TestAnAnswerOutOfStep"},
	{"shared commands", "refused together is refused", "lockmgr/batch.go", "return errors.Is(a.err, ErrPermission)", "return false", shell + "TestARefusedCommandIsSplit"},
	{"shared commands", "a refused renewal is not split", "lockmgr/batch.go", " || t.renewal != nil && p.each == 0 && len(t.renewal.Entries) > 1", "", shell + "TestARefusedRenewalIsSplit"},
	{"shared commands", "repeated though they may have run", "lockmgr/batch.go", "a.kind != answerError || a.ran != core.No {", "a.kind != answerError {", shell + "TestARefusedCommandIsSplit"},
	{"shared commands", "asked one by one in any trouble", "lockmgr/batch.go", "return errors.Is(a.err, ErrPermission)", "return true", shell + "TestATroubledServerIsNotAskedOneByOne"},
	{"shared commands", "a call's words overwritten", "lockmgr/batch.go", "c.keys, c.args = append(c.keys[:0], t.call.command.keys...), append(c.args[:0], t.call.command.args...)", "c.keys, c.args = t.call.command.keys, t.call.command.args", shell + "TestACallKeepsItsWords"},
	{"fair", "asked though it is known", "lockmgr/internal/core/hold.go", "!(t.fresh && t.others > 0) && ", "", shell + "TestContentionCostsNoScriptAHandoff"},
	{"fair", "a full pause each time", "lockmgr/internal/core/turns.go", "\t\tt.fruitless++\n", "", shell + "TestSubscribersThatDoNotWaitCostLittle"},

	{"turns", "never stands back", "lockmgr/internal/core/turns.go", "t.back, t.heard, t.yielded = true, 0, false", "t.heard, t.yielded = 0, false", sharing + "TestTurns TestDrain"},
	{"turns", "nothing is owed", "lockmgr/internal/core/turns.go", "t.owed+min(cfg.mostOwed(), now-since)*time.Duration(min(t.share, 64))", "t.owed", sharing + "TestTurns TestDrain"},
	{"turns", "what is owed is never paid", "lockmgr/internal/core/turns.go", "t.owed = max(least, t.owed-d)", "_ = d", sharing + "TestTurns TestDrain"},
	{"turns", "paid by one turn of others", "lockmgr/internal/core/turns.go", "(t.owed <= 0 || t.owed <= smallDebt && t.heard >= t.share)", "true", sharing + "TestTurns TestDrain"},
	{"turns", "kept from those who are not heard", "lockmgr/internal/core/handoff.go", "return m.cfg.ShareEvery > 0 && ", "return false && ", sharing + "TestTurns TestDrain"},
	{"turns", "no wide pause", "lockmgr/internal/core/turns.go", "t.wide = cfg.ShareEvery > 0 && ", "t.wide = false && ", sharing + "TestTurns TestDrain"},
	{"turns", "the next message ends the wait for the far", "lockmgr/internal/core/turns.go", "t.tryAt = now + cfg.FarPause // all", "t.tryAt = now // all", sharing + "TestTurns TestDrain"},
	{"turns", "never presses", "lockmgr/internal/core/turns.go", " || t.presses == 0 {", " || t.presses >= 0 {", sharing + "TestTurns TestDrain"},
	{"turns", "a refusal starts no turn of others", "lockmgr/internal/core/turns.go", "t.busy, t.busySince = true, now", "t.busySince = now", sharing + "TestTurns TestDrain"},
	{"turns", "tries while another has it", "lockmgr/internal/core/turns.go", "\t\tt.tryAt = Forever // until", "\t\t_ = now // until", sharing + "TestTurns TestDrain"},
	{"turns", "owed though nobody came", "lockmgr/internal/core/turns.go", "t.back, t.owed = false, min(t.owed, t.owed/2)", "t.back = false", sharing + "TestTurns TestDrain"},
	{"turns", "handoff goes on in a run that is over", "lockmgr/internal/core/handoff.go", "if t.count < m.runLimit(t) && m.now-t.start < m.cfg.PassTime || t.inCredit(m.now, l.since, &m.cfg) {", "if true {", sharing + "TestTurns TestDrain"},
	{"shared commands", "leases mixed", "lockmgr/batch.go", "s.lease != lease", "false", shell + "TestTheOrdinaryShareACommand"},
	{"shared commands", "tokens not asked for", "lockmgr/batch.go", "op.Tokens == 0 && len(op.Others) == 0", "len(op.Others) == 0", shell + "TestTheOrdinaryShareACommand"},
	{"shared commands", "suspects not named", "lockmgr/batch.go", "op.Tokens == 0 && len(op.Others) == 0", "op.Tokens == 0", shell + "TestTheOrdinaryShareACommand"},
	{"shared commands", "no bound", "lockmgr/batch.go", "s.n == maxShared || ", "", shell + "TestASharedCommandHasABound"},

	{"names", "channel in another slot", "lockmgr/names.go", `return prefix + ":{" + name + "}"`, `return prefix + ":" + name`, shell + "FuzzTwoNamesShareNoKey"},
	{"names", "braces that part the slots", "lockmgr/names.go", "hashed(channelOf(name)) != hashed(name)", "false", client + "TestEveryAcceptedNameStaysInOneSlot"},
	{"names", "names of what stands beside locks", "lockmgr/names.go", "case isBeside(name):", "case false:", shell + "FuzzTwoNamesShareNoKey"},
	{"names", "keys of read holds", "lockmgr/names.go", `":rwlock_timeout:"`, `":nothing:"`, shell + "TestNamesThatAreFine"},
	{"names", "channel and counter are one", "lockmgr/names.go", `"redisson_lock_token"`, "channelPrefix", shell + "FuzzTwoNamesShareNoKey"},
}

var scriptMutants = []mutant{
	{"acquire.lua", "increments the count", "lockmgr/script/acquire.lua", "redis.call('HSET', key, ARGV[3], 1)", "redis.call('HINCRBY', key, ARGV[3], 1)", shell + "TestScripts"},
	{"acquire.lua", "sets no end", "lockmgr/script/acquire.lua", "if ttl < tonumber(ARGV[1]) then", "if false then", shell + "TestScripts"},
	{"acquire.lua", "shortens a life", "lockmgr/script/acquire.lua", "if ttl < tonumber(ARGV[1]) then", "if true then", shell + "TestScripts"},
	{"acquire.lua", "takes what others hold", "lockmgr/script/acquire.lua", "if not ours then", "if false then", shell + "TestScripts"},
	{"acquire.lua", "leaves the old owner in", "lockmgr/script/acquire.lua", "  redis.call('HDEL', key, ARGV[i])\n", "", shell + "TestScripts"},
	{"acquire.lua", "tokens of 53 bits", "lockmgr/script/acquire.lua", "last = redis.call('GET', KEYS[2]) --", "last = string.format('%.0f', tonumber(redis.call('GET', KEYS[2]))) --", shell + "TestScripts"},
	{"acquire.lua", "lives for ever if it can't be given an end", "lockmgr/script/acquire.lua", "    redis.pcall('DEL', key)\n", "", shell + "TestScriptsStoppedHalfway"},
	{"transfer.lua", "takes what others hold", "lockmgr/script/transfer.lua", "if not ours then", "if false then", shell + "TestScripts"},
	{"transfer.lua", "increments the count", "lockmgr/script/transfer.lua", "redis.call('HSET', key, ARGV[3], 1)", "redis.call('HINCRBY', key, ARGV[3], 1)", shell + "TestScripts"},
	{"transfer.lua", "leaves the old owner in", "lockmgr/script/transfer.lua", "  redis.call('HDEL', key, ARGV[i])\n", "", shell + "TestScripts"},
	{"transfer.lua", "shortens a life", "lockmgr/script/transfer.lua", "if redis.call('PTTL', key) < tonumber(ARGV[1]) then", "if true then", shell + "TestScripts"},
	{"renew.lua", "makes a record anew", "lockmgr/script/renew.lua", "  if answer == 1 then\n", "  if answer == 0 then\n    answer = redis.call('HSET', KEYS[i], ARGV[i + 1], 1)\n  end\n  if answer == 1 then\n", shell + "TestScriptRenew"},
	{"renew.lua", "shortens a life", "lockmgr/script/renew.lua", "type(answer) == 'number' and answer < lease then", "type(answer) == 'number' then", shell + "TestScriptRenew"},
	{"renew.lua", "does not say what is lost", "lockmgr/script/renew.lua", "    out[#out + 1] = i\n", "", shell + "TestScriptRenew"},
	{"renew.lua", "a key of another type is no loss", "lockmgr/script/renew.lua", " or string.find(answer.err, 'WRONGTYPE', 1, true)", "", shell + "TestScriptRenew"},
	{"renew.lua", "one key of another type fails all", "lockmgr/script/renew.lua", "redis.pcall('HEXISTS', KEYS[i], ARGV[i + 1])", "redis.call('HEXISTS', KEYS[i], ARGV[i + 1])", shell + "TestScriptRenew"},
	{"renew.lua", "what can't be read is lost", "lockmgr/script/renew.lua", "  else\n    out[#out + 1] = {i, answer.err}\n", "  else\n    out[#out + 1] = i\n", shell + "TestScriptsStoppedHalfway"},
	{"release.lua", "whoever the owner is", "lockmgr/script/release.lua", "if redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then", "if true then", shell + "TestScripts"},
	{"release.lua", "tells nobody", "lockmgr/script/release.lua", "local told = redis.pcall('PUBLISH', KEYS[2], '0')", "local told = 0", shell + "TestScripts"},
	{"release.lua", "deletes after publishing", "lockmgr/script/release.lua", "    redis.call('DEL', KEYS[1])\n    local told = redis.pcall('PUBLISH', KEYS[2], '0')\n", "    local told = redis.call('PUBLISH', KEYS[2], '0')\n    redis.call('DEL', KEYS[1])\n", shell + "TestScriptReleaseWithoutPublish"},
	{"acquire_many.lua", "takes what others hold", "lockmgr/script/acquire_many.lua", "elseif mine == 0 then", "elseif false then", shell + "TestDifferentialModelServer"},
	{"acquire_many.lua", "sets no end", "lockmgr/script/acquire_many.lua", "if ttl < lease then", "if false then", shell + "TestDifferentialModelServer"},
	{"acquire_many.lua", "shortens a life", "lockmgr/script/acquire_many.lua", "if ttl < lease then", "if true then", shell + "TestDifferentialModelServer"},
	{"acquire_many.lua", "one that fails fails all", "lockmgr/script/acquire_many.lua", "redis.pcall('HEXISTS', key, owner)", "redis.call('HEXISTS', key, owner)", shell + "TestDifferentialModelServer"},
	{"acquire_many.lua", "increments the count", "lockmgr/script/acquire_many.lua", "redis.pcall('HSET', key, owner, 1)", "redis.pcall('HINCRBY', key, owner, 1)", shell + "TestDifferentialModelServer"},
	{"release_many.lua", "whoever the owner is", "lockmgr/script/release_many.lua", "  if answer == 0 then\n    answer = false\n  elseif answer == 1 then", "  if answer == 0 or answer == 1 then", shell + "TestDifferentialModelServer"},
	{"release_many.lua", "tells nobody", "lockmgr/script/release_many.lua", "answer = redis.pcall('PUBLISH', KEYS[2 * i], '0')", "answer = 0", shell + "TestDifferentialModelServer"},
	{"force.lua", "tells nobody", "lockmgr/script/force.lua", "redis.pcall('PUBLISH', KEYS[2], '0')\n", "", shell + "TestScripts"},
}

var partMutants = []mutant{
	{"notify", "confirmed when it is asked for", "notify/channel.go", "\tc.link.subscribe(names)\n", "\tc.link.subscribe(names)\n\tfor _, ch := range chs {\n\t\tif c.confirmed(ch) {\n\t\t\tc.tell(ch, change{reason: ReasonConfirmed})\n\t\t}\n\t}\n", hub + "TestStories"},
	{"notify", "does not subscribe again", "notify/connection.go", "\tfor _, ch := range c.channels {\n\t\tc.enqueue(ch)\n", "\tfor _, ch := range c.channels {\n\t\tif c.stats.Connects == 1 {\n\t\t\tc.enqueue(ch)\n\t\t}\n", hub + "TestReconnect"},
	{"notify", "does not tell of a gap", "notify/connection.go", "if was == live {", "if was == live && false {", hub + "TestStories"},
	{"notify", "listens to old connections", "notify/core.go", "if f != c.feed {", "if false {", hub + "TestStories"},
	{"notify", "asks before it listens", "notify/channel.go", "\tc.feed.listen(chs) // first, or the confirmation might find nobody\n\tc.link.subscribe(names)\n", "\tc.link.subscribe(names)\n\tc.feed.listen(chs)\n", hub + "TestCancel"},
	{"notify", "what came between two Nexts is missed", "notify/watch.go", "case w.marks.seq > after:", "case false:", hub + "TestStories"},
	{"notify", "does not unsubscribe", "notify/channel.go", "case !ch.wanted() && ch.phase == live:", "case false:", hub + "TestStories"},
	{"notify", "one forbidden channel takes all along", "notify/channel.go", "ch.group = max(1, len(chs)/2)", "ch.group = max(1, len(chs))", hub + "TestForbiddenChannel"},
	{"notify", "a message counts as a confirmation", "notify/core.go", "\t\te.reason |= ReasonMessage\n", "\t\te.reason |= ReasonMessage | ReasonConfirmed\n", hub + "FuzzAMessageOnlyWakes"},
	{"notify", "keeps payloads of any size", "notify/feed.go", "if len(payload) > maxPayload {", "if false {", hub + "FuzzAMessageOnlyWakes"},
	{"notify", "strays wake", "notify/feed.go", "\ts := f.slots[name]\n\tif s == nil {\n\t\tf.rest.strays++", "\ts := f.slots[name]\n\tfor _, s = range f.slots {\n\t}\n\tif s == nil {\n\t\tf.rest.strays++", hub + "FuzzAMessageOnlyWakes"},
	{"notify", "an event for each message", "notify/feed.go", "\tif first {\n", "\tif first || true {\n", hub + "TestFloodIsBounded"},
	{"notify", "dead links are not given up", "notify/connection.go", "if due(c.deadline, c.now) {", "if false {", hub + "TestStories"},

	{"renewal", "a slot late", "renewal/map.go", "at := m.boundary(now, due)", "at := m.boundary(now, due) + 1", renewer + "TestWhenAnItemComesOut"},
	{"renewal", "before it is due", "renewal/map.go", "return min(ceil(due, m.slot), m.last)", "return min(max(floor(due, m.slot), floor(now, m.slot)+1), m.last)", renewer + "TestWhenAnItemComesOut"},
	{"renewal", "comes out though it was removed", "renewal/map.go", "\tm.lists.release(e.node)\n\te.node = 0\n}", "\te.node = 0\n}", renewer + "TestRemove"},
	{"renewal", "no limit for a batch", "renewal/batches.go", "n = min(n, limit)", "_ = limit", renewer + "TestBatches"},
	{"renewal", "what is far ahead is forgotten", "renewal/window.go", "\t\t\tm.place(node, at)\n", "\t\t\t_ = at\n", renewer + "TestItemsFarAheadComeIntoTheWindow"},

	{"futures", "settled twice", "futures/future.go", "\tif f.state.Load() != pending {\n\t\tf.mu.Unlock()\n\t\treturn false", "\tif false {\n\t\tf.mu.Unlock()\n\t\treturn false", future + "TestResolve"},
	{"futures", "a result that races the cancel is thrown away", "futures/future.go", "\t\t\t\tif f.cancelPending() {\n", "\t\t\t\tif f.cancelPending() || true {\n", future + "TestAResultThatRacesTheCancelIsReturned"},
	{"futures", "cancel not told", "futures/future.go", "\t\tf.source.Cancel()\n", "", future + "TestCancel"},
	{"futures", "a value that nobody has taken stays", "futures/future.go", "\t\tf.source.Drop(v)\n", "\t\t_ = v\n", future + "TestCancelGivesBackWhatNobodyHasTaken"},
	{"futures", "a value that is taken is given back", "futures/future.go", "if !f.state.CompareAndSwap(offered, taken) {", "if f.state.Load() != offered {", future + "TestATakenValueStaysWithItsTaker"},
	{"futures", "a callback's value can be cancelled", "futures/future.go", "case state == offered && todo != nil:", "case false:", future + "TestAValueGoesToAWaitingCallback"},
	{"futures", "All keeps what arrived", "futures/all.go", "\ta.Drop(a.values)\n", "", future + "TestAllFirstFailureCancelsTheRest"},
	{"futures", "All reports before it drops", "futures/all.go", "\ta.Drop(a.values)\n\ta.Resolve(nil, err)\n", "\ta.Resolve(nil, err)\n\ta.Drop(a.values)\n", future + "TestAllDropsBeforeItFails"},
	{"futures", "Done is not closed", "futures/future.go", "\t\tclose(done)\n", "", future + "TestAwaitGetsWhatComesLater"},
	{"futures", "callbacks in any order", "futures/future.go", "here, there := inOrder(cb, d != nil)", "here, there := cb, (*callback[T])(nil)", future + "TestCallbacksRunInOrderAfterDone"},
	{"futures", "callbacks run where the future settles", "futures/future.go", "todo.run(dispatcherOf(source), v, err)", "_ = source\n\ttodo.run(nil, v, err)", future + "TestADispatcherRunsTheCallbacks"},
	{"futures", "combinators wait for the dispatcher", "futures/future.go", "if dispatched && !cb.own {", "if dispatched {", future + "TestCombinatorsDoNotWaitForTheDispatcher"},
	{"futures", "callbacks of a result run where it settles", "futures/dispatch.go", "\t\treturn s.dispatcher()\n", "\t\treturn nil\n", future + "TestCombinatorsPassTheDispatcherOn"},
	{"futures", "drop runs where the result settles", "futures/dispatch.go", "if d == nil || drop == nil {", "if true {", future + "TestDropIsDispatched"},

	{"actor", "stop drops what was accepted", "actor/mailbox.go", "if len(m.in) > 0 {", "if len(m.in) > 0 && !m.closed {", actors + "TestStopHandlesWhatWasAcceptedAndRefusesTheRest"},
	{"actor", "a parked actor is not woken", "actor/mailbox.go", "\tm.idle = park\n", "\tm.idle = false\n", actors + "TestMessagesOfOneProducerStayInOrder"},
	{"actor", "alarms come late", "actor/alarm.go", "if now < a.armed && a.armed <= a.at {", "if now < a.armed {", actors + "TestAlarms"},
	{"actor", "accepts after the stop", "actor/mailbox.go", "func (m *mailbox[T]) put(x T) bool {\n\tm.mu.Lock()\n\tif m.closed {", "func (m *mailbox[T]) put(x T) bool {\n\tm.mu.Lock()\n\tif false {", actors + "TestStopHandlesWhatWasAcceptedAndRefusesTheRest"},
}
