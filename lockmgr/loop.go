package lockmgr

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// loop is the manager's goroutine. loop moves messages between the core and everything else, and
// decides nothing.
type loop struct {
	*shell
	core    *core.Machine
	watches map[watchKey]listening
	effects []core.Effect // reused
	ops     []*core.Op    // reused
	sent    core.Sent     // reused
	instant time.Duration // of the batch that is carried out

	announcer announcer
	book      logbook

	mu    sync.Mutex
	stats core.Stats
}

// A watchKey is a name whose channel is watched, or an item of a set, by the key of the set and the
// position of the item.
type watchKey struct {
	name  string
	item  int
	place uint64 // see core.Subscribe
}

func keyOf(ev *wakeup) watchKey {
	return watchKey{ev.event.Name, ev.event.Item, ev.event.Place}
}

func newLoop(s *shell) *loop {
	o := s.options
	var bookIsDue func() // nil if nobody reads the lines
	if s.lines != nil {
		bookIsDue = func() { s.actor.Post(bookDue{}) }
	}
	cfg := core.Defaults()
	cfg.Lease, cfg.Margin, cfg.Linger, cfg.PollMax = o.Lease, o.Margin, o.Linger, min(o.Lease, cfg.PollMax)
	cfg.RetryTime, cfg.SuspectTime = o.RetryTime, suspectFactor*o.CommandTimeout
	cfg.PassCount, cfg.PassTime, cfg.MaxLocks = o.PassCount, o.PassTime, o.MaxLocks
	cfg.GatherTime, cfg.ForgetPermits = gatherTime(o), o.ForgetPermits
	cfg.TrustSubscribers, cfg.Sharded, cfg.GrantSecret = s.countsAll(), s.manyServers, s.grantSecret()
	cfg.Notices = o.Observer != nil || o.Logger != nil && o.Logger.Enabled(context.Background(), slog.LevelError)
	cfg.Seed = seedOf(s.id)
	machine := core.New(cfg)
	return &loop{
		shell:     s,
		core:      machine,
		watches:   make(map[watchKey]listening),
		announcer: announcer{shell: s, core: machine, off: o.Anonymous},
		book:      newLogbook(s.log, bookIsDue),
	}
}

// gatherTime is core.Config.GatherTime. A late command may keep permits for as long.
func gatherTime(o Options) time.Duration { return min(min(o.PassTime, time.Second)*5/2, o.Lease) }

// seedOf makes managers jitter differently.
func seedOf(id *identity) uint64 {
	var seed uint64
	for _, b := range []byte(id.uuid) {
		seed = seed*31 + uint64(b)
	}
	return seed
}

// Handle makes the loop an actor's handler.
func (l *loop) Handle(batch []message) time.Duration {
	if l.options.onBatch != nil {
		l.options.onBatch()
	}
	now := l.now()
	l.step(now, batch)
	l.carryOut(now)
	next := l.core.Next()
	if next == core.Forever {
		return -1
	}
	return max(0, min(next-l.now(), l.longestSleep()))
}

// lookEvery is the longest time that the loop sleeps while a lock is held, on hosts whose clock
// shows suspensions. Timers stand still during a suspension, so lookEvery bounds how long after the
// suspension a loss is reported.
const lookEvery = time.Second

// longestSleep returns the longest time that the loop may sleep.
func (l *loop) longestSleep() time.Duration {
	if l.clock.countsSuspensions() && l.core.Stats().Held > 0 {
		return lookEvery
	}
	return core.Forever
}

// step gives messages to the core.
func (l *loop) step(now time.Duration, batch []message) {
	for _, ev := range batch {
		switch ev := ev.(type) {
		case *wakeup:
			if l.watches[keyOf(ev)].Watch == ev.watch { // else the subscription has ended
				l.effects = l.core.Step(now, ev.event, l.effects)
				l.listen(keyOf(ev), ev.watch, ev.seq)
			}
		case *layoutMoved:
			l.followSlots(now)
		case *masterLeft:
			l.hubs.closeLeft()
		case *survey:
			ev.answer(l.core)
		case announceNow:
			l.announcer.write()
		case announced:
			l.announcer.answered(ev)
		case bookDue:
			l.book.handleDue()
		case *subscriptionState:
			if l.observed() {
				l.observe(EventSubscription{ev.at, ev.state.String(), ev.master})
			}
		case *core.Replies:
			l.book.answers(ev)
			l.effects = l.core.Step(now, ev, l.effects)
			wire.Recycle(ev)
		case core.Event:
			l.effects = l.core.Step(now, ev, l.effects)
		default:
			panic(fmt.Sprintf("lockmgr: unknown message %T", ev))
		}
	}
}

