package sim

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Faults is a set of the kinds of things that go wrong.
type Faults uint64

// What can go wrong. The first group concerns a command, the second a message or a subscription,
// the third the server's data, the fourth a manager. The last group has one of each kind, which
// lasts for a while.
const (
	CommandLost   Faults = 1 << iota // it never reaches the server; the client times out
	ReplyLost                        // it runs, but the answer is lost
	LateRun                          // it runs any length of time after the client's time-out
	SlowCommand                      // it takes much longer than usual
	ReplyTwice                       // the answer comes again, later
	RefusedForNow                    // it does not run: loading, busy
	RefusedFinal                     // it does not run: no permission
	ScriptError                      // the script ends half-way: out of memory
	PublishError                     // a release can't publish its message
	CountRefused                     // the server does not count subscribers

	MessageLost
	MessageTwice
	MessageLate // and what comes after it on the connection
	Gap         // the connection is lost and comes back
	Garbage     // a message without a release
	SlowConfirm // the confirmation of a subscription takes long

	RestartKeep // the server restarts with its data
	RestartLose // the server restarts without its data
	Flush       // FLUSHALL
	Evict       // a lock's record is deleted without a message
	Persist     // a lock's record loses its TTL
	Force       // an administrator removes a lock and publishes a message
	Retype      // a lock's key gets a value of another type

	Pause // a manager's process stops, maybe for longer than a lease
	Slow  // a manager looks into its mailbox late
	Drift // clocks run at different speeds
	Crash // a manager's process dies, and another takes its place
	Shut  // a manager is closed, and another takes its place

	HoldBack     // a connection holds commands back; they run after the client gave it up
	Silence      // the server stops, and later goes on or dies
	WrongCounter // a lock's token counter gets a value of a wrong type
	Forbid       // for a while a manager may not use a lock's key, or not release it

	// In worlds with several shards:
	MoveSlot // a name moves to another shard
	Failover // a replica takes over that lacks the last writes

	allFaults // one more than the last
)

// ofOneServer is how many kinds of faults a world with one server has.
const ofOneServer = 32

// disasters are the faults that hit a server or a manager and not a single command or message.
const disasters = Gap | Garbage | RestartKeep | RestartLose | Flush | Evict | Persist | Force | Retype | Pause | Crash | Shut | Silence | WrongCounter | Forbid

// ofManagers are the disasters that hit a manager and no server.
const ofManagers = Pause | Crash | Shut

var faultNames = []string{
	"command-lost", "reply-lost", "late-run", "slow-command", "reply-twice", "refused-for-now", "refused-final", "script-error",
	"publish-error", "count-refused", "message-lost", "message-twice", "message-late", "gap", "garbage", "slow-confirm", "restart-keep", "restart-lose",
	"flush", "evict", "persist", "force", "retype", "pause", "slow", "drift", "crash", "shut", "hold-back", "silence", "wrong-counter",
	"forbid", "move-slot", "failover",
}

func (f Faults) String() string {
	var on []string
	for i, name := range faultNames {
		if f&(1<<i) != 0 {
			on = append(on, name)
		}
	}
	return strings.Join(on, ",")
}

// has reports whether what Coverage calls a fault is one of f.
func (f Faults) has(what string) bool {
	for i, name := range faultNames {
		if what == "fault "+name {
			return f&(1<<i) != 0
		}
	}
	return false
}

// ParseFaults is the inverse of Faults.String.
func ParseFaults(s string) (Faults, error) {
	var f Faults
next:
	for name := range strings.SplitSeq(s, ",") {
		if name == "" {
			continue
		}
		for i, known := range faultNames {
			if name == known {
				f |= 1 << i
				continue next
			}
		}
		return 0, fmt.Errorf("no such fault: %q", name)
	}
	return f, nil
}

// strikes reports whether a fault hits the present command or message, and counts it.
func (w *world) strikes(f Faults) bool {
	if w.ending || w.set.faults&f == 0 || !w.fate.Permille(w.set.often) {
		return false
	}
	w.struck(f)
	return true
}

func (w *world) struck(f Faults) {
	for i := range faultNames {
		if f&(1<<i) != 0 {
			w.cover.Faults[i]++
		}
	}
}

// disaster makes one of the disasters happen, and plans the next.
func (w *world) disaster() {
	if w.ending {
		return
	}
	w.after(w.fate.Between(w.set.quiet/4, w.set.quiet*2), w.disaster)
	possible := disasters & w.set.faults
	if !w.sharded() && w.silent(w.shards[0]) {
		possible &= ofManagers
	}
	if !w.sharded() && w.shards[0].down || possible == 0 {
		return
	}
	f := Faults(1) << w.fate.Below(ofOneServer)
	for f&possible == 0 {
		f = Faults(1) << w.fate.Below(ofOneServer)
	}
	w.readClock()
	n := w.nodes[w.fate.Below(len(w.nodes))]
	name := w.single[w.fate.Below(len(w.single))]
	if w.set.hangs {
		name = w.single[0] // on the shard that hangs
	}
	if s := name.shard; w.sharded() && (s.down || w.silent(s)) && f&ofManagers == 0 {
		return
	}
	w.struck(f)
	if w.tracing() {
		w.tracef("*", "FAULT %v (node %s, name %s)", f, n.label, name.key)
	}
	switch f {
	case Gap:
		n.pubsub.drop(name.shard, w.fate.Between(0, 20*w.set.latency))
	case Garbage:
		n.pubsub.deliver(n.pubsub.channels[name.index], 0, told{})
	case RestartKeep, RestartLose:
		w.restart(name.shard, f == RestartLose)
	case Flush:
		w.flush(name.shard)
	case Evict:
		w.lose(false, name)
		w.server.Do("DEL", name.key)
	case Persist:
		if w.server.Do("PERSIST", name.key) == int64(1) {
			w.persisted = true
		}
	case Force:
		if name.kind == core.Permits {
			w.takeAway(name, n)
			return
		}
		w.lose(false, name)
		w.forcing = true
		var seen []string
		fields, _ := w.server.Fields(name.key)
		for _, f := range fields {
			seen = append(seen, f.Name)
		}
		w.server.Run(wire.Force(name.kind, name.key, seen))
		if name.kind == core.Fair {
			w.noteQueue(name, "")
		}
		w.forcing = false
		w.watchRecord(name)
		if w.fate.Percent(50) {
			n.verify(name)
		}
	case Retype:
		w.lose(false, name)
		w.setList(name.key, w.fate.LogBetween(ms, w.set.core.Lease))
		if w.fate.Percent(50) {
			n.verify(name)
		}
	case WrongCounter:
		w.spoilCounter(name)
	case Forbid:
		n.forbid(name)
	case Silence:
		w.stop(name.shard)
	case Pause:
		n.pause(w.fate.LogBetween(w.set.latency, 2*w.set.core.Lease))
	case Crash:
		n.crash()
	case Shut:
		n.shut()
	}
}
