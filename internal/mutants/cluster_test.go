package mutants

const (
	lanes        = "lockmgr/internal/wire"
	hubTests     = shell + "TestCluster_SlotMoves"
	bothChannels = shell + "TestCluster_BothChannels"
	publishLua   = "lockmgr/internal/wire/script/publish_both.lua"
	laneTests    = wires + "TestLanes_FollowTheLayout"
	hubLeft      = shell + "TestHubs_CloseThatOfAMasterThatLeft"
	leftTest     = wires + "TestLanes_CloseTheLaneOfAMasterThatLeft"

	scriptFiles  = "lockmgr/internal/wire/script/"
	channelKeys  = wires + "TestCommand_ChannelsAreNoKeys"
	movingSlot   = shell + "TestCluster_LocksOfASlotThatIsMoving"
	movingScript = shell + "TestScript_InASlotThatIsMoving"
)

// clusterMutants break the rules for clusters and Sentinel.
var clusterMutants = []mutant{
	{"cluster", "one health for all shards", machine, "\treturn m.healthAt(n.shard)\n", "\treturn m.healthAt(0)\n", stories},
	{"cluster", "a name is on the first shard", machine, "\tn.shard = shard\n", "", stories},
	{"cluster", "a fresh name is on the first shard", machine, "\t\t\tn.shard = NoShard\n", "", stories},
	{"cluster", "a fresh name is on the first shard, simulated", machine, "\t\t\tn.shard = NoShard\n", "", shardSeeds},
	{"cluster", "a name that comes to a failing shard is not told", machine, "h := m.healthAt(shard); h.failing &&", "h := m.healthAt(shard); false &&", stories},
	{"cluster", "one health for all shards, simulated", machine, "\treturn m.healthAt(n.shard)\n", "\treturn m.healthAt(0)\n", shardSeeds},
	{"cluster", "requests for other shards fail, simulated", machine, "return n.shard == shard && n.queue.head != nil", "return n.queue.head != nil", shardSeeds},
	{"cluster", "a shard that is back hurries all", machine, "if n.shard == shard && late(e) {", "if late(e) {", stories},
	{"cluster", "requests for other shards fail, too", machine, "return n.shard == shard && n.queue.head != nil", "return n.queue.head != nil", stories},
	{"cluster", "replies do not say their shard", lanes, "\t\tr.Shard = l.cfg.shard\n", "", wires + "TestLanes_HungShardDelaysNoOther"},
	{"cluster", "one lane for all", lanes, "n := l.at(keyOf(op))", "n := 0", wires + "TestLanes_HungShardDelaysNoOther"},
	{"cluster", "the failure of any shard counts", lanes, "{ f = lane.Failing(asked, now) }", "{ f = l.lanes[len(l.lanes)-1].Failing(asked, now) }", wires + "TestLanes_HungShardDelaysNoOther"},
	{"cluster", "locks share commands", lanes, "= !cluster.OneSlot, l.lookSoon", "= false, l.lookSoon", wires + "TestLanes_NoCommandHasTwoSlots"},
	{"cluster", "no two locks of a slot share a command", lanes, "s, open := b.slots[key]", "s, open := b.slots[key]\n\topen = false", wires + "TestBatch_LocksOfASlotShareACommand"},
	{"cluster", "a command of a slot has no bound", lanes, "if !open || !b.takes(&s, t.op) {", "if !open || s.lease != t.op.Lease {", wires + "TestBatch_LocksOfASlotShareACommand"},
	{"cluster", "leases of a slot are mixed", lanes, "if !open || !b.takes(&s, t.op) {", "if !open || b.commands[s.at].locks == f.most {", wires + "TestBatch_LocksOfASlotShareACommand"},
	{"cluster", "the first of a slot has no place in the answer", lanes, "\t\tfirst.index = 0\n", "", wires + "TestBatch_LocksOfASlotShareACommand"},
	{"cluster", "a slot is remembered from batch to batch", lanes, "\tclear(b.slots)\n", "", wires + "TestBatch_LocksOfASlotShareACommand"},
	{"cluster", "a command of a slot that is moving stays whole", lanes, "return f.Kind == Permission || f.Scattered", "return f.Kind == Permission", wires + "TestBatch_SlotThatIsMoving"},
	{"cluster", "a forbidden name takes its slot along", lanes, "return f.Kind == Permission || f.Scattered", "return f.Scattered", wires + "TestBatch_SlotThatIsMoving"},
	{"cluster", "locks share a command anywhere", lanes, "\t\tb.apart = true // its", "\t\t// its", wires + "TestBatch_NothingSharesACommandAnywhere"},
	{"cluster", "no lock shares a command with Sentinel", lanes, "= !cluster.OneSlot, l.lookSoon", "= true, l.lookSoon", wires + "TestLanes_NoCommandHasTwoSlots"},
	{"cluster", "the layout is taken over once", lanes, "\tif changed {\n\t\tl.slots = slots\n", "\tif changed && l.slots == nil {\n\t\tl.slots = slots\n", laneTests},
	{"cluster", "the lane of a master that left stays", lanes, "\tl.closeLeft()\n", "", leftTest},
	{"cluster", "a lane is closed at once", lanes, "if now-since >= laneRest && lane.idle() {", "if now >= since && lane.idle() {", leftTest},
	{"cluster", "a lane is closed under an operation", lanes, "if now-since >= laneRest && lane.idle() {", "if now-since >= laneRest {", leftTest},
	{"cluster", "a renewal is no operation under way", lanes, " && l.sending == 0 && l.renewer.waits", " && l.sending == 0", leftTest},
	{"cluster", "a pause counts from the first", lanes, "\t\tif serves[n] {\n\t\t\tdelete(l.left, n)\n", "\t\tif serves[n] {\n", leftTest},
	{"cluster", "the scripts of a closed lane are forgotten", lanes, "\t\t\tl.scripts += lane.RenewalScripts()\n", "", leftTest},
	{"cluster", "a master that is back has the closed lane", lanes, "\t\t\tdelete(l.number, l.addrs[n])\n", "", leftTest},
	{"cluster", "the hub of a master that left stays", "lockmgr", "delete(h.at, key)\n\t\t\th.closing.Go(hub.Close)\n", "_ = key\n", hubLeft},
	{"cluster", "a hub is closed under a watch", "lockmgr", " && hub.Stats().Watches == 0 {", " {", hubLeft},
	{"cluster", "the hub of a master is closed", "lockmgr", "!slices.Contains(masters, key.master) &&", "(true || !slices.Contains(masters, key.master)) &&", hubLeft},
	{"cluster", "nobody is told of a new layout", lanes, "\t\tl.cluster.Moved()\n", "", laneTests},
	{"cluster", "told of each look", lanes, "err == nil && l.take(shards) {", "err == nil && (l.take(shards) || true) {", laneTests},
	{"cluster", "a slot without a master goes to the first", lanes, "\tif l.slots != nil {\n\t\t*slots = *l.slots\n\t}\n", "", laneTests},
	{"cluster", "a failover is looked for once", lanes, "until = time.Now().Add(suspectTime)", "until = time.Now()", wires + "TestLanes_LookOftenAfterAFailure"},
	{"cluster", "looks without a pause", lanes, "\t\ttimer.Reset(layoutPause)\n", "\t\ttimer.Reset(0)\n", wires + "TestLanes_LookOftenAfterAFailure"},
	{"cluster", "the text in braces has no slot of its own", lanes, "n > 0 {", "n < -1 {", wires + "TestSlotOf"},
	{"cluster", "empty braces count", lanes, "key[begin+1:], '}'); n > 0 {", "key[begin+1:], '}'); n >= 0 {", wires + "TestSlotOf"},
	{"cluster", "channels stay at the old master", "lockmgr", "func (h *hubs) moved(w listening) bool { return h.lanes.Master(w.Channel()) != w.master }", "func (h *hubs) moved(w listening) bool { return false }", hubTests},
	{"cluster", "the end of a sharded subscription goes unnoticed", "notify", "if n.gone && n.ch.phase == live {", "if false {", hubTests},
	{"cluster", "both channels: sharded only", publishLua, "  redis.pcall('PUBLISH', channel, message)\n", "", bothChannels},
	{"cluster", "both channels: classic only", publishLua, "redis.pcall('SPUBLISH', channel, message)", "0", bothChannels},
	{"cluster", "both channels: listens on sharded ones only", "lockmgr", "if p.onBoth() && !key.also {\n\t\tkey.also = true\n\t\tp.watch(", "if false {\n\t\tp.watch(", bothChannels},
	{"cluster", "both channels: what is heard on classic ones is dropped", "lockmgr", "\treturn ev.event.Message\n", "\treturn false\n", bothChannels},
	{"cluster", "both channels: the count of sharded subscribers is trusted", "lockmgr", "!s.clustered || s.options.Channels == ShardedChannels", "!s.clustered || s.onSharded()", shell + "TestChannels"},
	{"cluster", "both channels: echoes are taken for news", lanes, "\t\tif l.cfg.Twice {\n", "\t\tif false {\n", wires + "TestLane_MessagesOnTwoChannels"},
	{"cluster", "both channels: the classic one stays at the old master", "lockmgr", "\t\tp.unwatch(key)\n\t\tp.watch(key, channel)\n", "\t\tw.Close()\n\t\tw = p.hubs.watch(channel, true)\n\t\tp.watches[key] = w\n\t\tp.listen(key, w.Watch, 0)\n", hubTests},
	{"cluster", "messages are published on classic channels", lanes, "\"'PUBLISH'\", \"'SPUBLISH'\", ", "", shell + "TestCluster_EveryKind"},
	{"cluster", "keys of several slots are sent", lanes, "\t\tif commands[i].sameSlot() {", "\t\tif true {", wires + "TestRedis_AnywhereAtTheSameTime"},
	{"cluster", "what a master refuses is answered", lanes, "if l.cfg.passesOn(a) && l.cfg.elsewhere(*t) {", "if false {", wires + "TestLanes_PassOnWhatAMasterRefuses"},
	{"cluster", "a refusal that is passed on is told", lanes, "\t\tif l.cfg.passesOn(&answers[i]) {\n", "\t\tif false {\n", wires + "TestLanes_PassOnWhatAMasterRefuses"},
	{"cluster", "an operation that is passed on counts as under way", lanes, "\t\tl.health.ended(passed, now, nil)\n", "", wires + "TestLanes_PassOnWhatAMasterRefuses"},
	{"cluster", "a closed lane takes what is passed on", lanes, "\tif l.closed {\n\t\treturn false\n\t}\n\tif t.op != nil {", "\tif t.op != nil {", wires + "TestLanes_CloseAnswersWhatIsPassedOn"},
	{"cluster", "commands for any master go one after the other", lanes, "sending.Go(func() { answers[i] = s.read(&commands[i], s.client.Do(ctx, command)) })", "answers[i] = s.read(&commands[i], s.client.Do(ctx, command))", wires + "TestRedis_AnywhereAtTheSameTime"},
	{"cluster", "a connection to a node is kept for ever", lanes, "\t\t\tn.client.Store(nil) ", "\t\t\t", wires + "TestRedis_NodeIsLookedUpAgain"},
	{"cluster", "the end of a connection is the end of the client", lanes, "\t\t\tf.Final = false ", "\t\t\t", wires + "TestRedis_NodeIsLookedUpAgain"},
	{"cluster", "the master of Sentinel is looked for as seldom as a layout", lanes, "every := cmp.Or(l.cluster.Every, layoutEvery)", "every := cmp.Or(0, layoutEvery, l.cluster.Every)", wires + "TestLanes_FollowTheLayoutOfSentinel"},
	{"moving slot", "the channel of a release is a key", lanes, "c.reset(release)\n\t\t\tc.Keys = append(c.Keys, op.Name)", "c.reset(release)\n\t\t\tc.Keys = append(c.Keys, op.Name, e.channel(op.Name))", movingSlot},
	{"moving slot", "the channel of a shared release is a key", lanes, "c.Keys, c.Args = append(c.Keys, op.Name), append(c.Args, e.holder(op.OtherNumbers[0]), e.channel(op.Name))", "c.Keys, c.Args = append(c.Keys, op.Name, e.channel(op.Name)), append(c.Args, e.holder(op.OtherNumbers[0]), e.channel(op.Name))", channelKeys},
	{"moving slot", "the channel of permits is a key", lanes, "c.Keys = append(c.Keys, name, TakenKey(name))", "c.Keys = append(c.Keys, name, TakenKey(name), ChannelOf(core.Permits, name))", channelKeys},
	{"moving slot", "who listens at the old master is not told", lanes, "\tif tell, reached := unheard(commands, answers); len(tell) > 0 {", "\tif tell, reached := unheard(commands, answers); false {", movingSlot},
	{"moving slot", "who listens is counted where nobody does", lanes, "max(*reached[i], told[i].subscribers())", "*reached[i] + 0*told[i].subscribers()", wires + "TestRedis_TellsThoseWhoListenElsewhere"},
	{"moving slot", "who has heard is told again", lanes, "if n == nil || *n != 0 {", "if n == nil {", wires + "TestUnheard"},
	{"moving slot", "a number that nobody knows is none", lanes, "\t\t*n = -1\n", "", wires + "TestUnheard"},
	{"moving slot", "a call tells nobody", lanes, "c.Rest, c.told = t.call.command.Rest, t.call.command.told", "c.Rest = t.call.command.Rest", wires + "TestBatch_ListenersOfACall"},
	{"moving slot", "a command tells for the one before", lanes, "c.Rest, c.told = nil, listeners{}", "c.Rest = nil", wires + "TestBatch_ListenersOfACall"},
	{"moving slot", "keys that are elsewhere are an unknown error", lanes, " || strings.Contains(text, \"undeclared keys were accessed during rehashing\")", "", shell + "TestServerError_Replies"},
	{"moving slot", "fair locks have the keys that they use only", lanes, "func absentKey(name string) string { return QueueKey(name) + \":absent\" }", "func absentKey(name string) string { return QueueKey(name) }", shell + "TestCluster_FairLockOfASlotThatIsMoving"},
	{"moving slot", "a reader's own key is no key of its renewal", lanes, "return tagged(name) + \":\" + holder + \":rwlock_timeout:1\"", "return tagged(name)", shell + "TestCluster_RenewedInASlotThatIsMoving"},
	{"moving slot", "acquire: a reader whose key is elsewhere is dead", scriptFiles + "readwrite_acquire.lua", " or redis.call('EXISTS', key, own) == 2", "", movingScript},
	{"moving slot", "acquire: holders whose keys are elsewhere fail it", scriptFiles + "readwrite_acquire.lua", "redis.pcall('DEL', timeout(ARGV[i], 1))", "redis.call('DEL', timeout(ARGV[i], 1))", movingScript},
	{"moving slot", "acquire: a reader without a key of its own", scriptFiles + "readwrite_acquire.lua", "  -- Before the record is written: the old master of a slot takes no new key.\n", "  redis.call('HSET', key, ARGV[4], 1)\n", movingScript},
	{"moving slot", "transfer: a reader whose key is elsewhere is dead", scriptFiles + "readwrite_transfer.lua", " or redis.call('EXISTS', key, own) == 2", "", movingScript},
	{"moving slot", "transfer: holders whose keys are elsewhere fail it", scriptFiles + "readwrite_transfer.lua", "redis.pcall('DEL', timeout(ARGV[i], 1))", "redis.call('DEL', timeout(ARGV[i], 1))", movingScript},
	{"moving slot", "transfer: the life of a key that is elsewhere is over", scriptFiles + "readwrite_transfer.lua", "      redis.call('EXISTS', key, own)\n", "", movingScript},
	{"moving slot", "release: a reader whose key is elsewhere is dead", scriptFiles + "readwrite_release.lua", "    redis.call('EXISTS', key, own)\n", "", movingScript},
	{"moving slot", "release: writes before it reads", scriptFiles + "readwrite_release.lua", "local left, longest, before, dead =", "redis.call('HDEL', key, ARGV[1])\nlocal left, longest, before, dead =", movingScript},
	{"moving slot", "several_acquire: a reader whose key is elsewhere is dead", scriptFiles + "several_acquire.lua", " or redis.call('EXISTS', key, own) == 2", "", movingScript},
	{"moving slot", "several_release: a reader whose key is elsewhere is dead", scriptFiles + "several_release.lua", "    redis.call('EXISTS', key, own) -- see readwrite_acquire.lua\n", "", movingScript},
}
