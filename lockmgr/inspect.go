package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// Info is what Redis knows of a lock.
type Info struct {
	Name   string
	Locked bool
	// Kind is "plain", "read-write" or "fair" if somebody holds the lock, as far as the record
	// tells: a lock of Redisson's RFairLock for which nobody waits looks plain. Kind is "not a
	// lock" for a hash of another program. Scan also finds "permits".
	Kind string
	// Mode is "read" or "write" for the record of a read-write lock, else "".
	Mode string
	// Holders are the entries of the record; more than one only for kinds of lock that can be
	// shared. Of a record with more than 1,000 entries, Holders has only some. Only the first 64
	// Holders have Process, Since and Note.
	Holders []Holder
	// HolderCount is how many entries the record has.
	HolderCount int
	// Queue lists the waiting requests for a fair lock, the next request first, at most 1,000. A
	// request granted or cancelled within the last two seconds may still be in Queue.
	Queue []Waiter
	// TTL is the remaining life of the record; negative if the record has no end.
	TTL time.Duration
	// Token is the last fencing token given, or zero.
	Token int64
	// Permits has Scan's findings about permits; nil for locks, and from Inspect.
	Permits *PermitsInfo
	// Waiting is about how many processes and sets wait for the lock. A process that has died
	// counts until its position in the line is over. Waiting is negative if the server does not
	// say, and zero for a fair lock: see Queue.
	Waiting int64
}

// A Waiter is a place in the queue of a fair lock.
type Waiter struct {
	// Owner is the future holder ID of the request (see Lock.HolderID), or the ID of a client of
	// Redisson.
	Owner string
	// TTL is the time until a client may remove the place; zero if a client may remove the place
	// now. A manager extends its places about once a second. Behind clients of Redisson TTL
	// includes their waits.
	TTL time.Duration
}

// Inspect reads the state of a lock from Redis, and which processes hold the lock. Inspect blocks
// for a round trip, and for another if another manager holds the lock. Each round trip fails after
// Options.CommandTimeout if the server does not answer. Inspect changes nothing. The process of a
// holder is left out if the user may not read the record of the process: see Options.Process. After
// a handoff in memory the record may name the old holder for some 20 ms, or for up to a second if
// the server refuses to update the record.
func (m *Manager) Inspect(ctx context.Context, name string) (Info, error) {
	name = m.prefixed(name)
	info, err := m.inspect(ctx, opInspect, name, true)
	if err == nil && len(info.Holders) > 0 {
		err = m.newProcessCache().fillIn(ctx, name, info)
	}
	return info, err
}

// fillIn fills in Process, Since and Note of the holders of locks, as far as known. For name see
// find. fillIn returns the error of ctx, or ErrClosed.
func (k *processCache) fillIn(ctx context.Context, name string, locks ...Info) error {
	var keys []string
	for _, lock := range locks {
		for _, h := range lock.named() {
			keys = append(keys, h.processKey())
		}
	}
	if err := k.find(ctx, name, keys); err != nil {
		return err
	}
	for _, lock := range locks {
		for i, h := range lock.named() {
			if key := h.processKey(); key != "" {
				_, number, _ := holderOf(h.Owner)
				h.Process, h.Since, h.Note = k.of(key, number)
				lock.Holders[i] = h
			}
		}
	}
	return nil
}

// named returns the holders whose records are read.
func (i *Info) named() []Holder { return i.Holders[:min(len(i.Holders), mostNamed)] }

// Explain adds the present holders of the lock to an error. Explain blocks as [Manager.Inspect]
// does. Explain returns err itself if err does not match ErrNotAcquired, if err is about a set or
// permits, if nobody holds the lock, or if ctx ends first. For permits see [Permits.Inspect]. The
// result matches what err matches, and is a LockError with Holders if err is a LockError. If the
// key has data of another program, the result has no Holders, and matches ErrWrongType, too.
func (m *Manager) Explain(ctx context.Context, err error) error {
	var failed *LockError
	if !errors.Is(err, ErrNotAcquired) || !errors.As(err, &failed) || failed.set {
		return err
	}
	info, looked := m.Inspect(ctx, failed.Name)
	switch {
	case looked != nil || len(info.Holders) == 0:
		return err
	case info.isStrange():
		return fmt.Errorf("%w: %w", err, ErrWrongType)
	}
	if err != error(failed) {
		return fmt.Errorf("%w: %s", err, heldBy(info.Holders))
	}
	told := *failed
	told.Holders = info.Holders
	return &told
}

