package mutants

const (
	setFormats = "lockmgr/internal/wire"
	setScripts = "lockmgr/internal/wire/script/several_"
	setTests   = "lockmgr/internal/core "
	setTables  = shell + "TestScripts_Several"
)

// The mutants of sets: of the core's rules, of the scripts, and of the client.
var severalMutants = []mutant{
	// A set waits.
	{"several", "a message of the item that it waits for is ignored", machine, "s.refusedBy == ev.Item ||", "", setSeeds},
	{"several", "a message of any item is worth a try", machine, "(s == nil || s.refusedBy == 0 || s.refusedBy == ev.Item || s.active())", "(s != nil || s == nil)", stories},
	{"several", "what comes during a try is forgotten", machine, "r.Item > 0 && s.signalled[r.Item-1]", "false", setSeeds},
	{"several", "what comes for any item during a try counts", machine, "e.woken = e.woken && (s.active() || r.Item > 0 && s.signalled[r.Item-1])", "_ = r.Item", stories},
	{"several", "what came during an earlier try counts", machine, "{ clear(s.signalled) }", "{ _ = s.signalled }", stories},
	{"several", "a confirmation during a try is of one item", machine, "|| ev.Confirmed || i == ev.Item-1", "|| i == ev.Item-1", stories},
	{"several", "hears all items once it hears one", machine, "ev.Subscribed = s.undelivered == 0", "ev.Subscribed = s.undelivered < len(s.items)", stories},
	{"several", "each confirmation is worth a try", machine, "\t\tev.Confirmed = ev.Confirmed && ev.Subscribed\n", "", stories},

	// A set gathers.
	{"several", "gathers at once", machine, " || waited < m.cfg.GatherAfter", " || waited < 0", stories},
	{"several", "gathers for longer with each try", machine, "return max(0, g.until-m.now).Truncate(time.Millisecond)", "return m.cfg.GatherTime", setSeeds},
	{"several", "the time in the queue counts", machine, "max(e.of.queue.head.Asked, g.had)", "e.of.queue.head.Asked", stories},
	{"several", "pauses after gathering in vain do not grow", machine, "2 * m.cfg.GatherTime << min(g.vain, mostVain+1)", "2 * m.cfg.GatherTime", stories},
	{"several", "gathers again at once", machine, " || m.now < g.notBefore", "", stories},
	{"several", "no alarm for the end of gathering", machine, "at = min(at, e.gatherEnd(), e.of.refreshAt())", "at = min(at, e.of.refreshAt())", stories},
	{"several", "gathers only what it waits for", machine, "s.refusedBy == ev.Item || s.active())", "s.refusedBy == ev.Item)", stories},
	{"several", "does not give back what it has gathered", machine, "\tif m.now >= e.gatherEnd() {", "\tif false {", stories},
	{"several", "gathers no more once it has given back", machine, "\tm.gatherReleased(e)\n\tswitch {", "\tswitch {", stories},
	{"several", "what it has gathered is not named", machine, "\tu.unknown.add(suspect{owner: g.kept, until: m.suspectUntil(), stray: true})\n", "", setSeeds},
	{"several", "names what it has taken over", machine, "\t\te.makeUpkeep().unknown.removedNumber(g.kept) // this try has taken that over\n", "", stories},
	{"several", "earlier numbers are named for ever", machine, "\tu.unknown.removedNumber(g.kept) // this try has taken that over\n\tg.kept = r.Op.Number", "\tg.kept = r.Op.Number", stories},
	{"several", "gathers on after a grant", machine, "g.notBefore, g.vain, g.had = 0, 0, m.now\n\tm.stopGathering(e)\n", "g.notBefore, g.vain, g.had = 0, 0, m.now\n", stories},
	{"several", "its turn begins long before it gathers", machine, "\tif g.kept == 0 {\n\t\te.since = m.now // our turn begins\n\t}\n", "", stories},
	{"several", "takes over what the server did not keep", machine, "max(0, g.until-m.now).Truncate(time.Millisecond)", "max(0, g.until-m.now)", stories},
	{"several", "a try that meets another kind takes over", setFormats, "r.Gathered = op.Gather > 0 && !r.OtherKind", "r.Gathered = op.Gather > 0", setFormats + " TestSeveral_Gathered"},

	// A part of a set is lost.
	{"several", "the rest is not named after a partial loss", machine, "others := e.of.rules().parts(e) && e.number != 0", "others := e.of.rules().parts(e) && e.of.set() == nil && e.number != 0", setSeeds},
	{"several", "the rest is not given back while somebody waits", machine, "\tif others {\n\t\tm.release(e)", "\tif others && e.of.queue.head == nil {\n\t\tm.release(e)", stories},
	{"several", "a partial release is no loss", machine, "(!r.OK || r.Partly) && e.number != 0", "!r.OK && e.number != 0", stories},

	// A set is not passed on.
	{"several", "passed on in memory", machine, "passed && !n.rules().transfers() {", "false {", setSeeds},
	{"several", "passed on if the release is refused for good", machine, "return n.rules().transfers() && n.rules().passes(e, r)", "return n.rules().passes(e, r)", setSeeds},
	{"several", "kept for who comes next", machine, "!n.hasDetails() || !n.rules().transfers() ||", "!n.hasDetails() ||", stories},
	{"several", "transfers for a token", machine, "\tcase !e.of.rules().transfers():\n\t\tm.release(e)\n", "", stories},
	{"several", "a token for the first item only", machine, "\t\t\te.upkeep().tokens.each = r.Tokens\n", "\t\t\te.upkeep().tokens.each = r.Tokens[:min(1, len(r.Tokens))]\n", setSeeds},

	// A set and the names of its manager.
	{"several", "rivals don't end a run", machine, " + rivals", " + min(0, rivals)", stories},
	{"several", "a set that is held is a rival", machine, "if r == nil || o.name.held() {", "if r == nil {", setTests + "TestSet_Rivals"},
	{"several", "a set that nobody waits for is a rival", machine, "\tr := o.name.queue.head\n\tif r == nil || o.name.held() {", "\tr := o.name.queue.head\n\tif r == nil {\n\t\treturn true\n\t}\n\tif o.name.held() {", setTests + "TestSet_Rivals"},
	{"several", "a rival's subscription is another process's", machine, "subscribed = subscribed || o.name.sub == subOn", "", setTests + "TestSet_Rivals"},
	{"several", "any message ends another's turn", machine, "foreign && (useful || n.held())", "foreign", stories},
	{"several", "a message that was not our own is lost", machine, "u.echoed > r.Published && n.takesTurns() {", "false {", stories},
	{"several", "one message is our own", machine, "n.details.echoes += told - u.echoed", "n.details.echoes += max(0, min(told, 1)-u.echoed)", stories},
	{"several", "as many messages are our own as there are items", machine, "n.details.echoes += told - u.echoed", "n.details.echoes += max(told, len(n.items())) - u.echoed", stories},
	{"several", "one message before the answer is our own", machine, "case u.echoed < most:", "case u.echoed < 1:", stories},
	{"several", "the messages that came before the answer are awaited", machine, "told - u.echoed", "told", stories},

	// Deadlocks.
	{"several", "waits for no hold of other names", machine, "o.blocks(r, h) && !yield(h)", "false && !yield(h)", setSeeds},
	{"several", "waits for no hold of single names", machine, "if o := m.names[ours.Name]; o != nil && !yield(", "if o := m.names[ours.Name]; false && !yield(", setSeeds},
	{"several", "waits for those that share an item", machine, "return it.Side == Alone || other.Side == Alone", "return true", setSeeds},
	{"several", "a single name's hold is taken for a writer's", machine, "\t\tits.Side = h.Request.Side ", "\t\t_ = h ", setSeeds},
	{"several", "a single name's request is taken for a writer's", machine, "if ours.Side = r.Side; r.behindAlone() {", "if r.behindAlone() {", setSeeds},
	{"several", "one behind a writer waits for no set", machine, "if ours.Side = r.Side; r.behindAlone() {", "if ours.Side = r.Side; false {", stories},
	{"several", "sets that exclude each other gather at once", machine, " || m.rivalGathers(e.of) {", " {", setTests + "TestSet_Gather"},
	{"several", "holds of sets are remembered for ever", machine, "\t\tm.heldSets.remove(e.of)\n", "", setTests + "TestSet_HeldSets"},
	{"several", "an owner waits for its own item", machine, "if h.Request.Owner() == r.Owner() {\n\t\t\treturn", "if false {\n\t\t\treturn", setSeeds},
	{"several", "a hold closes no circle of other names", machine, "\t\t\tm.breakDeadlocksOf(o.name)\n", "", setSeeds},
	{"several", "a set is forgotten while the sets of its item are looked at", machine, "slices.Clone(p[it.Name])", "p[it.Name]", stories},
	{"several", "a set is not forgotten", machine, "\t\tm.sets.remove(n)\n", "", setSeeds},
	{"several", "a close forgets sets", machine, "len(m.names)+len(m.setNames) == 0 {", "len(m.names) == 0 {", setSeeds},
	{"several", "a forced unlock is not looked into", machine, "range m.sets[key] {", "range m.sets[\"\"] {", stories},

	// The scripts.
	{"several", "acquire.lua: takes what is free", setScripts + "acquire.lua", "if ARGV[2] == '0' then", "if false then", setTables},
	{"several", "acquire.lua: gathers for a full lease", setScripts + "acquire.lua", "return takeAll(free, ARGV[2]) or refused", "return takeAll(free, ARGV[1]) or refused", setTables},
	{"several", "acquire.lua: gathers beside another kind", setScripts + "acquire.lua", "elseif other then", "elseif false then", setTables},
	{"several", "acquire.lua: tells the last refusal", setScripts + "acquire.lua", "elseif not refused then", "else", setTables},
	{"several", "acquire.lua: an error leaves a part", setScripts + "acquire.lua", "        give(which[back])\n", "", shell + "TestScript_SeveralStoppedHalfway"},
	{"several", "acquire.lua: a reader takes a token", setScripts + "acquire.lua", "if ARGV[i + 4] ~= 'read' or redis", "if true or redis", setTables},
	{"several", "acquire.lua: what is gathered stays under the old number", setScripts + "acquire.lua", "      redis.call('HDEL', key, ARGV[h])\n", "", setTables},
	{"several", "acquire.lua: shortens what others need", setScripts + "acquire.lua", "if not others or ttl >= 0 and ttl < tonumber(lease) then", "if true then", setTables},
	{"several", "release.lua: the first error ends it", setScripts + "release.lua", "      failed = text\n", "      return {err = text}\n", shell + "TestScript_SeveralReleaseForbidden"},
	{"several", "release.lua: what is no lock is an error", setScripts + "release.lua", "if not string.find(text, 'WRONGTYPE', 1, true) then", "if true then", setTables},
	{"several", "release.lua: the subscribers of the last message only", setScripts + "release.lua", "told, most = told + 1, math.max(most, reached)", "told, most = told + 1, reached", shell + "TestScript_SeveralSubscribers"},
	{"several", "renew.lua: renews what is left", setScripts + "renew.lua", "  if has == 0 or type(has)", "  if type(has)", setTables},
	{"several", "renew.lua: a reader is renewed as a writer", setScripts + "renew.lua", "local field = ARGV[i + 2] == 'write' and ARGV[2] .. ':write' or ARGV[2]", "local field = ARGV[2]", setTables},

	// What is sent and read.
	{"several", "what is gathered has no time", setFormats, "e.millis(op.Lease), millis(op.Gather)", "e.millis(op.Lease), millis(0)", shell + "TestLockAll_CancelledWhileItGathers"},
	{"several", "readers are writers", setFormats, "word = sideWord(items[i].Side)", "word = sideWord(core.Alone)", shell + "TestLockAll_AllOrNothing"},
	{"several", "all items have one token", setFormats, "r.Tokens = append(r.Tokens, token)", "r.Tokens = []int64{token}", shell + "TestLockAll_AllOrNothing"},
	{"several", "a partial release looks whole", setFormats, "done > 0, done > 0 && done < int64(len(op.Items))", "done > 0, false", shell + "TestLockAll_LostIfAnyPartIs"},
	{"several", "an item that is not there", setFormats, "a.Array[0].Int < 1 || a.Array[0].Int > int64(len(op.Items))", "false", wires + "TestSeveral_BadReplies"},
	{"several", "a token is missing", setFormats, "op.Tokens == 0 || len(a.Array) != len(op.Items)", "op.Tokens == 0", wires + "TestSeveral_BadReplies"},
	{"several", "more released than there are", setFormats, "done < 0 || done > int64(len(op.Items))", "false", wires + "TestSeveral_BadReplies"},
	{"several", "an error names keys that are no locks", setFormats, "max(c.locks, c.items, 1)", "max(c.locks, 1)", wires + "TestSeveral_NamesOfACommand"},

	// The client.
	{"several", "wake-ups have no item", "lockmgr", "Name: key.name, Item: key.item, Place: key.place, Subscribed", "Name: key.name, Place: key.place, Subscribed", shell + "TestLockAll_HearsEachItem"},
	{"several", "all items have the channel of a plain lock", "lockmgr", "wire.ChannelOf(it.Kind, it.Name)", "wire.ChannelOf(core.Exclusive, it.Name)", shell + "TestLockAll_HearsEachItem"},
	{"several", "hears the first item for ever", "lockmgr", "for i := range e.Items {", "for i := range e.Items[min(1, len(e.Items)):] {", shell + "TestLockAll_HearsEachItem"},
	{"several", "all wake-ups are of the first item", "lockmgr", "Name: key.name, Item: key.item, Place: key.place, Subscribed", "Name: key.name, Item: min(1, key.item), Place: key.place, Subscribed", shell + "TestLockAll_HearsEachItem"},
	{"several", "a name is there twice", "lockmgr", "items = slices.CompactFunc(items, func(a, b core.Item) bool { return a.Name == b.Name })", "items = slices.Clip(items)", shell + "TestLockAll_AllOrNothing"},
	{"several", "a name on both sides is read", "lockmgr", "return int(a.Side) - int(b.Side)", "return int(b.Side) - int(a.Side)", shell + "TestLockAll_AllOrNothing"},
	{"several", "a name of both kinds", "lockmgr", "a.Name == b.Name && a.Kind != b.Kind", "a.Name == b.Name && false", shell + "TestLockAll_BadSets"},
	{"several", "texts of two sets are the same", "lockmgr", "b = strconv.AppendQuote(b, it.Name)", "b = append(b, strconv.Quote(\"\")[:1]+it.Name+\"\\\"\"...)", shell + "TestLockAll_BadSets"},
}
