package lockmgr

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actor"
	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/notify"
)

// A Manager takes, keeps and gives back locks for any number of goroutines.
// One goroutine of its own owns all lock state; every method is safe for
// concurrent use. Make one per process and server, with [Dial] or [New], and
// end it with [Manager.Close].
type Manager struct {
	id      *identity
	options Options
	clock   *clock

	actor *actor.Actor[core.Event]
	loop  *loop
	exec  *executor
	hub   *notify.Hub

	lastID  atomic.Uint64 // owners and requests
	pending atomic.Int64  // requests that have not ended

	closing     sync.Once
	givenUp     uint64        // releases, before closing
	closed      chan struct{} // the core has nothing left
	gone        chan struct{} // everything has ended
	closeClient func()        // nil for a borrowed client
}

func newManager(id *identity, o Options, s server, newHub func(func(notify.State)) *notify.Hub, closeClient func()) *Manager {
	m := &Manager{
		id:          id,
		options:     o,
		clock:       newClock(o.readClocks),
		closed:      make(chan struct{}),
		gone:        make(chan struct{}),
		closeClient: closeClient,
	}
	m.loop = newLoop(m)
	m.actor = actor.Start[core.Event](m.loop)
	m.exec = newExecutor(id, s, o.CommandTimeout, m.now, m.loop.answer)
	m.hub = newHub(func(s notify.State) { m.actor.Post(&subscriptionState{state: s}) })
	return m
}

// now is the present instant.
func (m *Manager) now() time.Duration { return m.clock.now() }

// UUID is the first part of the names of this manager's owners.
func (m *Manager) UUID() string { return m.id.uuid }

// NewOwner returns an owner that no one else has. It never blocks.
func (m *Manager) NewOwner() Owner { return Owner{m.id, m.lastID.Add(1)} }

// LockAsync asks for a lock and returns at once. The future settles with the
// lock, or with an error: bad arguments, ErrOverloaded and ErrClosed at once,
// and later whatever a wait can end with. Cancelling the future withdraws the
// request; a grant that races the cancel goes to the next waiter or back to
// Redis.
//
// A future needs no goroutine. Whoever asks must see to it that the lock is
// unlocked, or the future cancelled, in the end. Its callbacks run on the
// manager's goroutine: they must return quickly, must not wait for the manager
// (UnlockAsync, not Unlock) and must not panic.
func (m *Manager) LockAsync(name string, opts ...LockOption) *futures.Future[*Lock] {
	return m.request(name, wish{wait: -1}, opts)
}

// Lock waits until it holds a lock. When ctx ends first, the request is
// cancelled and the error matches that of ctx. See [Manager.LockAsync] for the
// other errors.
func (m *Manager) Lock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return m.lock(ctx, name, wish{wait: -1}, opts)
}

// TryLock tries once, without waiting for others, and returns ErrNotAcquired
// if the lock is held or waited for. With a Wait option it waits for so long.
func (m *Manager) TryLock(ctx context.Context, name string, opts ...LockOption) (*Lock, error) {
	return m.lock(ctx, name, wish{}, opts)
}

func (m *Manager) lock(ctx context.Context, name string, w wish, opts []LockOption) (*Lock, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	if o, ok := ownerFrom(ctx); ok {
		if o.of == nil {
			return nil, fmt.Errorf("%w: the zero Owner", ErrInvalidOwner)
		}
		w.owner = o
	}
	return m.request(name, w, opts).Await(ctx)
}

func (m *Manager) request(name string, w wish, opts []LockOption) *futures.Future[*Lock] {
	if err := checkName(name); err != nil {
		return futures.Ready[*Lock](nil, err)
	}
	if err := w.apply(m, opts); err != nil {
		return futures.Ready[*Lock](nil, err)
	}
	if m.pending.Add(1) > int64(m.options.MaxWaiters) {
		m.pending.Add(-1)
		return futures.Ready[*Lock](nil, fmt.Errorf("%w: %d requests are pending", ErrOverloaded, m.options.MaxWaiters))
	}
	t := &ticket{manager: m}
	t.promise.Bind(t)
	id := m.lastID.Add(1)
	t.request = core.Request{
		Name: name, ID: id, Owner: id, Fenced: w.fenced, Lease: w.lease,
		Once: w.wait == 0, GiveUp: core.Forever, Tag: t,
	}
	if w.owner.of != nil {
		t.request.Owner, t.request.Explicit = w.owner.n, true
	}
	if now := m.now(); w.wait > 0 && w.wait < core.Forever-now {
		t.request.GiveUp = now + w.wait
	}
	if !m.actor.Post(core.Lock{Request: &t.request}) {
		m.pending.Add(-1)
		return futures.Ready[*Lock](nil, ErrClosed)
	}
	return t.promise.Future()
}

// Stats is a snapshot of a manager.
type Stats struct {
	Locks         int // names that are held, waited for or remembered
	Held          int
	Watched       int // of these, renewed by the watchdog
	Waiting       int // requests in line
	Pending       int // requests that have not ended, in line or on their way there
	Subscriptions int

	// The rest counts since the start.
	Grants, Passes, Reentries, Losses uint64
	Scripts                           uint64 // run for one lock each, and renewals; up to 64 of the former share a command
	RenewalScripts, Renewals          uint64 // scripts, and leases renewed
	Wakes, Polls, StoodBack           uint64
	Failures                          uint64 // scripts that brought no answer
	Unreleased                        uint64 // releases given up: those records expired, or will
}

// Stats returns a snapshot as of the last message that the manager handled.
// It never blocks for long and does no I/O.
func (m *Manager) Stats() Stats {
	s := m.loop.snapshot()
	return Stats{
		Locks: s.Names, Held: s.Held, Watched: s.Watched, Waiting: s.Waiting,
		Pending: int(m.pending.Load()), Subscriptions: s.Subscriptions,
		Grants: s.Grants, Passes: s.Passes, Reentries: s.Reentries, Losses: s.Losses,
		Scripts: s.Scripts, RenewalScripts: s.Renewals, Renewals: s.Renewed,
		Wakes: s.Wakes, Polls: s.Polls, StoodBack: s.StoodBack, Failures: s.Fails,
		Unreleased: s.Unreleased,
	}
}

// Close ends the manager: requests that wait fail with ErrClosed, locks that
// are held are lost with ErrClosed and released in one batch. It blocks until
// the releases are answered, the server has failed for Options.RetryTime, or
// ctx ends; what is not confirmed then is left to expire, and the error says
// so. Afterwards nothing of the manager survives; when ctx ended first, what
// sits in a dial that can't be interrupted follows within the dial time-out.
// Closing again waits for the same end.
func (m *Manager) Close(ctx context.Context) error {
	m.closing.Do(func() {
		m.givenUp = m.Stats().Unreleased
		m.actor.Post(core.Close{})
		go m.shutDown()
	})
	cause := error(ErrUnavailable)
	select {
	case <-m.gone:
	case <-ctx.Done():
		cause = ctx.Err()
		m.actor.Post(core.Abort{})
		<-m.closed
	}
	if n := m.Stats().Unreleased - m.givenUp; n > 0 {
		return fmt.Errorf("lockmgr: close: %d releases are not confirmed, the locks will expire: %w", n, cause)
	}
	return nil
}

// shutDown ends the manager's parts, once its core has nothing left.
func (m *Manager) shutDown() {
	<-m.closed
	m.hub.Stop()
	m.exec.close()
	<-m.hub.Done()
	m.actor.Stop()
	<-m.actor.Done()
	if m.closeClient != nil {
		m.closeClient()
	}
	close(m.gone)
}
