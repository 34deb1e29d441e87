package lockmgr

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// MaxPermits is the most permits that one request can ask for.
const MaxPermits = 256

// Permits are a number of equal things that are called permits, for instance the right to
// be one of ten that use a service at a time. Each permit that is taken has a lease of its
// own, so none is lost when a process ends. Other names for this are a counting semaphore
// and, in Redisson, RPermitExpirableSemaphore, whose layout in Redis it has.
//
// Permits is a small value. Its methods are safe for concurrent use.
type Permits struct {
	manager *Manager
	name    string
	limit   int64
}

// Permits returns the permits of a name. It does no I/O.
//
// limit is how many there are, at least 1. The server remembers a limit, without an end.
// The first request that finds none sets it. If the server has another limit, that one
// counts: see [Permits.SetLimit] and [Permits.Delete].
//
// A name is a lock or a name of permits. A request for the other kind fails with ErrKind
// or ErrWrongType.
func (m *Manager) Permits(name string, limit int) Permits {
	return Permits{manager: m, name: name, limit: int64(limit)}
}

// AcquireAsync asks for n permits at once, and returns at once. The future settles with
// one [Lock] for all of them. Its Unlock gives all of them back. If one of them is lost,
// the Lock is lost, and the others are given back.
//
// The requests of a manager for a name are served in order. A permit passes in memory
// to the next request if that wants as many, and nobody else waits. A request that wants
// several, and has waited for a second, gathers: for at most 2.5 times
// Options.PassTime it keeps the permits that it finds free while it tries to get the
// rest. Otherwise those that want one could keep it out for ever: see
// [Manager.LockAllAsync].
//
// The watchdog renews each permit, unless the request has FixedLease. MaxWait, MaxHold and
// Trace work as for a lock. Permits have no owner and no order: AsOwner, Fenced, Shared and
// Exclusive fail with ErrInvalidOption. There is no re-entry, and the search for deadlocks
// does not follow requests for permits. A manager has at most 1,024 holds of a name.
//
// n is from 1 to the limit given to [Manager.Permits], and to MaxPermits; otherwise the
// error matches ErrInvalidOption. All other errors and rules are those of
// [Manager.LockAsync].
func (p Permits) AcquireAsync(n int, opts ...LockOption) *futures.Future[*Lock] {
	return p.request(n, wish{wait: -1}, opts)
}

// Acquire waits until it has n permits. See [Permits.AcquireAsync] for what that means,
// and [Manager.Lock] for ctx.
func (p Permits) Acquire(ctx context.Context, n int, opts ...LockOption) (*Lock, error) {
	return p.acquire(ctx, n, wish{wait: -1}, opts)
}

// TryAcquire tries once to get n permits. It returns ErrNotAcquired if fewer are free, if
// others of this manager wait for permits, or while this manager lets other processes go
// first. With a MaxWait option it waits that long.
func (p Permits) TryAcquire(ctx context.Context, n int, opts ...LockOption) (*Lock, error) {
	return p.acquire(ctx, n, wish{}, opts)
}

// Do acquires n permits, calls fn, and gives them back. Everything else is as in
// [Manager.Do].
func (p Permits) Do(ctx context.Context, n int, fn func(ctx context.Context, l *Lock) error, opts ...LockOption) (err error) {
	l, err := p.Acquire(ctx, n, opts...)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, p.manager.finish(ctx, l)) }()
	return fn(l.Context(ctx), l)
}

func (p Permits) acquire(ctx context.Context, n int, w wish, opts []LockOption) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, &LockError{Op: opLock, Name: p.name, Err: contextError(ctx)}
	}
	w.ctx = ctx
	return p.request(n, w, opts).Await(ctx)
}

func (p Permits) request(n int, w wish, opts []LockOption) *futures.Future[*Lock] {
	err := p.check()
	if err == nil && (n < 1 || n > MaxPermits || int64(n) > p.limit) {
		err = fmt.Errorf("%w: %d permits, not within 1 and the limit %d, or %d", ErrInvalidOption, n, p.limit, MaxPermits)
	}
	if err == nil {
		err = w.apply(p.manager.id, opts)
	}
	if err == nil && (w.kind != core.Exclusive || w.fenced || w.owner.of != nil) {
		err = fmt.Errorf("%w: permits know no Shared, Exclusive, Fenced or AsOwner", ErrInvalidOption)
	}
	if err != nil {
		return refused(p.name, err)
	}
	w.kind, w.permits, w.limit = core.Permits, uint16(n), p.limit
	f, err := p.manager.ask(p.name, w)
	if err != nil {
		return refused(p.name, err)
	}
	return f
}

func (p Permits) check() error {
	if p.manager == nil {
		return fmt.Errorf("%w: the zero Permits", ErrInvalidOption)
	}
	if p.limit < 1 || p.limit > math.MaxInt32 {
		return fmt.Errorf("%w: a limit of %d permits", ErrInvalidOption, p.limit)
	}
	return checkName(p.name)
}

// PermitIDs returns the IDs of the permits that the lock has, or nil if it has none. Each
// is 32 hexadecimal digits, of which the first 16 are those of the manager's ID. Any
// process can give a permit back by its ID: see [Permits.Return]. No other hold ever has it.
func (l *Lock) PermitIDs() []string {
	r := &l.ticket.request
	if r.Kind != core.Permits {
		return nil
	}
	ids := make([]string, r.Hold.Permits)
	for i := range ids {
		id := wire.Permit(l.ticket.shell.id.uuid, r.Hold.Number, i)
		ids[i] = hex.EncodeToString(id[:])
	}
	return ids
}

