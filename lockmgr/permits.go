package lockmgr

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// MaxPermits is the most permits that one request can ask for. The limit of a name may be
// larger.
const MaxPermits = 256

// Permits is a counting semaphore: at most limit permits of a name are taken at a time, by
// all processes together. Each permit has a lease, so the permits of a dead process come
// free. The layout in Redis is that of Redisson's RPermitExpirableSemaphore.
//
// Permits is a small value. Its methods are safe for concurrent use.
type Permits struct {
	manager *Manager
	name    string
	limit   int64
}

// Permits returns the permits of a name. It does no I/O.
//
// limit is how many permits there are, from 1 to math.MaxInt32. The first request stores it on
// the server, where it does not expire. Later requests use the stored limit, even if theirs
// differs: to change it, call [Permits.SetLimit]. Inspect, Return, SetLimit and Delete take any
// valid limit, and do not use it. Delete names that were made for one use.
//
// A name is used for a lock or for permits, not for both. A request for the other kind fails
// with ErrKind or ErrWrongType. Do not use both "a" and "{a}" for permits: the two share the
// set of taken permits, as with Redisson. If something else keeps a number at the key, that
// is taken for the number of free permits.
func (m *Manager) Permits(name string, limit int) Permits {
	return Permits{manager: m, name: name, limit: int64(limit)}
}

// AcquireAsync asks for n permits, all or none, and returns immediately. The future settles
// with one [Lock] for all of them. Its Unlock gives all of them back. If one of them is
// lost, the Lock is lost, and the others are given back.
//
// The requests of a manager for a name are served in order. When a hold ends, its permits
// pass in memory to the next request if that wants as many. After Options.PassCount grants
// times the number of its holds, or Options.PassTime, the manager gives its permits back, so that other
// processes go first. It does so for a moment about once a second in any case.
//
// A request for several that has waited for a second gathers: it keeps the permits that it
// finds free while it tries to get the rest. It does so for 2.5 times Options.PassTime. That
// time doubles after each failure, up to 20 times Options.PassTime or a third of
// Options.Lease, whichever is less. Of all managers, one gathers at a time. Meanwhile the
// others get no permit, not even a free one. After an attempt that failed, the manager pauses
// for at least twice the first time, and the others get permits. Without this, requests for one
// permit could keep a request for many out for ever. Redisson's clients do not know of it: they
// take what is free.
//
// The watchdog renews each permit, unless the request has FixedLease. MaxWait, MaxHold and
// TraceContext work as for a lock. Permits have no owner, no token and no order: see [LockOption] for
// the options that they take. The owner of a context is ignored. There is no
// re-entry, and the search for deadlocks does not follow requests for permits. A manager has at
// most 1,024 holds of a name; further requests wait for one of them to end.
//
// n is from 1 to the smaller of MaxPermits and the limit given to [Manager.Permits]; otherwise
// the error matches ErrInvalidOption. If the server has a smaller limit than n, the error matches
// ErrLimit. If the limit is lowered while the request waits, it fails at the next try of its manager.
// While the limit is 0, all requests wait. All other errors and rules are those of [Manager.LockAsync].
func (p Permits) AcquireAsync(n int, opts ...LockOption) *futures.Future[*Lock] {
	return p.manager.request(p.wish(toAcquire, n, opts))
}

// Acquire waits until it has n permits. See [Permits.AcquireAsync] for what that means,
// and [Manager.Lock] for ctx.
func (p Permits) Acquire(ctx context.Context, n int, opts ...LockOption) (*Lock, error) {
	return p.manager.lock(ctx, p.wish(toAcquire, n, opts))
}

// TryAcquire tries once to get n permits. It returns ErrNotAcquired if fewer are free, if
// others of this manager wait for permits, while this manager lets other processes go
// first, or while another one gathers.
func (p Permits) TryAcquire(ctx context.Context, n int, opts ...LockOption) (*Lock, error) {
	return p.manager.lock(ctx, p.wish(toTryAcquire, n, opts))
}

