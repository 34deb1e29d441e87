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
	machine := core.New(core.Config{
		Lease: o.Lease, Margin: o.Margin, RetryTime: o.RetryTime,
		SuspectTime: suspectFactor * o.CommandTimeout,
		GatherAfter: gatherAfter, GatherTime: gatherTime(o), ForgetPermits: o.ForgetPermits,
		PassCount: o.PassCount, PassTime: o.PassTime, BackTime: backTime,
		ShareEvery: shareEvery, BlindPause: blindPause, FarPause: farPause,
		RecordEvery: recordEvery, TrustSubscribers: s.countsAll(),
		Linger: o.Linger, PlaceTime: placeTime, PollMax: min(o.Lease, pollMax), PollBlind: pollBlind, PollSoon: pollSoon,
		MaxLocks: o.MaxLocks, Sharded: s.sharded,
		GrantLease: grantLease, GrantSecret: s.grantSecret(),
		Notices: o.Observer != nil || o.Logger != nil && o.Logger.Enabled(context.Background(), slog.LevelError), Seed: seedOf(s.id),
	})
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
func (p *loop) Handle(batch []message) time.Duration {
	if p.options.onBatch != nil {
		p.options.onBatch()
	}
	now := p.now()
	p.step(now, batch)
	p.carryOut(now)
	next := p.core.Next()
	if next == core.Forever {
		return -1
	}
	return max(0, min(next-p.now(), p.longestSleep()))
}

// lookEvery is the longest time that the loop sleeps while a lock is held, on hosts whose timers
// stand still during a suspension. lookEvery bounds how long after the suspension a loss is
// reported.
const lookEvery = time.Second

// longestSleep returns the longest time that the loop may sleep.
func (p *loop) longestSleep() time.Duration {
	if p.clock.countsSuspensions() && p.core.Stats().Held > 0 {
		return lookEvery
	}
	return core.Forever
}

// step gives messages to the core.
func (p *loop) step(now time.Duration, batch []message) {
	for _, ev := range batch {
		switch ev := ev.(type) {
		case *wakeup:
			if p.watches[keyOf(ev)].Watch == ev.watch { // else the subscription has ended
				p.effects = p.core.Step(now, ev.event, p.effects)
				p.listen(keyOf(ev), ev.watch, ev.seq)
			}
		case *layoutMoved:
			p.followSlots(now)
		case *masterLeft:
			p.hubs.closeLeft()
		case *survey:
			ev.answer(p.core)
		case announceNow:
			p.announcer.write()
		case announced:
			p.announcer.answered(ev)
		case bookDue:
			p.book.handleDue()
		case *subscriptionState:
			if p.observed() {
				p.observe(EventSubscription{ev.at, ev.state.String(), ev.master})
			}
		case *core.Replies:
			p.book.answers(ev)
			p.effects = p.core.Step(now, ev, p.effects)
			wire.Recycle(ev)
		case core.Event:
			p.effects = p.core.Step(now, ev, p.effects)
		default:
			panic(fmt.Sprintf("lockmgr: unknown message %T", ev))
		}
	}
}

// carryOut runs a tick that is due, carries out all effects and submits the operations.
func (p *loop) carryOut(now time.Duration) {
	p.instant = now
	if p.core.Next() <= now {
		p.effects = p.core.Step(now, core.Tick{}, p.effects)
	}
	// Publish stats before resolving futures, so that a caller sees its own grant in Stats.
	p.mu.Lock()
	p.stats = p.core.Stats()
	p.mu.Unlock()
	for _, e := range p.effects {
		p.perform(e)
	}
	p.effects = reuse(p.effects)
	p.lanes.Submit(p.ops, now)
	if p.sharded && len(p.ops) > 0 {
		p.sent.Ops = p.ops
		p.effects = p.core.Step(now, &p.sent, p.effects) // Sent has no effects
	}
	p.ops = reuse(p.ops)
}