// Return gives permits back by their IDs, also those of other processes, and wakes those who
// wait: all of them, or none if one of them is not taken or has expired. It reports whether it
// has. It blocks for a round trip. A holder in this manager learns of its loss one round
// trip later, others learn of it at their next renewal. A call without an answer may
// still take effect later.
//
// While a manager passes permits on in memory, the server may know a permit by the ID of
// a hold that ended some 20 ms ago.
func (p Permits) Return(ctx context.Context, ids ...string) (bool, error) {
	if len(ids) == 0 || len(ids) > MaxPermits {
		return false, &LockError{Op: opReturn, Name: p.name, Err: fmt.Errorf("%w: %d IDs, not within 1 and %d", ErrInvalidOption, len(ids), MaxPermits)}
	}
	for _, id := range ids {
		if b, err := hex.DecodeString(id); err != nil || len(b) != len(wire.PermitID{}) {
			return false, &LockError{Op: opReturn, Name: p.name, Err: fmt.Errorf("%w: %s is no ID of a permit", ErrInvalidOption, shortName(id))}
		}
	}
	if p.check() == nil && slices.ContainsFunc(ids, p.ours) {
		// Whatever the answer, permits of this manager may be gone.
		defer p.manager.actor.Post(core.Verify{Name: p.name})
	}
	a, err := p.call(ctx, opReturn, wire.ReturnPermits(p.name, ids))
	return a.Int == 1, err
}

// ours reports whether an ID is of a permit of this manager.
func (p Permits) ours(id string) bool {
	own := wire.Permit(p.manager.id.uuid, 0, 0)
	return strings.HasPrefix(strings.ToLower(id), hex.EncodeToString(own[:8]))
}

// SetLimit sets how many permits there are. If more of them are taken, none comes free
// before enough were given back. It blocks for a round trip.
func (p Permits) SetLimit(ctx context.Context, limit int) error {
	if limit < 0 || limit > math.MaxInt32 {
		return &LockError{Op: opLimit, Name: p.name, Err: fmt.Errorf("%w: a limit of %d permits", ErrInvalidOption, limit)}
	}
	_, err := p.call(ctx, opLimit, wire.LimitPermits(p.name, "set", limit))
	return err
}

// AddLimit changes how many permits there are by n, which may be negative, and returns how
// many there are now. It blocks for a round trip. A call without an answer may still take
// effect later.
func (p Permits) AddLimit(ctx context.Context, n int) (int, error) {
	if n < math.MinInt32 || n > math.MaxInt32 {
		return 0, &LockError{Op: opLimit, Name: p.name, Err: fmt.Errorf("%w: %d permits more", ErrInvalidOption, n)}
	}
	a, err := p.call(ctx, opLimit, wire.LimitPermits(p.name, "add", n))
	return int(a.Int), err
}

// Delete removes what the server remembers of the name, if no permit is taken. It reports
// whether it has. The next request for permits sets the limit again. A request whose context
// has ended may still be on its way to the server: close the managers that use the permits
// before another one deletes them. Delete blocks for a round trip. A call without an answer
// may still take effect later.
func (p Permits) Delete(ctx context.Context) (bool, error) {
	a, err := p.call(ctx, opDelete, wire.DeletePermits(p.name))
	return a.Int == 1, err
}

// PermitsInfo is what Redis knows of permits.
type PermitsInfo struct {
	Name string
	// Exists reports whether the server knows a limit.
	Exists bool
	// Limit is how many permits there are. Free is how many can be taken; it is negative
	// if the limit was set to less than are taken.
	Limit, Free int
	// Taken are permits that are taken, those that expire first before others, 1,000 at
	// most.
	Taken []TakenPermit
	// Subscribers counts the processes that wait for permits, or did so within
	// Options.Linger; negative if the server does not say.
	Subscribers int64
}

// A TakenPermit is one that somebody has.
type TakenPermit struct {
	ID string // as Lock.PermitIDs returns it
	// TTL is its remaining life; negative if it has no end.
	TTL time.Duration
	// Ours reports whether a hold of this manager has it.
	Ours bool
}

// Inspect reads the state of the permits from Redis. It blocks for one round trip and
// changes nothing.
func (p Permits) Inspect(ctx context.Context) (PermitsInfo, error) {
	a, err := p.call(ctx, opInspect, wire.InspectPermits(p.name))
	if err != nil {
		return PermitsInfo{}, err
	}
	state, ok := wire.ReadPermits(&a)
	if !ok {
		return PermitsInfo{}, &LockError{Op: opInspect, Name: p.name, Err: serverError(a.Unexpected())}
	}
	info := PermitsInfo{
		Name: p.name, Exists: state.Exists, Limit: int(state.Free + state.Taken), Free: int(state.Free + state.Expired),
		Subscribers: state.Subscribers,
	}
	for _, t := range state.Permits {
		info.Taken = append(info.Taken, TakenPermit{ID: t.Text(), TTL: t.TTL, Ours: t.Of(p.manager.id.uuid)})
	}
	return info, nil
}

// call runs a script that does not concern the core.
func (p Permits) call(ctx context.Context, op string, c wire.Command) (wire.Answer, error) {
	if err := p.check(); err != nil {
		return wire.Answer{}, &LockError{Op: op, Name: p.name, Err: err}
	}
	a, err := p.manager.call(ctx, op, p.name, c)
	if err == nil && op != opInspect && a.Kind != wire.Int {
		err = &LockError{Op: op, Name: p.name, Err: serverError(a.Unexpected())}
	}
	return a, err
}