// Do acquires n permits, calls fn, and gives them back. Everything else is as in
// [Manager.Do].
func (p Permits) Do(ctx context.Context, n int, fn func(ctx context.Context, l *Lock) error, opts ...LockOption) error {
	l, err := p.Acquire(ctx, n, opts...)
	return p.manager.do(ctx, l, err, fn)
}

// wish returns the wish of a call for n permits.
func (p Permits) wish(call callKinds, n int, opts []LockOption) wish {
	fault := p.check()
	if fault == nil && (n < 1 || n > MaxPermits || int64(n) > p.limit) {
		fault = fmt.Errorf("%w: %d permits: ask for 1 to %d", ErrInvalidOption, n, min(p.limit, MaxPermits))
	}
	w := wishFor(call, p.name, fault, opts)
	w.kind, w.permits, w.limit = core.Permits, uint16(n), p.limit
	return w
}

func (p Permits) check() error {
	if p.manager == nil {
		return fmt.Errorf("%w: these Permits were not made by Manager.Permits", ErrInvalidOption)
	}
	if p.limit < 1 || p.limit > math.MaxInt32 {
		return fmt.Errorf("%w: limit %d: want 1 to %d", ErrInvalidOption, p.limit, math.MaxInt32)
	}
	return checkName(p.name)
}

// PermitIDs returns the IDs of the permits that the lock has, or nil if it has none. Each
// is 32 hexadecimal digits, of which the first 16 are those of [Manager.ID] without its
// hyphens. Any process can give a permit back by its ID: see [Permits.Return]. No other hold
// ever has one of these IDs.
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

// Return gives permits back by their IDs, also permits of other processes, and wakes waiters.
// It gives back all of them or none. It reports whether it gave them back: it did not if one
// of them is not taken, has expired, or is named twice. It takes 1 to MaxPermits IDs; otherwise
// the error matches ErrInvalidOption. It blocks for a round trip. A call without an answer may
// still take effect later.
//
// Somebody else may have the permits at once, while the old holder is still Valid. A holder
// in this manager learns of its loss a round trip later. A holder in another manager learns of
// it at its next renewal, within 40 % of Options.Lease. One with a fixed lease learns of it
// when it calls Extend or Unlock, or when its lease ends.
//
// The server learns up to 32 ms late that a permit has passed in memory. Until then it knows
// the permit by the ID of the hold before, and Return of the new ID returns false.
func (p Permits) Return(ctx context.Context, ids ...string) (bool, error) {
	if len(ids) == 0 || len(ids) > MaxPermits {
		return false, &LockError{Op: opReturn, Name: p.name, Err: fmt.Errorf("%w: %d IDs: give 1 to %d", ErrInvalidOption, len(ids), MaxPermits)}
	}
	ids = slices.Clone(ids)
	for i, id := range ids {
		ids[i] = strings.ToLower(id)
		if b, err := hex.DecodeString(id); err != nil || len(b) != len(wire.PermitID{}) {
			return false, &LockError{Op: opReturn, Name: p.name, Err: fmt.Errorf("%w: %s is not the ID of a permit", ErrInvalidOption, shortName(id))}
		}
	}
	if p.check() == nil && slices.ContainsFunc(ids, p.ours) {
		// Look also after an error: the script may have run.
		defer p.manager.actor.Post(core.Verify{Name: p.name})
	}
	a, err := p.call(ctx, opReturn, wire.ReturnPermits(p.name, ids))
	return a.Int == 1, err
}

// ours reports whether an ID is of a permit of this manager.
func (p Permits) ours(id string) bool {
	own := wire.Permit(p.manager.id.uuid, 0, 0)
	return strings.HasPrefix(id, hex.EncodeToString(own[:8]))
}

