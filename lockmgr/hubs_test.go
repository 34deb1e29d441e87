package lockmgr

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// The hub of a master that has left is closed when nobody watches a channel there.
func TestHubs_CloseThatOfAMasterThatLeft(t *testing.T) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redistest.Start(t).Addr()}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	var master atomic.Value
	layout := func(context.Context) ([]wire.Shard, error) {
		return []wire.Shard{{Addr: master.Load().(string), Slots: [][2]int{{0, wire.Slots - 1}}}}, nil
	}
	master.Store("a:1")
	first, _ := layout(t.Context())
	lanes := wire.NewLanes(wire.Config{
		Manager: "m", Server: saying{}, Timeout: time.Second, Now: func() time.Duration { return 0 },
		Post: func(*core.Replies) {}, Error: func(*wire.Failure) error { return nil },
	}, &wire.Cluster{First: first, Layout: layout, Every: time.Millisecond, OneSlot: true, Moved: func() {}})
	defer lanes.Close()
	h := newHubs(lanes, func(string, bool) *notify.Hub {
		hub, err := notify.New(client, notify.Options{})
		require.NoError(t, err)
		return hub
	})
	requireWatches := func(hub *notify.Hub, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return hub.Stats().Watches == n }, 10*time.Second, time.Millisecond)
	}
	move := func(to string) {
		t.Helper()
		master.Store(to)
		require.Eventually(t, func() bool { return lanes.Master("x") == to }, 10*time.Second, time.Millisecond)
	}

	atA := h.watch("x", false)
	hubA := h.at[hubKey{"a:1", false}]
	requireWatches(hubA, 1)
	move("b:1")
	h.closeLeft()
	require.Len(t, h.at, 1, "a channel is watched")
	atB := h.watch("x", false)
	hubB := h.at[hubKey{"b:1", false}]
	requireWatches(hubB, 1)
	atA.Close()
	requireWatches(hubA, 0)
	h.closeLeft()
	<-hubA.Done()
	require.Equal(t, map[hubKey]*notify.Hub{{"b:1", false}: hubB}, h.at)

	atB.Close()
	requireWatches(hubB, 0)
	h.closeLeft()
	require.Len(t, h.at, 1, "b serves slots")
	move("a:1")
	again := h.watch("x", false)
	require.NotSame(t, hubA, h.at[hubKey{"a:1", false}])
	_, err = again.Next(0).Await(t.Context())
	require.NoError(t, err)
	h.stop()
	h.closeLeft()
	require.Len(t, h.at, 2, "all are being closed")
	h.wait()
}
