package notify

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/actor"
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

// Channels that are not watched any more leave nothing behind, however many there were.
func TestHub_NothingIsLeft(t *testing.T) {
	h, s := &Hub{}, &still{}
	c := newCore(h, s, Options{})
	h.actor = actor.Start[input](c)
	t.Cleanup(h.Close)
	last := h.Watch("last")
	redistest.Must(last.Next(0).Await(t.Context()))(t)
	for i := range 1000 {
		w := h.Watch(fmt.Sprint(i))
		if i%3 > 0 {
			redistest.Must(w.Next(0).Await(t.Context()))(t)
		}
		w.Close()
		if i%100 == 0 {
			s.feed.message(fmt.Sprint(i), "")
		}
	}
	// The state belongs to the hub's goroutine, so that is where to look.
	type left struct {
		channels, slots int
		queued          bool
	}
	look := func() left {
		found := make(chan left, 1)
		w := h.Watch("last")
		defer w.Close()
		w.Next(0).OnDone(func(Wake, error) {
			n := c.conn
			queued := !n.fresh.empty() || !n.drops.empty() || !n.suspects.empty() || !n.refused.empty()
			found <- left{len(n.channels), len(s.feed.slots), queued}
		})
		return <-found
	}
	require.Eventually(t, func() bool { return look() == left{1, 1, false} }, 10*time.Second, time.Millisecond)
	last.Close()
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
