package lockmgr_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestServer_LockAndUnlock(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	l := mustLock(t, m, "orders:42")
	require.True(t, l.Valid())
	info := mustInspect(t, m, "orders:42")
	require.Equal(t, []lockmgr.Holder{{Owner: l.HolderID(), Count: 1}}, faults.Entries(info))
	mustUnlock(t, l)
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrNotHeld)
	info = mustInspect(t, m, "orders:42")
	require.False(t, info.Locked)
}

func TestServer_ThousandWaiters(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	first := mustLock(t, m, "hot")
	var wg sync.WaitGroup
	var inside, grants atomic.Int32
	for range 1000 {
		f := m.LockAsync("hot")
		wg.Go(func() {
			l := mustAwait(t, f)
			require.EqualValues(t, 1, inside.Add(1))
			grants.Add(1)
			inside.Add(-1)
			mustUnlock(t, l)
		})
	}
	before := m.Stats().Scripts
	start := time.Now()
	mustUnlock(t, first)
	wg.Wait()
	t.Log("drain", time.Since(start), "scripts", m.Stats().Scripts-before)
	require.EqualValues(t, 1000, grants.Load())
}

func TestServer_ThreeManagers(t *testing.T) {
	s := redistest.Start(t)
	var ms []*lockmgr.Manager
	for range 3 {
		ms = append(ms, dial(t, s.Addr(), lockmgr.Options{}))
	}
	var wg sync.WaitGroup
	var inside, grants atomic.Int32
	start := time.Now()
	for _, m := range ms {
		for range 100 {
			wg.Go(func() {
				for range 10 {
					l := mustLock(t, m, "hot")
					require.EqualValues(t, 1, inside.Add(1))
					grants.Add(1)
					inside.Add(-1)
					mustUnlock(t, l)
				}
			})
		}
	}
	wg.Wait()
	t.Log("took", time.Since(start))
	for _, m := range ms {
		t.Logf("%+v", m.Stats())
	}
	require.EqualValues(t, 3000, grants.Load())
}
