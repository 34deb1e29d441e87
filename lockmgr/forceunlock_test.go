package lockmgr_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Only the named holder loses its lock, whatever the kind of lock is.
func TestForceUnlockHolders_RemovesNoOther(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	admin := dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	type options = []lockmgr.LockOption
	for _, tt := range []struct {
		name string
		opts options
	}{
		{"plain", nil},
		{"fenced", options{lockmgr.Fenced()}},
		{"fair", options{lockmgr.Fair()}},
		{"reader", options{lockmgr.Shared()}},
		{"writer", options{lockmgr.Exclusive()}},
	} {
		l := mustLock(t, m, tt.name, tt.opts...)
		before := mustInspect(t, admin, tt.name)
		require.False(t, must(admin.ForceUnlockHolders(ctx, tt.name, other.ID()+":1", m.ID(), ""))(t), tt.name)
		require.NoError(t, l.Unlock(ctx), tt.name)

		// The one that was named has the lock no more, and the next one stays.
		l = mustLock(t, other, tt.name, tt.opts...)
		require.False(t, must(admin.ForceUnlockHolders(ctx, tt.name, before.Holders[0].Owner))(t), tt.name)
		require.True(t, l.Valid())

		waiting := m.LockAsync(tt.name, tt.opts...)
		require.True(t, must(admin.ForceUnlockHolders(ctx, tt.name, "x", l.HolderID()))(t), tt.name)
		next := mustAwait(t, waiting)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost, tt.name)
		mustUnlock(t, next)
		require.False(t, must(admin.ForceUnlockHolders(ctx, tt.name, next.HolderID()))(t), "it is free")
		requireLockError(t, errOf(admin.ForceUnlockHolders(ctx, tt.name)), "force unlock", tt.name, lockmgr.ErrInvalidOption)
	}
}

// Of several readers those stay that are not named. The last one wakes a writer.
func TestForceUnlockHolders_OfSeveralReaders(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	admin := dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	one := mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.FixedLease(time.Hour))
	two := mustLock(t, other, "doc", lockmgr.Shared())
	java := uuid.NewString() + ":1"
	faults.Do(t, s, "HSET", "doc", java, "1")
	faults.Do(t, s, "SET", "{doc}:"+java+":rwlock_timeout:1", "1", "PX", "3600000")
	writer := admin.LockAsync("doc", lockmgr.Exclusive())
	for _, id := range []string{one.HolderID(), java} {
		require.True(t, must(admin.ForceUnlockHolders(ctx, "doc", id))(t))
		require.False(t, must(admin.ForceUnlockHolders(ctx, "doc", id))(t))
	}
	require.ErrorIs(t, one.Unlock(ctx), lockmgr.ErrLeaseLost)
	info := mustInspect(t, admin, "doc")
	require.Len(t, info.Holders, 1)
	require.Equal(t, two.HolderID(), info.Holders[0].Owner)
	require.LessOrEqual(t, info.TTL, 30*time.Second, "the record lives no longer than the reader that is left")
	require.NoError(t, two.Extend(ctx, time.Minute))
	require.True(t, must(admin.ForceUnlockHolders(ctx, "doc", two.HolderID()))(t))
	w := mustAwait(t, writer)
	require.ErrorIs(t, two.Unlock(ctx), lockmgr.ErrLeaseLost)

	// An owner that writes and reads has two entries with one ID.
	owner := admin.NewOwner()
	mustUnlock(t, w)
	w = mustLock(t, admin, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner))
	r := mustLock(t, admin, "doc", lockmgr.Shared(), lockmgr.AsOwner(owner))
	require.True(t, must(admin.ForceUnlockHolders(ctx, "doc", w.HolderID()))(t))
	<-w.Lost()
	require.ErrorIs(t, r.Unlock(ctx), lockmgr.ErrLeaseLost)
	require.Equal(t, "0", faults.Do(t, s, "EXISTS", "doc"))
}

