package mutants

const keepSeeds = "lockmgr/internal/sim TestSeeds_KeepFor"

// keepMutants break the rules for names that stay taken after an unlock, and for leaders.
var keepMutants = []mutant{
	{"keep", "passed on in memory", machine, "\tcase m.reserved(e) > 0:\n\t\tm.release(e)\n\t\treturn\n", "", keepSeeds},
	{"keep", "a failed release is passed on", machine, "e.upkeep().giveBack || m.reserved(e) > 0 ||", "e.upkeep().giveBack ||", keepSeeds},
	{"keep", "a refused release is passed on", machine, "!u.longer.set && m.reserved(e) == 0:", "!u.longer.set:", keepSeeds},
	{"keep", "released as others are", machine, "\t\t\top.Reserve = m.reserved(e)\n", "", stories},
	{"keep", "counts after its release", machine, "if r.Op.Reserve > 0 {", "if false {", stories},
	{"keep", "kept for nobody", machine, "\tif untaken {\n", "\tif false {\n", stories},
	{"keep", "a re-entry that nobody had ends all", machine, "m.reserved(e) > 0 || r.Hold != &r.own {", "false {", stories},
	{"keep", "a long one is not prolonged", machine, "if u.reserved > e.until {", "if false {", stories},
	{"keep", "a re-entry is not kept", machine, "\tm.reserve(e, r)\n\tm.extendedHold(h)\n", "\tm.extendedHold(h)\n", stories},
	{"keep", "shares a command with releases", lanes, " && op.Reserve == 0 }", " }", wires + "TestBatch_AReleaseThatKeepsIsAlone"},
	{"keep", "reserve.lua: does not shorten", "lockmgr/internal/wire/script/reserve.lua", "if ttl < 0 or ttl > tonumber(ARGV[1]) then", "if ttl < 0 then", shell + "TestScripts"},
	{"keep", "reserve.lua: prolongs", "lockmgr/internal/wire/script/reserve.lua", "if ttl < 0 or ttl > tonumber(ARGV[1]) then", "if true then", shell + "TestScripts"},
	{"keep", "reserve.lua: keeps its name", "lockmgr/internal/wire/script/reserve.lua", "if type(redis.pcall('HSET', key, ARGV[i] .. ':kept', 1)) ~= 'table' then", "if false then", shell + "TestScripts"},
	{"keep", "what a cancel gives back", "lockmgr", "func (t *ticket) Drop(l *Lock) { l.unlock(true) }", "func (t *ticket) Drop(l *Lock) { l.unlock(false) }", shell + "TestKeepFor_NotKept"},

	{"lead", "one term only", "lockmgr", "if again = errors.Is(lost, ErrLeaseLost) && ctx.Err() == nil; !again", "if again = false; !again", shell + "TestLead_CampaignsAgainAfterALoss"},
	{"lead", "gives up when the server is away", "lockmgr", "case ctx.Err() != nil || !Temporary(err):", "case true:", shell + "TestLead_Ends"},
	{"lead", "the leader is not told", "lockmgr", "return false, fn(l.Context(ctx), l)", "return false, fn(ctx, l)", shell + "TestLead_CampaignsAgainAfterALoss"},
	{"lead", "leads until somebody notices", "lockmgr", "return held != nil && held.Valid()", "return held != nil", shell + "TestLeader_NeverLate"},
	{"lead", "waits for the reader of changes", "lockmgr", "\tselect {\n\tcase <-l.changes:\n\tdefault:\n\t}\n", "", shell + "TestLeader"},
}
