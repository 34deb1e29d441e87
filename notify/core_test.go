package notify

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A cancelled Next leaves nothing behind.
func TestCancel(t *testing.T) {
	_, w, f := subscribedTo(t, "c")
	for range 1000 {
		require.True(t, w.Next(1).Cancel())
	}
	require.Empty(t, w.waiting)
	kept, dropped := w.Next(1), w.Next(1)
	require.True(t, dropped.Cancel())
	f.message("c", "")
	wake := redistest.Must(kept.Await(t.Context()))(t)
	require.EqualValues(t, 2, wake.Seq)
	require.Empty(t, w.waiting)
}

// Stats and Err include an event as soon as a watch gets it, even in the callback.
func TestStats_AsNewAsTheWake(t *testing.T) {
	h, w, f := subscribedTo(t, "c")
	require.Equal(t, 1, h.Stats().Confirmed)
	stats := make(chan Stats)
	w.Next(1).OnDone(func(Wake, error) { stats <- h.Stats() })
	f.ended(errors.New("broken"))
	s := <-stats
	require.Zero(t, s.Confirmed)
	require.EqualValues(t, 1, s.Losses)
	require.EqualError(t, s.Err, "notify: connection: broken")
}

func TestBackoff(t *testing.T) {
	b := newBackoff(10*time.Millisecond, 75*time.Millisecond)
	for range 100 {
		for _, most := range []time.Duration{10, 20, 40, 75, 75, 75} {
			d := b.next()
			require.LessOrEqual(t, d, most*time.Millisecond)
			require.GreaterOrEqual(t, d, most*time.Millisecond/2)
		}
		b.reset()
	}
}

func TestNames(t *testing.T) {
	require.Equal(t, "Confirmed+Message+Gap+Refused", (ReasonConfirmed | ReasonMessage | ReasonGap | ReasonRefused).String())
	require.Empty(t, Reason(0).String())
	for s, name := range map[State]string{StateIdle: "idle", StateConnecting: "connecting", StateConnected: "connected", StateDown: "down", StateClosed: "closed", 9: "State(9)"} {
		require.Equal(t, name, s.String())
	}
}

func TestOptions(t *testing.T) {
	o := Options{}.withDefaults()
	require.NotNil(t, o.Logger)
	o.Logger = nil
	require.Equal(t, Options{RetryMin: 10 * time.Millisecond, RetryMax: time.Second, DialTimeout: 5 * time.Second, CommandTimeout: 2 * time.Second, IdleTimeout: time.Minute}, o)
	o = Options{RetryMin: time.Minute, RetryMax: time.Second}.withDefaults()
	require.Equal(t, time.Minute, o.RetryMax)
}
