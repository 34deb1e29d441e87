package mutants

// logMutants break the rules for log lines: one when a trouble begins, one when it ends.
var logMutants = []mutant{
	{"log", "a line for each failure", "lockmgr", "if t == nil {\n\t\tt = &trouble{begin: now}", "if true {\n\t\tt = &trouble{begin: now}", shell + "TestLog_OutageHasTwoLines"},
	{"log", "ends while nothing succeeds", "lockmgr", "left > 0 || !t.answered {", "left > 0 {", shell + "TestLog_TroublesByReason"},
	{"log", "ends at the first success", "lockmgr", "troubleQuiet = 15 * time.Second", "troubleQuiet = time.Millisecond", shell + "TestLog_OutageHasTwoLines"},
	{"log", "never ends", "lockmgr", "\t\t\tp.book.answers(ev)\n", "", shell + "TestLog_OutageHasTwoLines"},
	{"log", "one trouble at a time", "lockmgr", "reason := Reason(err)\n\tt := b.troubles[reason]", "reason := Reason(ErrServer)\n\tt := b.troubles[reason]", shell + "TestLog_TroublesByReason"},
	{"log", "a line for each loss", "lockmgr", "burstLines = 10", "burstLines = 10000", shell + "TestLog_LossesAtOnce"},
	{"log", "a burst has no end", "lockmgr", "\ts.lines = 0\n\treturn more", "\treturn more", shell + "TestLog_LossesAtOnce"},
	{"log", "losses are not counted", "lockmgr", "more = max(0, s.lines-burstLines)", "more = 0", shell + "TestLog_LossesAtOnce"},
	{"log", "Close forgets what was left out", "lockmgr", "func (b *logbook) close(now time.Time) {\n\tb.endBursts(now.Add(burstTime))\n", "func (b *logbook) close(now time.Time) {\n", shell + "TestLog_ReleasesGivenUp"},
	{"log", "names that forge lines", "lockmgr", "case len(name) > maxLogName || !clean.Is(name):", "case len(name) > maxLogName && !clean.Is(name):", shell + "TestLog_NamesAndPasswords"},
	{"log", "a line for each try to connect", "notify", "if !o.told && (c.warned.IsZero() || c.core.now.Sub(c.warned) >= warnAgain) {", "if true {", hub + "TestLog_Outage"},
	{"log", "a line for each flap", "notify", ">= warnAgain", ">= 0", hub + "TestLog_Outage"},
	{"log", "one outage in a life", "notify", "o.told, c.warned, level = true, c.core.now, slog.LevelWarn", "o.told, c.warned, level = true, c.core.now.Add(10*newOutage), slog.LevelWarn", shell + "TestLog_OutageHasTwoLines"},
	{"log", "the first of many is allowed", "notify", "if was && c.refusals == 0 {", "if was {", hub + "TestLog_RefusedChannels"},
	{"log", "a line for each refused channel", "notify", "c.reported.refused, level = true, slog.LevelWarn", "level = slog.LevelWarn", hub + "TestLog_RefusedChannels"},
	{"log", "granted channels are not told", "notify", "\t\tc.logAllowed(ch.name)\n", "", hub + "TestLog_RefusedChannels"},
}
