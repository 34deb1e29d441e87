package mutants

const (
	permitSeeds   = "lockmgr/internal/sim TestSeeds_Permits"
	permitScripts = "lockmgr/internal/wire/script/permits_"
	permitTables  = shell + "TestScripts_Permits"
	permitHalf    = shell + "TestScript_PermitsStoppedHalfway"
	permitMemory  = shell + "TestScript_PermitsOutOfMemory"
)

// The mutants of permits: of the core's rules, and of the scripts.
var permitMutants = []mutant{
	{"permits", "an entry passes to who wants more", machine, "return e.permits == r.own.Permits", "return true", permitSeeds},
	{"permits", "the rest is not given back after a partial loss", machine, "return e.permits > 1", "return false", stories},
	{"permits", "a message of others is a doubt", machine, "func (permits) doubts() bool { return false }", "func (permits) doubts() bool { return true }", stories},
	{"permits", "an earlier number has no more than the new one", machine, "e.most = max(e.most, e.permits)", "e.most = e.permits", stories},
	{"permits", "asks for one entry at a time", machine, "firstAsks = 8", "firstAsks = 1", stories},
	{"permits", "asks for no more after a grant", machine, "p.asks = min(2*p.asks, mostAsks)", "_ = p.asks", stories},
	{"permits", "asks for as many after a refusal", machine, "\t\tp.asks = 1\n", "\t\t_ = p.asks\n", stories},
	{"permits", "all that were refused go on waiting", machine, "case n.queue.head == nil, n.served(e):", "case n.queue.head == nil:", stories},
	{"permits", "what came free here is not tried for", machine, "\t\tm.cameFree(n)\n", "", stories},
	{"permits", "what came free here during a try is forgotten", machine, "\t\tcase asking:\n\t\t\te.woken = true\n\t\tcase waiting:\n\t\t\tm.tryOrWait(e)", "\t\tcase waiting:\n\t\t\tm.tryOrWait(e)", stories},
	{"permits", "a refusal for what is ours is another's turn", machine, "e.woken || n.hasOthers(e)", "e.woken", stories},
	{"permits", "a release without an answer is repeated at once", machine, " && !(e.number == 0 && n.served(e))", "", stories},
	{"permits", "entries pass on while the manager stands back", machine, "m.keptLong(e) || t.back", "m.keptLong(e)", stories},
	{"permits", "transfers fall due one by one", machine, "u.nextTransfer.Truncate(every) + every", "u.nextTransfer", stories},
	{"permits", "who tries once is refused while others try", machine, "\t\tcase passing:\n\t\t\troom = true\n\t\tcase waiting, releasing:", "\t\tcase passing:\n\t\t\troom = true\n\t\tcase waiting, releasing, asking:", stories},
	{"permits", "who tries once waits behind others", machine, "\t\t\tif n.queue.head != nil {\n\t\t\t\treturn false\n\t\t\t}\n", "", stories},
	{"permits", "who tries once waits for an entry", machine, "\treturn room\n", "\treturn room || true\n", machine + " TestPermits_MostEntries"},
	{"permits", "each entry is a turn of its own", machine, "time.Duration(max(1, n.details.turns.entries))", "1", machine + " TestPermits_TurnsOfSeveralEntries"},
	{"permits", "a run is as short as that of one entry", machine, "cfg.PassCount * max(1, t.entries)", "cfg.PassCount", stories},
	{"permits", "each entry that comes free begins a new pause", machine, "\tcase t.back && n.details.pool != nil:", "\tcase false:", machine + " TestPermits_NoNewPause"},
	{"permits", "each entry is kept for a second by itself", machine, "\t\treturn &p.firstPass\n", "\t\treturn &e.upkeep().firstPass\n", machine + " TestPermits_OnePause"},
	{"permits", "the other entries in motion are not looked at", machine, "\t\tif other != e {\n\t\t\tagain = min(again, m.advanceEntry(other))\n\t\t}\n", "\t\t_ = other\n", stories},
	{"permits", "the answer to a try begins a run", machine, "return !n.details.turns.back && n.hasOthers(except)", "return false && n.hasOthers(except)", stories},
	{"permits", "takes at once what it has given back", machine, "\tcase e.of.givesBack(): // the answer to the release leads here again\n\t\te.upkeep().retry.at = m.now + m.poll(e.of, -1)\n", "", stories},
	{"permits", "an old try ends the pause", machine, "return t.back && sent <= t.since && t.entries > 0", "return false && sent <= t.since", stories},
	{"permits", "a request for one gathers", machine, "(g.active() || !e.of.rules().parts(e))", "g.active()", stories},
	{"permits", "gathers for as long as another one does", machine, "if g.kept == 0 && r.Op.Gather > 0 && !r.OtherKind {", "if false {", stories},

	{"permits", "acquire.lua: takes more than are free", permitScripts + "acquire.lua", "  if free >= n then\n    take = n\n", "  if free > 0 then\n    take = n\n", permitTables},
	{"permits", "acquire.lua: expired ones stay taken", permitScripts + "acquire.lua", "redis.call('ZRANGEBYSCORE', taken, '-inf', now, 'LIMIT', 0, 1000)", "{}", permitTables},
	{"permits", "acquire.lua: an expired one counts twice", permitScripts + "acquire.lua", "not ends[member] and redis.call('ZSCORE', taken, member)", "redis.call('ZSCORE', taken, member)", shell + "TestDifferential_Permits"},
	{"permits", "acquire.lua: a lost counter forgets what is taken", permitScripts + "acquire.lua", "math.max(0, limit - redis.call('ZCARD', taken))", "limit", permitTables},
	{"permits", "acquire.lua: strays stay", permitScripts + "acquire.lua", "for h = first + 5, first + 4 + holders do", "for h = first + 5, first + 5 do", permitTables},
	{"permits", "delete.lua: deletes what counts no permits", permitScripts + "delete.lua", "if counter and not", "if false and not", "lockmgr TestPermits_OtherData"},
	{"permits", "delete.lua: deletes what is taken", permitScripts + "delete.lua", "'(' .. now, '+inf') > 0", "'(' .. now, '+inf') < 0", "lockmgr TestPermits_Delete"},
	{"permits", "limit.lua: counts up what counts no permits", permitScripts + "limit.lua", "if counter and not", "if false and not", "lockmgr TestPermits_OtherData"},
	{"permits", "acquire.lua: a copy takes as many again", permitScripts + "acquire.lua", "for h = first + 5, first + 4 + holders do", "for h = first + 6, first + 4 + holders do", permitTables},
	{"permits", "acquire.lua: a copy shortens a life", permitScripts + "acquire.lua", "math.max(now + life, ends[member] or 0)", "now + life", permitTables},
	{"permits", "acquire.lua: two gather", permitScripts + "acquire.lua", "if not who or who == string.sub(new, 1, 8) then", "if true then", shell + "TestScript_PermitsOneGathers"},
	{"permits", "acquire.lua: gathers what there is not", permitScripts + "acquire.lua", "if gather > 0 and n <= free + redis.call('ZCARD', taken) - #gone then", "if gather > 0 then", permitTables},
	{"permits", "acquire.lua: gathers for the whole lease", permitScripts + "acquire.lua", "math.max(0, math.min(free, n)), gather", "math.max(0, math.min(free, n)), lease", permitTables},
	{"permits", "acquire.lua: gathers on after a grant", permitScripts + "acquire.lua", "      redis.pcall('DEL', gatherer)\n", "", shell + "TestScript_PermitsOneGathers"},
	{"permits", "acquire.lua: nobody is told of expired ones", permitScripts + "acquire.lua", "    redis.pcall('PUBLISH', channel, free - take)\n", "", permitTables},
	{"permits", "acquire.lua: what it could not add is lost", permitScripts + "acquire.lua", "      redis.pcall('INCRBY', counter, take)\n", "", permitHalf},
	{"permits", "acquire.lua: what it could not count is lost", permitScripts + "acquire.lua", "        redis.pcall('ZADD', taken, ends[member], member)\n", "", permitHalf},
	{"permits", "acquire.lua: a bad name fails all", permitScripts + "acquire.lua", "  local ok, answer = pcall(acquire, KEYS", "  local ok, answer = true, acquire(KEYS", shell + "TestScript_PermitsTroubleStaysWhereItIs"},
	{"permits", "transfer.lua: shortens a life", permitScripts + "transfer.lua", "math.max(score, now + lease)", "now + lease", permitTables},
	{"permits", "transfer.lua: passes on what has expired", permitScripts + "transfer.lua", "if score > now then", "if score > 0 then", permitTables},
	{"permits", "transfer.lua: passes on a part", permitScripts + "transfer.lua", "if #old == n then", "if #old > 0 then", permitTables},
	{"permits", "transfer.lua: what it could not add is lost", permitScripts + "transfer.lua", "        redis.pcall('INCRBY', counter, n)\n", "", permitHalf},
	{"permits", "renew.lua: renews what has expired", permitScripts + "renew.lua", "if score <= now then", "if score <= 0 then", permitTables},
	{"permits", "renew.lua: shortens a life", permitScripts + "renew.lua", "math.max(score, till)", "till", permitTables},
	{"permits", "renew.lua: fails without memory", permitScripts + "renew.lua", "string.find(ok.err, 'OOM', 1, true)", "false", permitMemory},
	{"permits", "release.lua: an expired one counts as given back", permitScripts + "release.lua", "if tonumber(score) > now then", "if true then", permitTables},
	{"permits", "release.lua: makes a counter", permitScripts + "release.lua", "  if not there then\n    return given > 0 and {given, -1}\n  end\n", "", permitTables},
	{"permits", "release.lua: what it could not count is lost", permitScripts + "release.lua", "    redis.pcall('ZADD', taken, unpack(back))\n", "", permitHalf},
	{"permits", "release.lua: nobody is told", permitScripts + "release.lua", "    reached = redis.pcall('PUBLISH', channel, free)\n", "    reached = 0\n", permitTables},
	{"permits", "return.lua: one ID counts twice", permitScripts + "return.lua", " or known[member]", "", shell + "TestDifferential_Permits TestPermits_Return"},
	{"permits", "return.lua: some of them", permitScripts + "return.lua", "    return 0\n", "    break\n", shell + "TestPermits_Return"},
	{"permits", "limit.lua: nobody is told", permitScripts + "limit.lua", "if by > 0 and free > 0 then", "if false then", shell + "TestDifferential_Permits"},
}
