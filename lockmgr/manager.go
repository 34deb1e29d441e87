package lockmgr

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/actor"
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// A Manager takes, keeps and gives back locks for any number of goroutines. A goroutine of the
// Manager owns all lock state; every method is safe for concurrent use. Make a Manager per process
// and server, with [Dial] or [New], and end the Manager with [Manager.Close].
type Manager struct {
	shell
	loop *loop

	closing     sync.Once
	givenUp     uint64        // releases given up before closing
	gone        chan struct{} // everything has ended
	closeClient func()        // nil for a borrowed client
}

func newManager(o Options, lane wire.Config, cluster *wire.Cluster, newHub func(log *slog.Logger, onState func(notify.State), master string, sharded bool) *notify.Hub, closeClient func()) *Manager {
	m := &Manager{
		shell:       shell{id: newIdentity(), options: o, clock: newClock(o.readClocks), callbacks: newCallbacks(), closed: make(chan struct{})},
		gone:        make(chan struct{}),
		closeClient: closeClient,
	}
	if o.Observer != nil {
		m.events = newDispatcher(o.Observer, func(n uint64) Event { return EventDropped{time.Now(), n} })
	}
	m.log = slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		m.lines = newLineDispatcher(o.Logger.Handler())
		m.log = slog.New(queuedHandler{m.lines, o.Logger.Handler()})
	}
	m.manyServers = cluster != nil
	m.clustered = m.manyServers && !cluster.OneSlot
	m.loop = newLoop(&m.shell)
	m.actor = actor.Start[message](m.loop)
	lane.Manager, lane.Timeout, lane.Now, lane.Error = m.id.uuid, o.CommandTimeout, m.now, serverError
	lane.Replicas = wire.Replicas(o.Replicas)
	// Answers overtake the requests of callers: a burst of requests must not delay the confirmation
	// of a lease.
	lane.Post = func(r *core.Replies) { m.actor.PostUrgent(r) }
	if m.events != nil {
		lane.Observe = m.observeCommand
	}
	if cluster != nil {
		cluster.Moved = func() { m.actor.Post(&layoutMoved{}) }
		cluster.Left = func() { m.actor.Post(&masterLeft{}) }
		cluster.Queued = func(q core.Queued) { m.actor.PostUrgent(q) }
		// The next master with the same number must not have the old master's health.
		cluster.Gone = func(shard uint8) { m.actor.PostUrgent(core.ShardGone{Shard: shard}) }
	}
	m.lanes = wire.NewLanes(lane, cluster)
	m.hubs = newHubs(m.lanes, func(master string, sharded bool) *notify.Hub {
		log := m.log
		if master != "" {
			log = log.With("address", clean.Text(master, clean.Most))
		}
		return newHub(log, func(s notify.State) { m.actor.Post(&subscriptionState{time.Now(), s, master}) }, master, sharded)
	})
	return m
}

// ID returns the manager's UUID, with which the manager's holder IDs begin: see [Lock.HolderID].
func (m *Manager) ID() string { return m.id.uuid }

// NewOwner returns a new owner. NewOwner never blocks.
func (m *Manager) NewOwner() Owner { return Owner{m.id, m.lastID.Add(1)} }

// LockAsync asks for a lock and returns at once. The future settles with the lock or with an error.
// Bad arguments, ErrOverloaded and ErrClosed are reported at once. A wait may end with
// ErrWaitTimeout, ErrDeadlock, ErrKind, ErrNotFenced, ErrClosed, or an error of the server:
// ErrUnavailable, ErrPermission, ErrWrongType, ErrOutOfMemory, ErrReadOnly, ErrReplicas,
// ErrTopology or ErrServer. Cancelling the future withdraws the request; a grant racing the cancel
// goes to the next waiter or back to Redis.
//
// A future needs no goroutine. The caller must unlock the lock or cancel the future in the end.
//
// Callbacks (OnDone) run one after another on a goroutine of the manager: see Callbacks in the
// package's documentation.
func (m *Manager) LockAsync(name string, opts ...LockOption) *futures.Future[*Lock] {
	return m.request(m.wish(toLock, name, opts))
}

// Lock waits until the lock is granted. When ctx ends first, the request is cancelled and the error
// matches ctx.Err(). See [Manager.LockAsync] for the other errors.
func (m *Manager) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return m.lock(ctx, m.wish(toLock, name, opts))
}

// TryLock tries once, without waiting for others, and returns ErrNotAcquired if the lock is held or
// waited for. A process that listens for the lock's messages counts as a waiter, so a try to read
// may fail beside readers of the same manager.
func (m *Manager) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return m.lock(ctx, m.wish(toTryLock, name, opts))
}

// wish returns the wish of a call for a single lock.
func (m *Manager) wish(call callKinds, name string, opts []LockOption) wish {
	name = m.prefixed(name)
	return wishFor(call, name, checkName(name), opts)
}