// reuse empties a slice, and drops the memory of a burst.
func reuse[T any](s []T) []T {
	if cap(s) > 1<<14 {
		return nil
	}
	clear(s)
	return s[:0]
}

func (p *loop) snapshot() core.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// perform carries out an effect. perform never blocks.
func (p *loop) perform(e core.Effect) {
	switch e := e.(type) {
	case core.Run:
		if e.Op.Reserve > 0 {
			e.Op.Words = p.announcer.kept(e.Op.Reserver)
		}
		p.ops = append(p.ops, e.Op)
	case core.Tokens:
		ticketOf(e.Request).first.more.Load().set.tokens = e.Tokens // nobody reads it before Granted
	case core.Granted:
		p.granted(e.Request)
	case core.Failed:
		p.failed(e.Request, e.Err)
	case core.Extended:
		holdOf(e.Hold).until.Store(int64(e.Hold.Until))
	case core.Lost:
		p.lost(e.Hold, e.Err)
	case core.Prolonged:
		e.Prolongation.Tag.(*futures.Promise[struct{}]).Resolve(struct{}{}, e.Err)
	case core.Unlocked:
		p.unlocked(e.Request, e.Err)
	case core.Subscribe:
		if e.Items == nil {
			p.watch(watchKey{name: e.Name, place: e.Place}, p.channelOf(e, e.Kind, e.Name))
		}
		for i, it := range e.Items {
			p.watch(watchKey{name: e.Name, item: i + 1, place: e.Place}, p.channelOf(e, it.Kind, it.Name))
		}
	case core.Unsubscribe:
		if e.Items == nil {
			p.unwatch(watchKey{name: e.Name, place: e.Place})
		}
		for i := range e.Items {
			p.unwatch(watchKey{name: e.Name, item: i + 1, place: e.Place})
		}
	case *core.Notice:
		p.notice(e)
	case core.Closed:
		p.unreleased = e.Unreleased
		p.announcer.withdraw()
		p.book.close(time.Now())
		close(p.closed)
	}
}

// channelOf returns the channel of e for a single name, or for a name of a set.
func (p *loop) channelOf(e core.Subscribe, kind core.Kind, name string) string {
	switch {
	case kind == core.Fair && e.Place != 0: // of a request
		return wire.PlaceChannel(p.id.uuid, name, e.Place)
	case e.Set != 0:
		return wire.OwnChannel(kind, wire.HolderID(p.id.uuid, e.Set), name)
	case kind == core.Fair, e.Place == core.OwnPlace:
		return wire.OwnChannel(kind, p.id.uuid, name)
	case e.Place == core.LinePlace:
		return wire.LineChannel(kind, name)
	}
	return wire.ChannelOf(kind, name)
}

// watch begins to watch a channel.
func (p *loop) watch(key watchKey, channel string) {
	w := p.hubs.watch(channel, p.onSharded())
	p.watches[key] = w
	p.listen(key, w.Watch, 0)
}

// followSlots watches, at their new masters, the channels whose slots have moved. Until the new
// subscription is confirmed, messages are missed.
func (p *loop) followSlots(now time.Duration) {
	for key, w := range p.watches {
		if !p.hubs.moved(w) {
			continue
		}
		channel := w.Channel()
		p.unwatch(key)
		p.watch(key, channel)
		p.effects = p.core.Step(now, core.Wake{Name: key.name, Item: key.item, Place: key.place}, p.effects)
	}
}

func (p *loop) unwatch(key watchKey) {
	p.watches[key].Close()
	delete(p.watches, key)
}

// listen asks for the next event of a watch, with a number above seq.
func (p *loop) listen(key watchKey, w *notify.Watch, seq uint64) {
	w.Next(seq).OnDone(func(wake notify.Wake, err error) {
		if err != nil {
			return // closed
		}
		p.actor.Post(&wakeup{
			event: core.Wake{
				Name: key.name, Item: key.item, Place: key.place, Subscribed: wake.Subscribed,
				Grant:     p.grantOf(key.name, wake),
				Confirmed: wake.Reason.Has(notify.ReasonConfirmed), Message: wake.Reason.Has(notify.ReasonMessage), More: wake.More,
				Ours: !wake.More && wire.Ours(wake.Payload), Served: !wake.More && wire.Served(wake.Payload),
			},
			watch: w, seq: wake.Seq,
		})
	})
}

