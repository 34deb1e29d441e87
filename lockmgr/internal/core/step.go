package core

import (
	"fmt"
	"time"
)

// Step applies an event at the instant now and appends the effects to out. Time never goes back: an
// instant before the latest counts as the latest.
func (m *Machine) Step(now time.Duration, ev Event, out []Effect) []Effect {
	m.now = max(m.now, now)
	m.out = out
	switch ev := ev.(type) {
	case Lock:
		m.request(ev.Request, nil, 0)
	case LockSet:
		m.request(ev.Request, ev.Items, 0)
	case LockPermits:
		ev.Request.own.Permits = max(ev.Permits, 1)
		m.request(ev.Request, nil, ev.Limit)
	case Cancel:
		m.cancel(ev.Request)
	case Unlock:
		m.unlock(ev.Request, false)
	case Untaken:
		m.unlock(ev.Request, true)
	case *Sent:
		m.noteSent(ev.Ops)
	case Queued:
		m.noteQueued(ev)
	case *Replies:
		m.replies(ev.Replies)
		m.reportRenewals()
	case Wake:
		m.wake(ev)
	case Verify:
		m.verify(ev.Name)
	case *Prolongation:
		m.prolong(ev)
	case ShardGone:
		m.shardGone(ev.Shard)
	case Tick:
		m.tick()
	case Close:
		m.close()
	case Abort:
		m.abort(m.trouble())
	default:
		panic(fmt.Sprintf("lockmgr: unknown event %T", ev))
	}
	m.endStep()
	out, m.out = m.out, nil
	return out
}

// endStep does what is due once after each event.
func (m *Machine) endStep() {
	for i := 0; i < len(m.search); i++ { // breakDeadlock may append
		m.breakDeadlock(m.search[i])
	}
	clear(m.search)
	m.search = m.search[:0]
	if m.closing && !m.closed && len(m.names)+len(m.setNames) == 0 {
		m.closed = true
		m.emit(Closed{m.unreleased})
	}
	for _, n := range m.forgotten {
		*n = name{}
		if len(m.freeNames) < 256 {
			m.freeNames = append(m.freeNames, n)
		}
	}
	m.forgotten = m.forgotten[:0]
}

// Next returns the instant at which the machine needs a Tick, or Forever.
func (m *Machine) Next() time.Duration {
	at := min(m.alarms.next(), m.waitEnds.next(), m.nextCheck())
	if due, ok := m.renewals.Next(); ok {
		at = min(at, max(due, m.pace.next()))
	}
	return at
}

// tick runs everything that is due. Losses come before renewals, because an entry past its deadline
// must not be renewed.
func (m *Machine) tick() {
	for r := range m.waitEnds.due(m.now) {
		m.failQueued(r, r.entry.of.about(ErrWaitTimeout))
	}
	for i := range m.shards {
		m.checkWaitsOn(uint8(i))
	}
	for n := range m.alarms.due(m.now) {
		m.settle(n)
	}
	m.renewDueLocks()
}
