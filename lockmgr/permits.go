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

// MaxPermits is the largest number of permits in a request. The limit of a name may be larger.
const MaxPermits = 256

// Permits is a counting semaphore: at most limit permits of a name are taken at a time, by all
// processes together. Each permit has a lease, so the permits of a dead process come free. The
// layout in Redis is the layout of Redisson's RPermitExpirableSemaphore.
//
// Permits is a small value. The methods are safe for concurrent use.
type Permits struct {
	manager *Manager
	name    string
	limit   int64
}

// Permits returns the permits of a name. Permits does no I/O.
//
// limit is how many permits there are, from 1 to math.MaxInt32. The first request stores the limit
// on the server, where the limit does not expire. Later requests use the stored limit, even if
// their own limit differs: to change the limit, call [Permits.SetLimit]. Inspect, Return, SetLimit
// and Delete take any valid limit, and do not use the limit. For names made for a single use, set
// Options.ForgetPermits, or call Delete.
//
// A name is used for a lock or for permits, not for both. A request for the other kind fails with
// ErrKind or ErrWrongType. Do not use both "a" and "{a}" for permits: the two share the set of
// taken permits, as with Redisson. A foreign number at the key is taken for the number of free
// permits.
func (m *Manager) Permits(name string, limit int) Permits {
	return Permits{manager: m, name: m.prefixed(name), limit: int64(limit)}
}

// AcquireAsync asks for n permits, all or none, and returns at once. The future settles with a
// single [Lock] for all n permits. If a permit is lost, the Lock is lost, and the remaining permits
// are given back.
//
// The requests of a manager for a name are served in order. When a hold ends, its permits pass in
// memory to the next request of the manager, if the next request wants as many.
//
// The server keeps the managers that wait in a line, in the order in which they came. Permits that
// come free are for the first manager. They are kept until they are enough for its first request,
// so a request for several permits gets them when the holds before it have ended. While other
// processes wait, permits pass in memory for Options.PassCount grants or Options.PassTime. Then
// they are given back, and the manager joins the line again.
//
// Redisson's clients stand in no line, and take free permits. So a request for several permits that
// has waited for a second also takes the permits that it finds free, and keeps them for 2.5 times
// Options.PassTime while it waits for the rest. The time doubles after each failure, up to 20 times
// Options.PassTime or a third of Options.Lease.
//
// The watchdog renews each permit, unless the request has FixedLease. Permits have no owner, no
// token and no re-entry, and the search for deadlocks does not see them. A manager has at most
// 1,024 holds of a name; further requests wait for the end of a hold.
//
// n is from 1 to the smaller of MaxPermits and the limit given to [Manager.Permits]; otherwise the
// error matches ErrInvalidOption. If the server's limit is smaller than n, or becomes smaller
// during the wait, the error matches ErrLimit as soon as the manager's requests before this one
// have been served. While the limit is 0, all requests wait. See [LockOption] for the options that
// Permits take, and [Manager.LockAsync] for everything else.
func (p Permits) AcquireAsync(n int, opts ...LockOption) *futures.Future[*Lock] {
	return p.manager.request(p.wish(toAcquire, n, opts))
}

// Acquire waits until n permits are granted. See [Permits.AcquireAsync] for details, and
// [Manager.Lock] for ctx.
func (p Permits) Acquire(ctx context.Context, n int, opts ...LockOption) (*Lock, error) {
	return p.manager.lock(ctx, p.wish(toAcquire, n, opts))
}

// TryAcquire tries once to get n permits. TryAcquire returns ErrNotAcquired if fewer than n permits
// are left after those kept for waiting managers, if other requests of this manager wait, or in a
// pause for Redisson's clients.
func (p Permits) TryAcquire(ctx context.Context, n int, opts ...LockOption) (*Lock, error) {
	return p.manager.lock(ctx, p.wish(toTryAcquire, n, opts))
}

