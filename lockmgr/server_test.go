package lockmgr_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var ctx = context.Background()

func dial(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	if o.Process == (lockmgr.Process{}) {
		o.Anonymous = true // many tests count keys and commands
	}
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{addr}}, o)
	require.NoError(t, err)
	faults.CloseAtEnd(t, m)
	return m
}

func TestServer_LockAndUnlock(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	l, err := m.Lock(ctx, "orders:42")
	require.NoError(t, err)
	require.True(t, l.Valid())
	info, err := m.Inspect(ctx, "orders:42")
	require.NoError(t, err)
	require.Equal(t, []lockmgr.Holder{{Owner: l.HolderID(), Count: 1}}, faults.Entries(info))
	require.NoError(t, l.Unlock(ctx))
	require.False(t, l.Valid())
	require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrNotHeld)
	info, err = m.Inspect(ctx, "orders:42")
	require.NoError(t, err)
	require.False(t, info.Locked)
}

func TestServer_ThousandWaiters(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	first, err := m.Lock(ctx, "hot")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var inside, grants atomic.Int32
	for range 1000 {
		f := m.LockAsync("hot")
		wg.Go(func() {
			l, err := f.Await(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 1, inside.Add(1))
			grants.Add(1)
			inside.Add(-1)
			require.NoError(t, l.Unlock(ctx))
		})
	}
	before := m.Stats().Scripts
	start := time.Now()
	require.NoError(t, first.Unlock(ctx))
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
					l, err := m.Lock(ctx, "hot")
					require.NoError(t, err)
					require.EqualValues(t, 1, inside.Add(1))
					grants.Add(1)
					inside.Add(-1)
					require.NoError(t, l.Unlock(ctx))
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