// grantOf returns the grant of a lock by the message of a wake-up, or zero.
func (p *loop) grantOf(name string, wake notify.Wake) core.Grant {
	g, _ := wire.ReadGrant(p.id.secret, name, wake.Payload)
	return g
}

func (p *loop) granted(r *core.Request) {
	l, t := lockOf(r), ticketOf(r)
	trace := t.trace()
	t.hold().until.Store(int64(r.Hold.Until))
	t.granted = uint32(p.instant/grantStep) + 1
	p.announcer.granted(noteOf(r) != "")
	t.ended()
	if trace != nil {
		trace.granted = time.Now()
	}
	if !t.promise.Resolve(l, nil) {
		// The caller left while the grant was on its way.
		p.actor.Post(core.Untaken{Request: r})
		p.observeFailure(r, t.left())
		return
	}
	if trace != nil {
		p.observe(trace.grantEvent(p.id, r, l.Token()))
	}
}

func (p *loop) failed(r *core.Request, err error) {
	t := ticketOf(r)
	t.ended()
	err = t.waitError(p.now(), p.id.public(err))
	if !t.promise.Resolve(nil, err) {
		err = t.left()
	}
	p.observeFailure(r, err)
}

func (p *loop) lost(h *core.Hold, err error) {
	holdOf(h).end(err)
	p.announcer.unlocked()
	p.observeLoss(h, err)
	if err != core.ErrClosed {
		p.book.lost(time.Now(), logName(h.Request.Name, h.Request.Kind == core.Several), p.id.holder(h), err)
	}
}

func (p *loop) unlocked(r *core.Request, err error) {
	p.announcer.unlocked()
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
	p.observeUnlock(r, err)
}

// notice passes a notice of the core to the observer and the log.
func (p *loop) notice(n *core.Notice) {
	now := time.Now()
	switch n.What {
	case core.Refused:
		p.observe(EventRefused{now, n.Name, n.TTL})
	case core.Released:
		p.observe(EventReleased{now, n.Name, n.Err})
		if n.Err != nil {
			p.book.failed(now, 1, 0, n.Err, "name", logName(n.Name, n.Set))
		}
	case core.StoodBack:
		p.observe(EventStoodBack{now, n.Name, n.N})
	case core.LeasesRenewed:
		p.observe(EventRenewed{now, n.N})
	case core.RenewError:
		p.observe(EventRenewalFailed{now, n.N, n.Err})
		p.book.failed(now, 0, n.N, n.Err, "leases", n.N)
	case core.CommandError:
		p.observe(EventCommandFailed{now, n.Name, n.N, n.Err})
		p.book.failed(now, 1, 0, n.Err, "name", logName(n.Name, n.Set))
	case core.Unreleased:
		p.observe(EventReleaseGivenUp{now, n.Name, n.Err})
		p.book.givenUp(now, logName(n.Name, n.Set), n.Err)
	case core.Outside:
		p.book.outside(logName(n.Name, n.Set))
	}
}

func (p *loop) observeFailure(r *core.Request, err error) {
	if t := ticketOf(r).trace(); t != nil {
		p.observe(t.failEvent(p.id, r, err))
	}
}

func (p *loop) observeUnlock(r *core.Request, err error) {
	if t := ticketOf(r).trace(); t != nil {
		p.observe(t.unlockEvent(p.id, r, err))
	}
}

func (p *loop) observeLoss(h *core.Hold, err error) {
	if t := ticketOf(h.Request).trace(); t != nil {
		p.observe(t.lossEvent(p.id, h, err))
	}
}
