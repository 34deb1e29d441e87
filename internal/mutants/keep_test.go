package mutants

const keepSeeds = "lockmgr/internal/sim TestSeeds_KeepFor"

// keepMutants break the rules for names that stay taken after an unlock, and for leaders.
var keepMutants = []mutant{
	{"keep", "passed on in memory", machine, "\tcase m.reserved(e) > 0:\n\t\tm.release(e)\n\t\treturn\n", "", keepSeeds},
	{"keep", "a failed release is passed on", machine, "e.upkeep().giveBack || m.reserved(e) > 0 ||", "e.upkeep().giveBack ||", keepSeeds},
	{"keep", "a refused release is passed on", machine, "!u.longer.set && m.reserved(e) == 0:", "!u.longer.set:", keepSeeds},
	{"keep", "released as others are", machine, "\t\t\top.Reserve = m.reserved(e)\n", "", stories},
	{"keep", "counts after its release", machine, "if r.Op.Reserve > 0 {", "if false {", stories},
	{"keep", "kept for nobody", machine, "c.what == reservation && !untaken {", "c.what == reservation {", stories},
	{"keep", "a long one is not prolonged", machine, "\tif until > e.until {\n\t\tm.extendSoon(e, max(d", "\tif false {\n\t\tm.extendSoon(e, max(d", stories},
	{"keep", "a re-entry is not kept", machine, "\tm.reserve(e, r)\n\tm.moved(h)\n", "\tm.moved(h)\n", stories},
	{"keep", "shares a command with releases", lanes, " && op.Reserve == 0 }", " }", wires + "TestBatch_AReleaseThatKeepsIsAlone"},
	{"keep", "reserve.lua: relies on an earlier script", "lockmgr/internal/wire/script/reserve.lua", "    redis.call('PEXPIRE', key, ARGV[1])\n", "", shell + "TestScripts"},
	{"keep", "the record lives for as long as somebody needed it", machine, "if life := max(e.until, u.longer.life); ", "if life := m.now; ", stories},
	{"keep", "reserve.lua: keeps its name", "lockmgr/internal/wire/script/reserve.lua", "if type(redis.pcall('HSET', key, ARGV[i] .. ':kept', 1)) ~= 'table' then", "if false then", shell + "TestScripts"},
	{"keep", "what a cancel gives back", "lockmgr", "func (t *ticket) Drop(l *Lock) { l.unlock(true) }", "func (t *ticket) Drop(l *Lock) { l.unlock(false) }", shell + "TestKeepFor_NotKept"},

	{"lead", "one term only", "lockmgr", "if again = errors.Is(lost, ErrLeaseLost) && ctx.Err() == nil; !again", "if again = false; !again", shell + "TestLead_CampaignsAgainAfterALoss"},
	{"lead", "gives up when the server is away", "lockmgr", "case ctx.Err() != nil || !Temporary(err):", "case true:", shell + "TestLead_Ends"},
	{"lead", "the leader is not told", "lockmgr", "return false, fn(l.Context(ctx), l)", "return false, fn(ctx, l)", shell + "TestLead_CampaignsAgainAfterALoss"},
	{"lead", "leads until somebody notices", "lockmgr", "return held != nil && held.Valid()", "return held != nil", shell + "TestLeader_NeverLate"},
	{"lead", "waits for the reader of changes", "lockmgr", "\tselect {\n\tcase <-l.changes:\n\tdefault:\n\t}\n", "", shell + "TestLeader"},
}
