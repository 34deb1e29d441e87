package lockmgr_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A set hears the messages of each item. One that does not would poll every 10 ms. Once
// nobody waits, the manager hears no channel any more.
func TestLockAll_HearsEachItem(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m, other := dial(t, s.Addr(), lockmgr.Options{Linger: time.Millisecond}), dial(t, s.Addr(), lockmgr.Options{})
	ctx := faults.Patient(t)
	channels := func(n string) {
		t.Helper()
		heard := func() bool { return faults.Do(t, s, "EVAL", "return #redis.call('PUBSUB', 'CHANNELS')", "0") == n }
		faults.Eventually(t, heard)
	}
	var held []*lockmgr.Lock
	for _, name := range []string{"a", "b"} {
		l, err := other.Lock(ctx, name)
		require.NoError(t, err)
		held = append(held, l)
	}
	for _, name := range []string{"r", "w", "x"} {
		l, err := other.Lock(ctx, name, lockmgr.Exclusive())
		require.NoError(t, err)
		held = append(held, l)
	}
	f := m.LockAllAsync(mixed)
	channels("5")
	time.Sleep(20 * time.Millisecond) // until the try on the confirmation is answered
	before := m.Stats().Polls
	for _, l := range held {
		time.Sleep(100 * time.Millisecond)
		requirePending(t, f)
		require.NoError(t, l.Unlock(ctx))
	}
	l, err := f.Await(ctx)
	require.NoError(t, err)
	require.Less(t, m.Stats().Polls-before, uint64(5))
	require.NoError(t, l.Unlock(ctx))
	channels("0")
	require.Zero(t, m.Stats().Subscriptions)
}