// lock makes a request and waits for the result. m is nil for the zero Permits.
func (m *Manager) lock(ctx context.Context, w wish) (*Lock, error) {
	w.ctx = ctx
	err := w.useOwner(ctx)
	if ctx.Err() != nil {
		err = contextError(ctx)
	}
	if err != nil {
		return nil, m.refuse(w, err)
	}
	return m.request(w).Await(ctx)
}

// request makes a request, or returns a failed future if the request is refused at once. m is nil
// for the zero Permits.
func (m *Manager) request(w wish) *futures.Future[*Lock] {
	f, err := m.ask(w)
	if err != nil {
		return futures.Ready[*Lock](nil, m.refuse(w, err))
	}
	return f
}

// refuse reports a refused request to the observer, and returns the error of the request.
func (m *Manager) refuse(w wish, err error) error {
	failed := &LockError{Op: opLock, Name: w.name, Err: err, set: w.kind == core.Several}
	if m != nil && m.observed() {
		for _, o := range w.opts {
			if o.kind == optTraceContext {
				w.ctx = o.ctx
			}
		}
		m.observe(EventFailed{At: time.Now(), Context: w.ctx, Name: w.name, Err: failed})
	}
	return failed
}

// ask makes a request for a name, for a set if w has items, or for permits if w has some.
func (m *Manager) ask(w wish) (*futures.Future[*Lock], error) {
	if w.fault != nil {
		return nil, w.fault
	}
	if err := w.apply(m.id); err != nil {
		return nil, err
	}
	if w.waitCtx != nil && w.waitCtx.Err() != nil {
		return nil, contextError(w.waitCtx)
	}
	if m.pending.Add(1) > int64(m.options.MaxWaiters) {
		m.pending.Add(-1)
		return nil, fmt.Errorf("%w: MaxWaiters is %d", ErrOverloaded, m.options.MaxWaiters)
	}
	l := &Lock{ticket: ticket{shell: &m.shell}}
	t := &l.ticket
	t.promise.Bind(t)
	now := m.now()
	t.request = core.Request{
		Name: w.name, Kind: w.kind, Side: w.side, ID: m.lastID.Add(1), Fenced: w.fenced, Lease: w.lease,
		Once: w.wait == 0, Asked: now, Ends: core.Forever, Terms: m.termsOf(&w), Tag: l,
	}
	if w.owner.of != nil {
		t.request.As(w.owner.n)
	}
	if w.wait > 0 && w.wait < core.Forever-now {
		t.request.Ends = now + w.wait
	}
	var ev core.Event = core.Lock{Request: &t.request}
	if w.items != nil {
		t.own.makeMore().set = &setPart{items: w.items}
		ev = core.LockSet{Request: &t.request, Items: w.items}
	}
	if w.permits > 0 {
		ev = core.LockPermits{Request: &t.request, Permits: w.permits, Limit: w.limit}
	}
	if w.waitCtx != nil {
		// A context that ends now must not cancel the request before the request is posted.
		defer t.endWith(w.waitCtx).Unlock()
	}
	if !m.actor.Post(ev) {
		t.ended()
		return nil, ErrClosed
	}
	return t.promise.Future(), nil
}

// termsOf returns the rare terms of a request, or nil if the wish has no rare terms and nobody
// observes the manager.
func (m *Manager) termsOf(w *wish) *core.Terms {
	trace := m.newTrace(w.ctx)
	rare := w.hold > 0 || w.keep > 0 || w.note != "" || w.takeOver != ""
	if !rare && trace == nil {
		return nil
	}
	terms := &core.Terms{MaxHold: w.hold, KeepFor: w.keep, Note: w.note, TakeOver: w.takeOver}
	if trace != nil {
		terms.Tag = trace
	}
	return terms
}

// abortTime is how long Close waits, after the end of its context, for the manager's goroutine to
// count the locks left to expire. A machine under load may need longer.
const abortTime = time.Second

// Stats is a snapshot of a manager.
type Stats struct {
	Locks         int // names that are held, waited for or remembered; a set counts as one
	Held          int // holds; a read-write lock and permits may have several for a name
	Watched       int // records that the watchdog renews; readers of a name share a record
	Waiting       int // requests in line
	Pending       int // requests that have not ended, in line or on their way there
	Subscriptions int // channels that are watched

	// All fields below count since the start.

	Grants    uint64 // re-entries included, and grants to a request that was cancelled meanwhile
	Passes    uint64 // of these, the ones in memory, from one owner of this manager to the next
	Reentries uint64 // grants to an owner that held the lock already
	Losses    uint64 // holds that were lost, also if only Unlock found the loss: see EventLost

	Scripts        uint64 // RenewalScripts, and other operations, of which up to 64 share a command
	RenewalScripts uint64 // commands that renew leases
	Renewals       uint64 // leases that these commands have renewed
	Wakes          uint64 // wake-ups from the subscription
	Polls          uint64 // tries after a pause, without a wake-up
	StoodBack      uint64 // runs after which others went first
	FailedScripts  uint64 // scripts that failed or got no answer, and grants that came too late
	Unreleased     uint64 // releases given up: their records have expired, or will

	// DroppedEvents and DroppedLogs count the events and log lines dropped because the observer or
	// the log handler was too slow.
	DroppedEvents, DroppedLogs uint64
}

