package mutants

// replicaMutants break the rules for grants that replicas must have.
var replicaMutants = []mutant{
	{"replicas", "a renewal is told at once", lanes, "case core.VerbAcquire, core.VerbTransfer, core.VerbRenew:\n\t\treturn r.Ran", "case core.VerbAcquire, core.VerbTransfer:\n\t\treturn r.Ran", wires + "TestReplicas_ConfirmWhatIsTrusted"},
	{"replicas", "a grant that is kept back counts as under way", lanes, "\t\to.passed++\n\t\tl.confirms.add(*r)\n", "\t\tl.confirms.add(*r)\n", wires + "TestReplicas_AreWaitedFor"},
	{"replicas", "one less is enough", lanes, "n < int64(c.cfg.Replicas.Acks)", "n+1 < int64(c.cfg.Replicas.Acks)", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "an acquire without replicas did not run", lanes, "Shard: r.Shard, Ran: core.Maybe, Final: f.Final", "Shard: r.Shard, Ran: core.No, Final: f.Final", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "the wait for a connection has no end", lanes, "\tcase <-late.C:\n", "\tcase <-make(chan time.Time):\n\t\t_ = late.C\n", wires + "TestReplicas_NoConnection"},
	{"replicas", "each wait asks for another connection", lanes, "\t\tc.opening = call\n", "", wires + "TestReplicas_NoConnection"},
	{"replicas", "Close waits for a connection", lanes, "\tcase <-c.ctx.Done():\n\t\treturn nil, &Failure{Kind: Closed, Final: true}\n", "", wires + "TestReplicas_NoConnection"},
	{"replicas", "a connection that comes too late stays", lanes, "\tcase c.closed:\n\t\tgo own.Close()\n", "", wires + "TestReplicas_NoConnection"},
	{"replicas", "a slot that has moved is final", lanes, "case a.Failure != nil && a.Failure.Elsewhere:", "case false:", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "a master that is a replica now is final", lanes, "case strings.Contains(text, waitAtReplica):", "case false:", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "too few are asked again until RetryTime", lanes, "Kind: TooFew, Final: true, Err: errFewReplicas", "Kind: TooFew, Final: false, Err: errFewReplicas", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "a record that is gone is confirmed", lanes, "case r.Ran != core.Yes || !r.OK:\n\t\treturn taken", "case false:\n\t\treturn taken", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "a connection that failed is used again", lanes, "\t\tc.drop()\n\t\treturn f\n", "\t\treturn f\n", wires + "TestReplicas_NotConfirmed"},
	{"replicas", "an idle connection is trusted", lanes, "if c.cfg.Now()-c.usedAt > idleTime {", "if false {", wires + "TestReplicas_IdleConnection"},
	{"replicas", "Close waits for WAIT", lanes, "func (c *confirmer) close() {\n\tc.stop()\n", "func (c *confirmer) close() {\n", wires + "TestReplicas_CloseAnswersAll"},
}

// burstMutants break the rules for many renewals at once.
var burstMutants = []mutant{
	{"bursts", "all renewals are sent at once", machine, "m.renewals.DueAtMost(m.now, burst,", "m.renewals.DueAtMost(m.now, burst+1<<20,", machine + " TestRenewal_Bursts"},
	{"bursts", "many renewals take as long as they take", machine, "return max(least, int(", "return min(least, int(", machine + " TestRenewal_Bursts"},
	{"bursts", "bursts without a pause", machine, "at = min(at, max(due, m.pace.next()))", "at = min(at, due)", machine + " TestRenewal_Bursts"},
	{"bursts", "a Tick that comes late sends no more", machine, "passed = max(now-p.last, pause)", "passed = pause", machine + " TestRenewal_Bursts"},
	{"bursts", "large beside other scripts", machine, "p.smallUntil = now + besideTime", "p.smallUntil = now", machine + " TestRenewal_Bursts"},
	{"bursts", "small for ever", machine, "if now < p.smallUntil {", "if p.smallUntil > 0 {", machine + " TestRenewal_Bursts"},
	{"bursts", "renewals count as other scripts", machine, "if verb != VerbRenew {\n\t\tm.pace", "if true {\n\t\tm.pace", machine + " TestRenewal_Bursts"},
	{"bursts", "the pause of an earlier tick counts as passed", machine, "\t\tm.pace.over()\n", "", machine + " TestRenewal_Bursts"},
	{"bursts", "what is left comes a window later", "renewal", "m.passed = max(m.passed, at-1)", "m.passed = max(m.passed, k)", renewer + "TestMap_LikeTheModel"},
	{"bursts", "a batch has as many renewals as there are", lanes, "l.renewalsNow())", "maxRenewals)", wires + "TestLane_RenewalsOfABatch"},
	{"bursts", "a server is as near as it was", lanes, "len(l.renewals)/8), maxRenewals)", "0), maxRenewals)", wires + "TestLane_RenewalsOfAServerThatIsFartherNow"},
	{"bursts", "the time of renewals counts as a round trip", lanes, "\tif !renews {\n\t\tif h.fastest", "\tif true {\n\t\tif h.fastest", wires + "TestLane_RenewalsOfABatch"},
	{"bursts", "a server that moves away stays near", lanes, "h.fastest += h.fastest / 16; h.fastest == 0", "h.fastest == 0", wires + "TestLane_RenewalsOfABatch"},
}