func (m *Manager) inspect(ctx context.Context, op, name string, token bool) (Info, error) {
	a, err := m.call(ctx, op, name, wire.Inspect(name, token))
	if err != nil {
		return Info{}, err
	}
	info, err := readInfo(name, &a)
	if err != nil {
		return Info{}, &LockError{Op: op, Name: name, Err: err}
	}
	return info, nil
}

// readInfo reads the answer to wire.Inspect.
func readInfo(name string, a *wire.Answer) (Info, error) {
	info := Info{Name: name}
	v := a.Array
	if last := len(v) - 1; last > 3 && v[last].Kind == wire.Array {
		for _, p := range wire.ReadQueue(&v[last]) {
			info.Queue = append(info.Queue, Waiter{p.ID, max(0, p.Left)})
		}
		v = v[:last]
	}
	if !a.Begins(wire.Int, wire.Int) || len(v) < 4 || len(v)%2 != 0 || v[3].Kind != wire.Int {
		return Info{}, serverError(a.Unexpected())
	}
	if ttl := v[0].Int; ttl != -2 {
		info.Locked = true
		info.TTL = wire.ReadMillis(ttl)
	}
	info.Waiting = v[1].Int
	info.Token, _ = wire.ReadToken(v[2].Text)
	info.HolderCount = int(v[3].Int)
	for i := 4; i < len(v); i += 2 {
		field, value := v[i].Text, v[i+1].Text
		if field == wire.ModeField {
			if info.Mode == "" { // of a large record it may come twice
				info.HolderCount--
			}
			info.Mode = clean.Text(value, wire.MostText)
			continue
		}
		h := Holder{Owner: field}
		h.Count, _ = strconv.ParseInt(value, 10, 64)
		h.readKept(value)
		info.Holders = append(info.Holders, h)
	}
	switch {
	case info.isStrange():
		info.Kind = "not a lock"
	case info.Locked:
		info.Kind = wire.KindName(info.kind())
	}
	return info, nil
}

// kind returns the kind of lock of the record, as far as the record tells.
func (i *Info) kind() core.Kind {
	switch {
	case i.Mode != "":
		return core.ReadWrite
	case len(i.Queue) > 0 || len(i.Holders) == 1 && wire.IsFair(i.Holders[0].Owner):
		return core.Fair
	}
	return core.Exclusive
}

// isStrange reports whether a record is of another program: its mode is none of a lock, or an entry
// does not have the form of a holder ID of holdfast or Redisson.
func (i *Info) isStrange() bool {
	switch i.Mode {
	case "read", "write":
	case "":
		if i.Locked && len(i.Holders) == 0 {
			return true // the mode is empty
		}
	default:
		return true
	}
	return slices.ContainsFunc(i.Holders, func(h Holder) bool {
		_, _, ok := holderOf(h.Owner)
		return !ok
	})
}

// ForceUnlock removes a lock of any owner, wakes the waiters, and reports whether there was a lock.
// A holder in the same manager checks its record at once, and loses the lock one round trip after
// ForceUnlock has returned. Other holders learn of their loss by the message if subscribed, else at
// their next renewal. If requests wait behind the holder in its own manager, that manager looks
// within 5 s. ForceUnlock blocks for two round trips, and more if the lock changes hands meanwhile:
// ForceUnlock then removes the lock from the next holder, too. [Manager.ForceUnlockHolders] does
// not.
//
// The error matches ErrWrongType if the key has data of another program: an entry does not have the
// form of a holder ID. Of a record with more than 1,000 entries ForceUnlock reads some thousand,
// and removes the record as a whole.
//
// ForceUnlock removes only a hold that it has seen. A call without an answer may still take effect
// later, but never on a later hold of holdfast: see [Lock.HolderID].
func (m *Manager) ForceUnlock(ctx context.Context, name string) (bool, error) {
	return m.force(ctx, name, func(Holder) bool { return true })
}