// A lock that was forced open is not passed on in memory: while another manager has it, no waiter
// of the old holder's manager gets it. That holds for each way in which a request can follow a
// hold.
func TestForceUnlock_NoNewGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	type options = []lockmgr.LockOption
	for _, tt := range []struct {
		what  string
		holds options // the first hold of m
		waits options // the request that follows it
		joins bool    // while the first hold lasts
		other options // what the other manager takes
	}{
		{"plain", nil, nil, false, nil},
		{"fenced", options{lockmgr.Fenced()}, options{lockmgr.Fenced()}, false, options{lockmgr.Fenced()}},
		{"fenced after plain", nil, options{lockmgr.Fenced()}, false, options{lockmgr.Fenced()}},
		{"fair", options{lockmgr.Fair()}, options{lockmgr.Fair()}, false, nil},
		{"fenced fair", options{lockmgr.Fair(), lockmgr.Fenced()}, options{lockmgr.Fair(), lockmgr.Fenced()}, false, options{lockmgr.Fenced()}},
		{"writer", options{lockmgr.Exclusive()}, options{lockmgr.Exclusive()}, false, options{lockmgr.Exclusive()}},
		{"fenced writer", options{lockmgr.Exclusive(), lockmgr.Fenced()}, options{lockmgr.Exclusive(), lockmgr.Fenced()}, false, options{lockmgr.Exclusive(), lockmgr.Fenced()}},
		{"reader after writer", options{lockmgr.Exclusive()}, options{lockmgr.Shared()}, false, options{lockmgr.Exclusive()}},
		{"reader joins", options{lockmgr.Shared()}, options{lockmgr.Shared()}, true, options{lockmgr.Exclusive()}},
		{"fenced reader joins", options{lockmgr.Shared(), lockmgr.Fenced()}, options{lockmgr.Shared(), lockmgr.Fenced()}, true, options{lockmgr.Exclusive(), lockmgr.Fenced()}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			m, other := dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{})
			ctx := faults.Patient(t)
			for i := range 10 {
				name := fmt.Sprint(tt.what, i)
				l := mustLock(t, m, name, tt.holds...)
				var f *futures.Future[*lockmgr.Lock]
				if !tt.joins {
					f = m.LockAsync(name, tt.waits...)
				}
				must(other.ForceUnlock(ctx, name))(t)
				theirs, err := other.TryLock(ctx, name, tt.other...)
				if tt.joins {
					f = m.LockAsync(name, tt.waits...)
				} else {
					_ = l.UnlockAsync()
				}
				if err == nil {
					notWhile(t, f, theirs)
					mustUnlock(t, theirs)
				}
				if strings.HasSuffix(tt.what, "fair") {
					f.Cancel()                         // it hears no message of a plain lock
					faults.Eventually(t, func() bool { // a try that was under way has found a plain lock
						f = m.LockAsync(name, tt.waits...)
						return !errors.Is(errOf(f.Await(ctx)), lockmgr.ErrKind)
					})
				}
				ours := mustAwait(t, f)
				if theirs != nil {
					require.GreaterOrEqual(t, ours.Token(), theirs.Token())
				}
				mustUnlock(t, ours)
			}
		})
	}
}

// notWhile fails if a request is granted while another manager holds the lock. It looks for a
// while.
func notWhile(t *testing.T, f *futures.Future[*lockmgr.Lock], theirs *lockmgr.Lock) {
	t.Helper()
	select {
	case <-f.Done():
		l, err := f.Result()
		if err != nil { // a fair waiter finds the record of a plain lock
			require.ErrorIs(t, err, lockmgr.ErrKind)
			return
		}
		require.False(t, l.Valid() && theirs.Valid(), "granted while another manager has the lock")
	case <-time.After(10 * time.Millisecond):
	}
}

// Requests that wait behind the holder in its own manager get the lock soon after another manager
// has forced it open, however long the hold would have lasted.
func TestForceUnlock_WaitersBesideTheHolder(t *testing.T) {
	for title, sides := range map[string][2]lockmgr.LockOption{
		"plain":               {lockmgr.Fenced(), lockmgr.Fenced()},
		"fair":                {lockmgr.Fair(), lockmgr.Fair()},
		"writer and writer":   {lockmgr.Exclusive(), lockmgr.Exclusive()},
		"writer and reader":   {lockmgr.Exclusive(), lockmgr.Shared()},
		"reader, then writer": {lockmgr.Shared(), lockmgr.Exclusive()},
	} {
		for _, lease := range []lockmgr.LockOption{lockmgr.Note("watched"), lockmgr.FixedLease(time.Hour)} {
			inBubble(t, title, func(t *testing.T, w *scene) {
				m, other := w.managers(lockmgr.Options{})
				l := mustLock(t, m, "a", sides[0], lease)
				f := m.LockAsync("a", sides[1])
				synctest.Wait() // it waits
				must(other.ForceUnlock(ctx, "a"))(t)
				forced := time.Now()
				mustUnlock(t, mustAwait(t, f))
				require.Less(t, time.Since(forced), 6*second)
				require.False(t, l.Valid())
			})
		}
	}
}

// Permits that were returned by another manager pass to nobody here.
func TestReturn_NoNewGrant(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	for i := range 20 {
		name := fmt.Sprint("p", i)
		ours, theirs := m.Permits(name, 1), other.Permits(name, 1)
		l := mustAcquire(t, ours, 1)
		f := ours.AcquireAsync(1, lockmgr.MaxWait(time.Minute))
		require.True(t, must(theirs.Return(ctx, l.PermitIDs()...))(t))
		got, err := theirs.TryAcquire(ctx, 1)
		_ = l.UnlockAsync()
		if err != nil { // the waiter was first
			mustUnlock(t, mustAwait(t, f))
			continue
		}
		notWhile(t, f, got)
		mustUnlock(t, got)
		mustUnlock(t, mustAwait(t, f))
	}
}
