package mutants

// spreadMutants break the rules for sets whose names are in several slots.
var spreadMutants = []mutant{
	{"spread", "a set of several slots is one command", lanes, "if l.cfg.clustered && inSeveralSlots(op) {", "if false {", wires + "TestSpread_TakesOneMasterAfterTheOther"},
	{"spread", "all masters are asked at once", lanes, "s.parts[s.next].lane == first.lane", "first != nil", wires + "TestSpread_TakesOneMasterAfterTheOther"},
	{"spread", "tokens in the order of slots", lanes, "out.Tokens[at] = s.parts[i].token[k]", "_ = at\n\t\t\t\tout.Tokens[i] = s.parts[i].token[k]", wires + "TestSpread_TakesOneMasterAfterTheOther"},
	{"spread", "the lease counts from the last command", lanes, "at = min(at, parts[i].op.Sent)", "at = max(at, parts[i].op.Sent)", wires + "TestSpread_TakesOneMasterAfterTheOther"},
	{"spread", "a refused try keeps what it got", lanes, "return s.undo(s.refusal(&asked[refused], r.Item-1))", "return s.refusal(&asked[refused], r.Item-1), true", wires + "TestSpread_RefusedTryKeepsNothing"},
	{"spread", "a refused try goes on", lanes, "if r := &asked[refused].reply; !r.Gathered {", "if r := &asked[refused].reply; !r.Gathered && s.next == len(s.parts) {", wires + "TestSpread_RefusedTryKeepsNothing"},
	{"spread", "a refusal names the item of the part", lanes, "Item: p.at[item] + 1,", "Item: item + 1,", wires + "TestSpread_RefusedTryKeepsNothing"},
	{"spread", "a failed try keeps what it got", lanes, "return s.undo(s.failed(asked, r))", "return s.failed(asked, r), true", wires + "TestSpread_FailuresAreUndone"},
	{"spread", "what may have been taken is not undone", lanes, "(r.Ran == core.Maybe || r.Ran == core.Yes && (r.OK || r.Gathered))", "(r.Ran == core.Yes && (r.OK || r.Gathered))", wires + "TestSpread_FailuresAreUndone"},
	{"spread", "what was gathered is not undone", lanes, "r.Ran == core.Yes && (r.OK || r.Gathered))", "r.Ran == core.Yes && r.OK)", wires + "TestSpread_Gathers"},
	{"spread", "an undo that fails is forgotten", lanes, "s.end = s.inDoubt(s.end, r)", "_ = r", wires + "TestSpread_FailuresAreUndone"},
	{"spread", "what may have run did not", lanes, "\t\tcase q.Ran == core.Maybe:\n\t\t\tout.Ran = core.Maybe\n", "", wires + "TestSpread_FailuresAreUndone"},
	{"spread", "a release in part did not run", lanes, "\t\tcase q.Ran == core.Yes && s.step != stepTake: // else it will be undone\n\t\t\tout.Ran = core.Maybe\n", "", wires + "TestSpread_OnePartIsGone"},
	{"spread", "a set is renewed if a part is", lanes, "all, some = all && r.OK, some || r.OK", "all, some = some || r.OK, some || r.OK", wires + "TestSpread_OnePartIsGone"},
	{"spread", "a loss beside a failure is a failure", lanes, "case failed != nil && !lost:", "case failed != nil && (!lost || all != some || lost):", wires + "TestSpread_OnePartIsGone"},
	{"spread", "a release of some parts is one of all", lanes, "out.Partly = some && (out.Partly || !all)", "out.Partly = some && out.Partly", wires + "TestSpread_OnePartIsGone"},
	{"spread", "what is gathered lives as long as a lock", lanes, "p.op.Lease, p.op.Unfinished = min(o.Lease, o.Gather), true", "p.op.Lease, p.op.Unfinished = o.Lease, true", wires + "TestSpread_Gathers"},
	{"spread", "what was gathered is granted with its short lease", lanes, "\tif s.op.Gather > 0 {\n\t\ts.step = stepExtend", "\tif false {\n\t\ts.step = stepExtend", wires + "TestSpread_Gathers"},
	{"spread", "a part that is gone by then is had", lanes, "case !r.OK && gone < 0:\n\t\t\tgone = i", "case !r.OK && gone < 0:", wires + "TestSpread_Gathers"},
	{"spread", "ended spreads are kept", lanes, "\t\tdelete(all.parts, &s.parts[i].op)\n", "\t\t_ = i\n", wires + "TestSpread_TakesOneMasterAfterTheOther"},
	{"spread", "a record that was seen is the only one", machine, "several: split && op.Verb == VerbAcquire})", "several: false})", "lockmgr/internal/core TestSet_SplitAcquire"},
}
