package mutants

// whoMutants break the rules for who holds a lock.
var whoMutants = []mutant{
	{"who", "short holds are written", "lockmgr", "announceAge   = announceAfter - 50*time.Millisecond", "announceAge   = 0", shell + "TestProcess_ManyHolds"},
	{"who", "written at once", "lockmgr", "announceAfter = time.Second", "announceAfter = time.Millisecond", shell + "TestProcess_OthersSeeWhoHoldsALock"},
	{"who", "written once", "lockmgr", "\ta.writeIn(announceEvery)\n\ttext,", "\ttext,", shell + "TestProcess_OthersSeeWhoHoldsALock"},
	{"who", "the record stays", "lockmgr", "func (a *announcer) unlocked() {\n", "func (a *announcer) unlocked() {\n\treturn\n", shell + "TestProcess_OthersSeeWhoHoldsALock"},
	{"who", "Close leaves it", "lockmgr", "case !a.written || !a.lanes.Call(wire.DropProcess(a.id.uuid), func(wire.Answer) { close(gone) }):", "default:", shell + "TestProcess_OthersSeeWhoHoldsALock"},
	{"who", "lives as long as its locks", "lockmgr", "string(text), announceLife)", "string(text), max(announceLife, a.options.Lease))", shell + "TestProcess_RecordOfADeadProcessEnds"},
	{"who", "anonymous ones, too", "lockmgr", "announcer{shell: s, core: machine, off: o.Anonymous}", "announcer{shell: s, core: machine}", shell + "TestProcess_Anonymous"},
	{"who", "tries again what is not allowed", "lockmgr", "case f.Kind == wire.Permission:\n\t\ta.off = true", "case f.Kind == wire.Permission:", shell + "TestProcess_RefusedByTheServer"},
	{"who", "another hold's note", "lockmgr", "if told, ok := record.Holds[number]; ok {", "for _, told := range record.Holds {", shell + "TestProcess_OthersSeeWhoHoldsALock"},
	{"who", "all of many", "lockmgr", "note != \"\" || len(r.Holds) < announceHolds", "true", shell + "TestProcess_ManyHolds"},
	{"who", "changes the error itself", "lockmgr", "\ttold := *failed\n\ttold.Holders = info.Holders\n\treturn &told\n", "\tfailed.Holders = info.Holders\n\treturn failed\n", shell + "TestExplain"},
	{"who", "explains what nobody holds", "lockmgr", "if looked != nil || len(info.Holders) == 0 {", "if looked != nil {", shell + "TestExplain"},
	{"who", "other hashes are locks", "lockmgr", "if _, _, ok := holderOf(h.Owner); !ok {\n\t\t\treturn false", "if _, _, ok := holderOf(h.Owner); !ok {\n\t\t\treturn true", shell + "TestScan_EveryKind"},
	{"who", "a prefix is a pattern", "lockmgr", "\"hash\", escaped(s.prefix)+\"*\"", "\"hash\", s.prefix+\"*\"", shell + "TestScan_PrefixIsNoPattern"},
	{"who", "one master", "lockmgr", "for _, master := range masters {", "for _, master := range masters[:1] {", shell + "TestScan_Cluster"},
	{"who", "waiters are not told", machine, "for r := n.queue.head; r != nil; r = r.next {\n\t\tif !yield(Use{Request: r}) {", "for r := n.queue.head; false; r = r.next {\n\t\tif !yield(Use{Request: r}) {", shell + "TestLocks"},
}
