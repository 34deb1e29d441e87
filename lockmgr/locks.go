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

// A LocalLock is a hold of a manager, or a request that waits.
type LocalLock struct {
	// Name is the name of the lock. For a set it has all names, quoted, with their sides.
	Name string
	// Kind is "plain", "read-write", "fair", "set" or "permits".
	Kind string
	// Shared is set for the read side of a read-write lock.
	Shared bool
	// Held tells a hold from a request that waits.
	Held bool
	// Owner is the holder ID of a hold (see Lock.HolderID). For a request that waits it is the
	// text of its Owner. For permits it is the holder ID that their IDs are made of.
	Owner string
	// For is how long the lock is held, by steps of 100 ms, or how long the request waits.
	For time.Duration
	// Remaining is the time until the deadline of a hold. A renewal may extend it.
	Remaining time.Duration
	// Handles is how many handles of a hold were not unlocked yet: more than one after a re-entry.
	Handles int
	// Permits is how many permits a hold has.
	Permits int
	// Token is the fencing token of a hold, or zero.
	Token int64
	// Note is what the request was given by Note.
	Note string
}

// Locks returns what this manager holds and what waits here, sorted by name, holds first and
// then the requests, those that have waited longest first. It asks the manager's goroutine and
// sends no command. It blocks until that has answered or ctx ends. While the goroutine makes the
// list, it does nothing else: for 100,000 locks that takes some ten milliseconds.
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
			For: max(0, now-u.since), Handles: u.Handles, Permits: u.permits, Token: u.Token, Note: noteOf(r),
		}
		if u.Held {
			l.Owner, l.Remaining = wire.HolderID(m.id.uuid, u.Number), max(0, u.Until-now)
			if r.Kind == core.Fair {
				l.Owner = wire.FairHolderID(m.id.uuid, u.Number)
			}
		} else {
			l.Owner = Owner{m.id, r.Owner()}.String()
		}
	}
	slices.SortStableFunc(all, func(a, b LocalLock) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 || a.Held != b.Held {
			return cmp.Or(c, map[bool]int{true: -1, false: 1}[a.Held])
		}
		return cmp.Compare(b.For, a.For)
	})
	return all, nil
}
