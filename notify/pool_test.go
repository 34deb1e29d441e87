package notify_test

import (
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/notify"
)

// poolOfOne runs a test in fake time with a client that has one connection for all that ask for one
// of their own.
func poolOfOne(t *testing.T, test func(t *testing.T, p *pipes, client rueidis.Client)) {
	bubble(t, func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 }, test)
}

// A hub that gets no connection from the client's pool says so, can be closed all the same, and
// leaves no more than the one call that waits.
func TestHub_PoolWithoutAConnectionIsReported(t *testing.T) {
	poolOfOne(t, func(t *testing.T, p *pipes, client rueidis.Client) {
		first := newHub(t, client, notify.Options{})
		defer first.Close()
		a := follow(first.Watch("a"))
		synctest.Wait()
		require.True(t, a.last().Subscribed)

		var mu sync.Mutex
		var states []notify.State
		var log strings.Builder
		second := newHub(t, client, notify.Options{
			DialTimeout: 3 * time.Second,
			OnState: func(s notify.State) {
				mu.Lock()
				states = append(states, s)
				mu.Unlock()
			},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		second.Watch("a")
		time.Sleep(2 * time.Second)
		require.NoError(t, second.Err())
		time.Sleep(1100 * time.Millisecond)
		mu.Lock()
		require.Contains(t, states, notify.StateDown)
		mu.Unlock()
		require.ErrorIs(t, second.Err(), notify.ErrTimeout)
		require.ErrorContains(t, second.Err(), "BlockingPoolSize")
		goroutines := runtime.NumGoroutine()
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+2)
		begin := time.Now()
		second.Close()
		require.Less(t, time.Since(begin), 2*time.Second)
		require.Contains(t, log.String(), "no connection")
		require.EqualValues(t, 2, p.dials.Load())
	})
}

// The connection is used as soon as there is one, and given back to the pool if nobody wants it any
// more.
func TestConnection_OfAPoolIsPassedOn(t *testing.T) {
	poolOfOne(t, func(t *testing.T, p *pipes, client rueidis.Client) {
		first := newHub(t, client, notify.Options{})
		first.Watch("a")
		synctest.Wait()
		second, third := newHub(t, client, notify.Options{}), newHub(t, client, notify.Options{})
		b := follow(second.Watch("b"))
		time.Sleep(time.Minute)
		third.Watch("c")
		time.Sleep(time.Minute)
		second.Close() // its call still waits
		first.Close()
		time.Sleep(time.Minute)
		require.Equal(t, notify.StateConnected, third.Stats().State)
		require.True(t, errors.Is(b.failure(), notify.ErrClosed))
		third.Close()
		synctest.Wait()
		require.EqualValues(t, 1, p.open.Load(), "the client's own")
	})
}

func newHub(t *testing.T, client rueidis.Client, o notify.Options) *notify.Hub {
	return redistest.Must(notify.New(client, o))(t)
}
