package locker

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// several are the ways to lock several names without asking for them at once. They are in no other
// table.
var several = []Candidate{
	{
		Name: "Lock one by one", Kind: Several, NeedsServer: true,
		About: "holdfast's Lock of each name, one after the other in sorted order, and so the unlocks",
		Open:  onManager(func(m manager) Locker { return oneByOne{m} }),
	}, {
		Name: "LockAsync of each", Kind: Several, NeedsServer: true,
		About: "holdfast's LockAsync of all names before the first is awaited, and so the unlocks; callers that share names would block each other",
		Open:  onManager(func(m manager) Locker { return together{m} }),
	},
}

// LockSet is holdfast's LockAll.
func (m manager) LockSet(ctx context.Context, names []string) (Held, error) {
	l, err := m.LockAll(ctx, lockmgr.All(names...))
	if err != nil {
		return nil, err
	}
	return l, nil
}

type oneByOne struct{ manager }

func (m oneByOne) LockSet(ctx context.Context, names []string) (Held, error) {
	held := make(heldOneByOne, 0, len(names))
	for _, name := range names {
		l, err := m.Manager.Lock(ctx, name)
		if err != nil {
			return nil, errors.Join(err, held.Unlock(context.WithoutCancel(ctx)))
		}
		held = append(held, l)
	}
	return held, nil
}

type heldOneByOne []*lockmgr.Lock

func (h heldOneByOne) Unlock(ctx context.Context) error {
	var failed error
	for _, l := range h {
		failed = errors.Join(failed, l.Unlock(ctx))
	}
	return failed
}

type together struct{ manager }

func (m together) LockSet(ctx context.Context, names []string) (Held, error) {
	asked := make([]*futures.Future[*lockmgr.Lock], 0, len(names))
	for _, name := range names {
		asked = append(asked, m.LockAsync(name))
	}
	held := make(heldTogether, 0, len(names))
	var failed error
	for _, f := range asked {
		l, err := f.Await(ctx)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		held = append(held, l)
	}
	if failed != nil {
		return nil, errors.Join(failed, held.Unlock(context.WithoutCancel(ctx)))
	}
	return held, nil
}

type heldTogether []*lockmgr.Lock

func (h heldTogether) Unlock(ctx context.Context) error {
	over := make([]*futures.Future[struct{}], 0, len(h))
	for _, l := range h {
		over = append(over, l.UnlockAsync())
	}
	var failed error
	for _, f := range over {
		_, err := f.Await(ctx)
		failed = errors.Join(failed, err)
	}
	return failed
}
