package locktest_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
)

// patience is how long a test in real time waits for what must come.
const patience = time.Minute

// proxied returns a proxy before a real server, and a manager that uses it.
func proxied(t *testing.T, o lockmgr.Options) (*locktest.NetProxy, *lockmgr.Manager) {
	p := locktest.Proxy(t, redistest.Start(t).Addr())
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{p.Addr()}}, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Heal()
		require.NoError(t, m.Close(ctx))
	})
	return p, m
}

func awaitLoss(t *testing.T, l *lockmgr.Lock) {
	t.Helper()
	select {
	case <-l.Lost():
	case <-time.After(patience):
		require.Fail(t, "the lock is still held")
	}
}

// works waits until the manager can lock.
func works(t *testing.T, m *lockmgr.Manager) {
	t.Helper()
	require.Eventually(t, func() bool {
		l, err := m.TryLock(ctx, "works")
		return err == nil && l.Unlock(ctx) == nil
	}, patience, 10*time.Millisecond)
}

func TestProxy_Cut(t *testing.T) {
	p, m := proxied(t, lockmgr.Options{})
	l := lock(t, m, "a")
	p.Cut()
	works(t, m)
	require.True(t, l.Valid())
	require.NoError(t, l.Unlock(ctx))
}

func TestProxy_Silence(t *testing.T) {
	p, m := proxied(t, lockmgr.Options{Lease: time.Second})
	l := lock(t, m, "a")
	p.Silence()
	awaitLoss(t, l)
	_, err := m.TryLock(ctx, "a")
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	p.Heal()
	works(t, m)
}

func TestProxy_Refuse(t *testing.T) {
	p, m := proxied(t, lockmgr.Options{Lease: time.Second})
	l := lock(t, m, "a")
	p.Refuse()
	_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{p.Addr()}}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	awaitLoss(t, l)
	p.Heal()
	works(t, m)
}

func TestProxy_Delay(t *testing.T) {
	p, m := proxied(t, lockmgr.Options{})
	works(t, m)
	const d = 200 * time.Millisecond
	slow := func() bool {
		begin := time.Now()
		_, err := m.Inspect(ctx, "a")
		require.NoError(t, err)
		return time.Since(begin) >= d
	}
	p.Delay(d)
	require.True(t, slow())
	p.Delay(2 * d)
	require.True(t, slow())
	p.Heal()
	// A busy machine may be slow without a delay, but not always.
	require.Eventually(t, func() bool { return !slow() }, patience, time.Millisecond)
}
