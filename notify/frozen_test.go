//go:build unix

package notify_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/notify"
)

// A server that hangs, with all its connections standing, is noticed by the
// client's pings.
func TestHub_FrozenServer(t *testing.T) {
	protocols(t, func(t *testing.T, resp2 func(*rueidis.ClientOption)) {
		s := redistest.Start(t).Unrestricted() // the channels here are not those of locks
		client := connect(t, s.Addr(), resp2, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 200 * time.Millisecond })
		hub := open(t, client, notify.Options{})
		cs := watchMany(hub, 10)
		awaitAll(t, cs, subscribed)
		s.Signal(syscall.SIGSTOP)
		awaitAll(t, cs, reasons(notify.ReasonGap))
		require.Error(t, hub.Err())
		s.Signal(syscall.SIGCONT)
		awaitAll(t, cs, subscribed)
		require.Equal(t, 10, subscribers(t, s, cs))
	})
}