// Stats returns a snapshot as of the last message that the manager handled. Stats never blocks for
// long and does no I/O.
func (m *Manager) Stats() Stats {
	// The core counts an operation for each lease that is renewed, the lanes count commands.
	s, renewals := m.loop.snapshot(), m.lanes.RenewalScripts()
	stats := Stats{
		Locks: s.Names, Held: s.Held, Watched: s.Watched, Waiting: s.Waiting,
		Pending: int(m.pending.Load()), Subscriptions: s.Subscriptions,
		Grants: s.Grants, Passes: s.Passes, Reentries: s.Reentries, Losses: s.Losses,
		Scripts: s.Scripts - s.Renewals + renewals, RenewalScripts: renewals, Renewals: s.Renewed,
		Wakes: s.Wakes, Polls: s.Polls, StoodBack: s.StoodBack, FailedScripts: s.Fails,
		Unreleased: s.Unreleased,
	}
	if m.events != nil {
		stats.DroppedEvents = m.events.drops()
	}
	if m.lines != nil {
		stats.DroppedLogs = m.lines.drops()
	}
	return stats
}

// Close ends the manager: waiting requests fail with ErrClosed, and held locks are lost with
// ErrClosed and released together. Close blocks until the releases are answered, the server has
// failed for Options.RetryTime, or ctx ends. If the server had failed for Options.RetryTime
// already, Close waits for Options.RetryTime or Options.CommandTimeout, whichever is less. Close
// leaves locks without a confirmed release to expire, and the error says so. Afterwards nothing of
// the manager survives, but for two goroutines of the client library: in a cluster, one may sleep
// for up to 5 s after Dial or after a change of the nodes; and if ctx ended first, a dial may end
// within its time-out. Closing again waits for the same end.
//
// Close also waits for Options.Observer and the log handler to get the queued events and lines, and
// for the callbacks of futures to return, for at most 2 s and no longer than ctx allows. Events and
// log lines left in the queues are dropped. Callbacks left in the queue still run. A call of Close
// from a callback or an observer waits for its own caller, that is, for 2 s or until ctx ends.
func (m *Manager) Close(ctx context.Context) error {
	m.closing.Do(func() {
		m.givenUp = m.Stats().Unreleased
		m.actor.Post(core.Close{})
		go m.shutDown()
	})
	cause := waitFor(ctx, m.gone)
	if cause == nil {
		cause = cmp.Or(m.unreleased.Err, error(ErrUnavailable))
	} else {
		m.actor.Post(core.Abort{})
		grace := time.NewTimer(abortTime)
		defer grace.Stop()
		select {
		case <-m.closed:
		case <-grace.C:
			return fmt.Errorf("lockmgr: close: the manager is held up by load, and locks may be left to expire: %w", cause)
		}
	}
	if n := m.Stats().Unreleased - m.givenUp; n > 0 {
		name := shownName(m.unreleased.Name, m.unreleased.Set)
		return fmt.Errorf("lockmgr: close: releases not confirmed: %d, the locks will expire, the last of them is %s: %w", n, name, cause)
	}
	return nil
}

// waitFor waits until done is closed or ctx ends, and returns ctx.Err() only if done is not closed.
func waitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	default:
		return ctx.Err()
	}
}

// shutDown ends the manager's parts once the core has nothing left.
func (m *Manager) shutDown() {
	<-m.closed
	select { // the server may be silent
	case <-m.withdrawn:
	case <-time.After(withdrawTime):
	}
	m.hubs.stop()
	m.lanes.Close()
	if m.closeClient != nil {
		m.closeClient() // before the waits: no silent server delays the end of the connections
	}
	m.lanes.Wait()
	m.hubs.wait()
	m.actor.Stop()
	<-m.actor.Done()
	m.deliverAll()
	close(m.gone)
}

// deliverAll waits until the observer and the log handler have got everything and all callbacks
// have returned, or deliverTime is over. deliverAll drops the remaining events and log lines.
func (m *Manager) deliverAll() {
	ctx, cancel := context.WithTimeout(context.Background(), deliverTime)
	defer cancel()
	if m.events != nil {
		m.events.finish(ctx)
	}
	if m.lines != nil {
		m.lines.finish(ctx)
	}
	m.callbacks.wait(ctx)
}