// Do acquires n permits, calls fn, and gives the permits back. Everything else is as in
// [Manager.Do].
func (p Permits) Do(ctx context.Context, n int, fn func(ctx context.Context, l *Lock) error, opts ...LockOption) error {
	l, err := p.Acquire(ctx, n, opts...)
	return do(ctx, l, err, fn)
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

// PermitIDs returns the IDs of the permits that the lock has, or nil if the lock has no permits.
// Each ID is 32 hexadecimal digits. The first 16 digits are the first 16 of [Manager.ID] without
// hyphens. Any process can give a permit back by the ID: see [Permits.Return]. No two holds ever
// have the same ID.
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
// Return gives back all permits or none, and reports whether the permits were given back: not if a
// permit is not taken, has expired, or is named twice. Return takes 1 to MaxPermits IDs; otherwise
// the error matches ErrInvalidOption. Return blocks for a round trip. A call without an answer may
// still take effect later.
//
// Somebody else may have the permits at once, while the old holder is still Valid. A holder in the
// same manager learns of the loss a round trip later. A holder in another manager learns of the
// loss at the next renewal, within 46 % of Options.Lease. A holder with a fixed lease learns of the
// loss from Extend or Unlock, or when the lease ends.
//
// The server learns of a handoff in memory up to 32 ms late. Until the server does, the server
// knows the permit by the ID of the hold before, and Return of the new ID returns false.
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

// ours reports whether an ID belongs to a permit of the manager.
func (p Permits) ours(id string) bool {
	own := wire.Permit(p.manager.id.uuid, 0, 0)
	return strings.HasPrefix(id, hex.EncodeToString(own[:8]))
}

// SetLimit sets the limit, 0 or more. With 0 no permit is granted until the limit is raised. With a
// limit above 0, waiting requests for more permits than the limit fail with ErrLimit. If more
// permits are taken, the holders keep their permits, and no permit is granted until enough are
// given back, except that permits may pass in memory for another Options.PassTime. A limit below 0
// or above math.MaxInt32 fails with ErrInvalidOption. SetLimit blocks for a round trip. A call
// without an answer may still take effect later.
func (p Permits) SetLimit(ctx context.Context, limit int) error {
	if limit < 0 || limit > math.MaxInt32 {
		return &LockError{Op: opLimit, Name: p.name, Err: fmt.Errorf("%w: limit %d: want 0 to %d", ErrInvalidOption, limit, math.MaxInt32)}
	}
	_, err := p.call(ctx, opLimit, wire.LimitPermits(p.name, "set", limit, limit))
	return err
}

// AddLimit changes the limit by n, which may be negative, and returns the new limit. If the server
// knows no limit, AddLimit adds n to the limit given to [Manager.Permits]. The error matches
// ErrInvalidOption if the new limit would be negative or exceed math.MaxInt32. AddLimit blocks for
// a round trip. A call without an answer may still take effect later: look at [Permits.Inspect]
// before you repeat it.
func (p Permits) AddLimit(ctx context.Context, n int) (int, error) {
	outOfRange := &LockError{Op: opLimit, Name: p.name, Err: fmt.Errorf("%w: a change of the limit by %d: the limit would be below 0 or above %d", ErrInvalidOption, n, math.MaxInt32)}
	if n < -math.MaxInt32 || n > math.MaxInt32 {
		return 0, outOfRange
	}
	a, err := p.call(ctx, opLimit, wire.LimitPermits(p.name, "add", n, int(p.limit)))
	if err == nil && a.Int < 0 {
		return 0, outOfRange
	}
	return int(a.Int), err
}

// Delete removes the server's data of the name, if no permit is taken, and reports whether Delete
// removed anything. The next request for permits stores its limit again. So does a request still on
// the way to the server, even if the request's context has ended: close the managers that use the
// permits first, and delete with another manager. Delete blocks for a round trip. A call without an
// answer may still take effect later.
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
	// Free is how many permits can be taken. Free is negative if more permits are taken than the
	// limit.
	Free int
	// Taken lists taken permits, the first to expire first, at most 1,000. In all, Limit - Free are
	// taken.
	Taken []TakenPermit
	// Waiting is about how many processes wait for permits: see Info. Waiting is negative if the
	// server does not say.
	Waiting int64
}

// Inspect reads the state of the permits from Redis, and finds the processes that have the taken
// permits. Inspect blocks for a round trip, and for another if other managers have permits. Inspect
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
	info := permitsInfo(p.name, &state)
	info.Taken, err = p.manager.newProcessCache().taken(ctx, p.name, state.Permits)
	return info, err
}

// permitsInfo returns the PermitsInfo of a state, without Taken.
func permitsInfo(name string, s *wire.PermitsState) PermitsInfo {
	return PermitsInfo{
		Name: name, Exists: s.Exists, Limit: int(s.Free + s.Taken), Free: int(s.Free + s.Expired), Waiting: s.Waiting,
	}
}

// call runs a script without the core.
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