// ForceUnlockHolders removes a lock as [Manager.ForceUnlock] does, but only from the holders with
// the given IDs: see [Lock.HolderID] and Owner of [Holder]. Other readers, and a holder that has
// the lock by now, keep the lock. A hold that has ended, and that KeepFor keeps, is removed only by
// its Owner of [Holder]. ForceUnlockHolders reports whether anything was removed. The error matches
// ErrInvalidOption if there is no ID.
//
// The server learns of a handoff in memory up to 16 ms and a round trip late. Until then the server
// knows the lock by the ID of the hold before. The old ID removes the lock, and the new ID does
// not. Permits have IDs of their own: see [Permits.Return].
func (m *Manager) ForceUnlockHolders(ctx context.Context, name string, ids ...string) (bool, error) {
	if len(ids) == 0 {
		return false, &LockError{Op: opForceUnlock, Name: m.prefixed(name), Err: fmt.Errorf("%w: give the ID of a holder", ErrInvalidOption)}
	}
	return m.force(ctx, name, func(h Holder) bool {
		return slices.Contains(ids, h.Owner) || slices.Contains(ids, strings.TrimSuffix(h.Owner, wire.WriterEnd))
	})
}

// divide returns the IDs of the chosen holders, and the IDs of the rest.
func (i *Info) divide(chosen func(Holder) bool) (goes, stays []string) {
	for _, h := range i.Holders {
		if chosen(h) {
			goes = append(goes, h.Owner)
		} else {
			stays = append(stays, h.Owner)
		}
	}
	return goes, stays
}

// force removes the chosen holders of a lock.
func (m *Manager) force(ctx context.Context, name string, chosen func(Holder) bool) (removed bool, err error) {
	name = m.prefixed(name)
	if checkName(name) == nil {
		// Whatever the answer, the record may be gone.
		defer m.actor.Post(core.Verify{Name: name})
	}
	for {
		info, err := m.inspect(ctx, opForceUnlock, name, false)
		if err != nil || !info.Locked {
			return removed, err
		}
		if info.isStrange() {
			return removed, &LockError{Op: opForceUnlock, Name: name, Err: ErrWrongType}
		}
		goes, stays := info.divide(chosen)
		kind, allRead := info.kind(), info.HolderCount == len(info.Holders)
		if len(stays) > 0 && (len(goes) == 0 || kind != core.ReadWrite) {
			return removed, nil // a record of another kind has one holder
		}
		var some, changed bool
		// If all entries go, but not all were read, the record goes as a whole.
		if kind == core.ReadWrite && len(goes) > 0 && (allRead || len(stays) > 0) {
			some, changed, err = m.forceEntries(ctx, name, goes)
			changed = changed && len(stays) == 0
		} else {
			some, changed, err = m.forceRecord(ctx, kind, name, goes)
		}
		if removed = removed || some; err != nil || !changed {
			return removed, err
		}
	}
}

// forceEntries removes entries of a read-write lock, and the readers' own keys. changed reports
// whether the record has different entries now.
func (m *Manager) forceEntries(ctx context.Context, name string, fields []string) (removed, changed bool, err error) {
	a, err := m.call(ctx, opForceUnlock, name, wire.ForceEntries(name, fields))
	return err == nil && a.Kind != wire.Nil, a.Kind == wire.Nil || len(a.Array) == 1, err // see readwrite_release.lua
}

// forceRecord removes a record with the given entries. changed reports whether the record has
// different entries now.
func (m *Manager) forceRecord(ctx context.Context, kind core.Kind, name string, fields []string) (removed, changed bool, err error) {
	if kind == core.ReadWrite {
		fields = append(fields, wire.ModeField)
	}
	a, err := m.call(ctx, opForceUnlock, name, wire.Force(kind, name, fields))
	if err == nil && a.Kind != wire.Int {
		err = &LockError{Op: opForceUnlock, Name: name, Err: serverError(a.Unexpected())}
	}
	return err == nil && a.Int == 1, a.Int < 0, err
}