// carryOut runs a tick that is due, carries out all effects and submits the operations.
func (l *loop) carryOut(now time.Duration) {
	l.instant = now
	if l.core.Next() <= now {
		l.effects = l.core.Step(now, core.Tick{}, l.effects)
	}
	// Publish stats before resolving futures, so that a caller sees its own grant in Stats.
	l.mu.Lock()
	l.stats = l.core.Stats()
	l.mu.Unlock()
	for _, e := range l.effects {
		l.perform(e)
	}
	l.effects = reuse(l.effects)
	l.lanes.Submit(l.ops, now)
	if l.manyServers && len(l.ops) > 0 {
		l.sent.Ops = l.ops
		l.effects = l.core.Step(now, &l.sent, l.effects) // Sent has no effects
	}
	l.ops = reuse(l.ops)
}

// reuse empties a slice, and drops the memory of a burst.
func reuse[T any](s []T) []T {
	if cap(s) > 1<<14 {
		return nil
	}
	clear(s)
	return s[:0]
}

func (l *loop) snapshot() core.Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// perform carries out an effect. perform never blocks.
func (l *loop) perform(e core.Effect) {
	switch e := e.(type) {
	case core.Run:
		if e.Op.Reserve > 0 {
			e.Op.Words = l.announcer.kept(e.Op.Reserver)
		}
		l.ops = append(l.ops, e.Op)
	case core.Tokens:
		ticketOf(e.Request).own.more.Load().set.tokens = e.Tokens // nobody reads it before Granted
	case core.Granted:
		l.granted(e.Request)
	case core.Failed:
		l.failed(e.Request, e.Err)
	case core.Extended:
		holdOf(e.Hold).until.Store(int64(e.Hold.Until))
	case core.Lost:
		l.lost(e.Hold, e.Err)
	case core.Prolonged:
		e.Prolongation.Tag.(*futures.Promise[struct{}]).Resolve(struct{}{}, e.Err)
	case core.Unlocked:
		l.unlocked(e.Request, e.Err)
	case core.Subscribe:
		if e.Items == nil {
			l.watch(watchKey{name: e.Name, place: e.Place}, l.channelOf(e, e.Kind, e.Name))
		}
		for i, it := range e.Items {
			l.watch(watchKey{name: e.Name, item: i + 1, place: e.Place}, l.channelOf(e, it.Kind, it.Name))
		}
	case core.Unsubscribe:
		if e.Items == nil {
			l.unwatch(watchKey{name: e.Name, place: e.Place})
		}
		for i := range e.Items {
			l.unwatch(watchKey{name: e.Name, item: i + 1, place: e.Place})
		}
	case *core.Notice:
		l.notice(e)
	case core.Closed:
		l.unreleased = e.Unreleased
		l.announcer.withdraw()
		l.book.close(time.Now())
		close(l.closed)
	}
}

// channelOf returns the channel of e for a single name, or for a name of a set.
func (l *loop) channelOf(e core.Subscribe, kind core.Kind, name string) string {
	switch {
	case kind == core.Fair && e.Place != 0: // of a request
		return wire.PlaceChannel(l.id.uuid, name, e.Place)
	case e.Set != 0:
		return wire.OwnChannel(kind, wire.HolderID(l.id.uuid, e.Set), name)
	case kind == core.Fair, e.Place == core.OwnPlace:
		return wire.OwnChannel(kind, l.id.uuid, name)
	case e.Place == core.LinePlace:
		return wire.LineChannel(kind, name)
	}
	return wire.ChannelOf(kind, name)
}

// watch begins to watch a channel.
func (l *loop) watch(key watchKey, channel string) {
	w := l.hubs.watch(channel, l.onSharded())
	l.watches[key] = w
	l.listen(key, w.Watch, 0)
}

// followSlots watches, at their new masters, the channels whose slots have moved. Until the new
// subscription is confirmed, messages are missed.
func (l *loop) followSlots(now time.Duration) {
	for key, w := range l.watches {
		if !l.hubs.moved(w) {
			continue
		}
		channel := w.Channel()
		l.unwatch(key)
		l.watch(key, channel)
		l.effects = l.core.Step(now, core.Wake{Name: key.name, Item: key.item, Place: key.place}, l.effects)
	}
}

func (l *loop) unwatch(key watchKey) {
	l.watches[key].Close()
	delete(l.watches, key)
}

// listen asks for the next event of a watch, with a number above seq.
func (l *loop) listen(key watchKey, w *notify.Watch, seq uint64) {
	w.Next(seq).OnDone(func(wake notify.Wake, err error) {
		if err != nil {
			return // closed
		}
		l.actor.Post(&wakeup{
			event: core.Wake{
				Name: key.name, Item: key.item, Place: key.place, Subscribed: wake.Subscribed,
				Grant:     wire.ReadGrant(l.id.secret, key.name, wake.Payload),
				Confirmed: wake.Reason.Has(notify.ReasonConfirmed), Message: wake.Reason.Has(notify.ReasonMessage), More: wake.More,
				Ours: !wake.More && wire.Ours(wake.Payload), Served: !wake.More && wire.Served(wake.Payload),
			},
			watch: w, seq: wake.Seq,
		})
	})
}