// SetLimit sets the limit, 0 or more. With 0 no permit is granted until the limit is raised. With another
// limit, requests that wait for more permits fail with ErrLimit. If more are taken, their holders keep them, and
// none is granted until enough are given back. Another limit than from 0 to math.MaxInt32 fails
// with ErrInvalidOption. SetLimit blocks for a round trip. A call without an answer may still
// take effect later.
func (p Permits) SetLimit(ctx context.Context, limit int) error {
	if limit < 0 || limit > math.MaxInt32 {
		return &LockError{Op: opLimit, Name: p.name, Err: fmt.Errorf("%w: limit %d: want 0 to %d", ErrInvalidOption, limit, math.MaxInt32)}
	}
	_, err := p.call(ctx, opLimit, wire.LimitPermits(p.name, "set", limit, limit))
	return err
}

// AddLimit changes the limit by n, which may be negative, and returns the new limit. If the
// server knows no limit, it adds n to the limit given to [Manager.Permits]. The error matches
// ErrInvalidOption if the new limit would be negative or exceed math.MaxInt32. AddLimit blocks
// for a round trip. A call without an answer may still take effect later: look at
// [Permits.Inspect] before you repeat it.
func (p Permits) AddLimit(ctx context.Context, n int) (int, error) {
	out := &LockError{Op: opLimit, Name: p.name, Err: fmt.Errorf("%w: a change of the limit by %d: the limit would be below 0 or above %d", ErrInvalidOption, n, math.MaxInt32)}
	if n < -math.MaxInt32 || n > math.MaxInt32 {
		return 0, out
	}
	a, err := p.call(ctx, opLimit, wire.LimitPermits(p.name, "add", n, int(p.limit)))
	if err == nil && a.Int < 0 {
		return 0, out
	}
	return int(a.Int), err
}

// Delete removes what the server remembers of the name, if no permit is taken. It reports
// whether it removed anything. The next request for permits stores its limit again. So does a
// request that is still on its way to the server, even if its context has ended: close the
// managers that use the permits first, and delete with another one. Delete blocks for a round
// trip. A call without an answer may still take effect later.
func (p Permits) Delete(ctx context.Context) (bool, error) {
	a, err := p.call(ctx, opDelete, wire.DeletePermits(p.name))
	return a.Int == 1, err
}

// PermitsInfo is what Redis knows of permits.
type PermitsInfo struct {
	Name string
	// Exists reports whether the server knows a limit. If not, Limit and Free say nothing.
	Exists bool
	// Limit is how many permits there are.
	Limit int
	// Free is how many permits can be taken. It is negative if more are taken than the
	// limit.
	Free int
	// Taken lists permits that are taken, the first to expire first, at most 1,000. In all,
	// Limit - Free are taken.
	Taken []TakenPermit
	// Subscribers counts the processes that wait for permits, or did so within
	// Options.Linger; negative if the server does not say.
	Subscribers int64
}

// Inspect reads the state of the permits from Redis, and which processes have those that are taken.
// It blocks for one round trip, and for one more if other managers have permits. It changes nothing.
func (p Permits) Inspect(ctx context.Context) (PermitsInfo, error) {
	a, err := p.call(ctx, opInspect, wire.InspectPermits(p.name))
	if err != nil {
		return PermitsInfo{}, err
	}
	state, ok := wire.ReadPermits(&a)
	if !ok {
		return PermitsInfo{}, &LockError{Op: opInspect, Name: p.name, Err: serverError(a.Unexpected())}
	}
	info := permitsInfo(p.name, &state)
	k := p.manager.newKnown()
	info.Taken, err = k.taken(ctx, p.name, state.Permits)
	return info, err
}

// permitsInfo returns what is known of permits, but for those that are taken.
func permitsInfo(name string, s *wire.PermitsState) PermitsInfo {
	return PermitsInfo{
		Name: name, Exists: s.Exists, Limit: int(s.Free + s.Taken), Free: int(s.Free + s.Expired), Subscribers: s.Subscribers,
	}
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
