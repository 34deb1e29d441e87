package lockmgr

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A LocalLock is a hold of a manager, or a waiting request.
type LocalLock struct {
	// Name is the name of the lock. For a set, Name has all names, quoted, with their sides.
	Name string
	// Kind is "plain", "read-write", "fair", "set" or "permits".
	Kind string
	// Shared is set for the read side of a read-write lock.
	Shared bool
	// Held tells a hold from a waiting request.
	Held bool
	// Owner is the holder ID of a hold (see Lock.HolderID). For a waiting request, Owner is the
	// text of the request's Owner. For permits, Owner is the holder ID from which the IDs of the
	// permits are made.
	Owner string
	// For is how long the lock is held, by steps of 100 ms, or how long the request waits.
	For time.Duration
	// Remaining is the time until the deadline of a hold. A renewal may extend Remaining.
	Remaining time.Duration
	// Handles is the number of handles of a hold not unlocked yet: two or more after a re-entry.
	Handles int
	// Permits is how many permits a hold has.
	Permits int
	// Token is the fencing token of a hold, or zero: see Lock.Token.
	Token int64
	// Note is what the request was given by Note.
	Note string
}

// Locks returns the manager's holds and waiting requests, sorted by name. Under a name, holds come
// first and then the requests, the longest wait first. Locks asks the manager's goroutine and sends
// no command. Locks blocks until the goroutine has answered or ctx ends. The goroutine does nothing
// else while making the list, for 100,000 locks some ten milliseconds.
func (m *Manager) Locks(ctx context.Context) ([]LocalLock, error) {
	uses, err := m.survey(ctx, "")
	if err != nil {
		return nil, err
	}
	now := m.now()
	all := make([]LocalLock, len(uses))
	for i, u := range uses {
		r := u.Request
		l := &all[i]
		*l = LocalLock{
			Name: r.Name, Kind: wire.KindName(r.Kind), Shared: r.Side == core.Shared, Held: u.Held,
			For: max(0, now-u.since), Handles: u.Handles, Permits: u.permits, Note: noteOf(r),
		}
		if u.Held {
			l.Owner, l.Remaining = m.id.holderID(r.Kind, u.Number), max(0, u.Until-now)
			if r.Kind != core.Several {
				l.Token = u.Token
			}
		} else {
			l.Owner = Owner{m.id, r.Owner()}.String()
		}
	}
	slices.SortStableFunc(all, func(a, b LocalLock) int {
		switch {
		case a.Name != b.Name:
			return strings.Compare(a.Name, b.Name)
		case a.Held == b.Held:
			return cmp.Compare(b.For, a.For)
		case a.Held:
			return -1
		}
		return 1
	})
	return all, nil
}