func (l *loop) granted(r *core.Request) {
	t := ticketOf(r)
	trace := t.trace()
	t.hold().until.Store(int64(r.Hold.Until))
	t.granted = uint32(l.instant/grantStep) + 1
	l.announcer.granted(noteOf(r) != "")
	t.ended()
	if trace != nil {
		trace.granted = time.Now()
	}
	if !t.promise.Resolve(lockOf(r), nil) {
		// The caller left while the grant was on its way.
		l.actor.Post(core.Untaken{Request: r})
		l.observeFailure(r, t.leftErr())
		return
	}
	if trace != nil {
		l.observe(EventGranted{
			At: trace.granted, Context: trace.ctx, Name: r.Name, Owner: l.id.holder(r.Hold), Token: lockOf(r).Token(),
			Passed: r.Passed, Reentry: r != r.Hold.Request, Waited: trace.granted.Sub(trace.asked),
		})
	}
}

func (l *loop) failed(r *core.Request, err error) {
	t := ticketOf(r)
	t.ended()
	err = t.waitError(l.now(), l.id.public(err))
	if !t.promise.Resolve(nil, err) {
		err = t.leftErr()
	}
	l.observeFailure(r, err)
}

func (l *loop) lost(h *core.Hold, err error) {
	holdOf(h).end(err, ticketOf(h.Request).failed(opHold, 0, err))
	l.announcer.unlocked()
	l.observeLoss(h, err)
	if err != core.ErrClosed {
		l.book.lost(time.Now(), logName(h.Request.Name, h.Request.Kind == core.Several), l.id.holder(h), err)
	}
}

func (l *loop) unlocked(r *core.Request, err error) {
	l.announcer.unlocked()
	t := ticketOf(r)
	u := t.unlock.Load()
	if u == nil {
		return // the caller left before the grant; granted has reported that
	}
	if err == core.ErrLeaseLost { // lost before the unlock: the hold has the reason
		err = cmp.Or(t.hold().lostErr(), err)
	}
	if err != nil {
		err = t.failed(opUnlock, 0, err)
	}
	u.Resolve(struct{}{}, err)
	l.observeUnlock(r, err)
}

// notice passes a notice of the core to the observer and the log.
func (l *loop) notice(n *core.Notice) {
	now := time.Now()
	switch n.What {
	case core.Refused:
		l.observe(EventRefused{now, n.Name, n.TTL})
	case core.Released:
		l.observe(EventReleased{now, n.Name, n.Err})
		if n.Err != nil {
			l.book.failed(now, 1, 0, n.Err, "name", logName(n.Name, n.Set))
		}
	case core.StoodBack:
		l.observe(EventStoodBack{now, n.Name, n.N})
	case core.LeasesRenewed:
		l.observe(EventRenewed{now, n.N})
	case core.RenewError:
		l.observe(EventRenewalFailed{now, n.N, n.Err})
		l.book.failed(now, 0, n.N, n.Err, "leases", n.N)
	case core.CommandError:
		l.observe(EventCommandFailed{now, n.Name, n.N, n.Err})
		l.book.failed(now, 1, 0, n.Err, "name", logName(n.Name, n.Set))
	case core.Unreleased:
		l.observe(EventReleaseGivenUp{now, n.Name, n.Err})
		l.book.givenUp(now, logName(n.Name, n.Set), n.Err)
	case core.Outside:
		l.book.outside(logName(n.Name, n.Set))
	}
}

// observeFailure reports that a request ends now without a lock.
func (l *loop) observeFailure(r *core.Request, err error) {
	if t := ticketOf(r).trace(); t != nil {
		now := time.Now()
		l.observe(EventFailed{
			At: now, Context: t.ctx, Name: r.Name, Owner: Owner{l.id, r.Owner()}.String(), Waited: now.Sub(t.asked), Err: err,
		})
	}
}

// observeUnlock reports an Unlock that is answered now.
func (l *loop) observeUnlock(r *core.Request, err error) {
	if t := ticketOf(r).trace(); t != nil {
		now := time.Now()
		l.observe(EventUnlocked{
			At: now, Context: t.ctx, Name: r.Name, Owner: l.id.holder(r.Hold),
			Held: t.unlocked.Sub(t.granted), Took: now.Sub(t.unlocked), Err: err,
		})
	}
}

// observeLoss reports a hold that is lost now.
func (l *loop) observeLoss(h *core.Hold, err error) {
	if t := ticketOf(h.Request).trace(); t != nil {
		now := time.Now()
		l.observe(EventLost{At: now, Context: t.ctx, Name: h.Request.Name, Owner: l.id.holder(h), Held: now.Sub(t.granted), Err: err})
	}
}
