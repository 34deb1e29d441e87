package lockmgr_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A slowHandler is a log handler that calls a function for each record.
type slowHandler struct{ handle func(slog.Record) }

func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h slowHandler) Handle(_ context.Context, r slog.Record) error {
	h.handle(r)
	return nil
}
func (h slowHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h slowHandler) WithGroup(string) slog.Handler      { return h }

// keepThroughTrouble takes a lock with a lease of 1 s, makes commands fail for a moment so that
// there is something to report, and checks that the lock is kept and that the loss of another one
// is reported in time.
func keepThroughTrouble(t *testing.T, w *scene, m *lockmgr.Manager) {
	kept := mustLock(t, m, "kept")
	other := mustLock(t, m, "other")
	lost := other.Lost()
	for range 5 {
		w.server.Set("text", "x")
		require.Error(t, errOf(m.TryLock(ctx, "text")))
		time.Sleep(300 * milli)
	}
	w.server.Del("other")
	begin := time.Now()
	<-lost
	require.Less(t, time.Since(begin), second)
	time.Sleep(10 * second)
	require.NoError(t, kept.Err())
	mustUnlock(t, kept)
}

// A log handler that takes two seconds costs no lock.
func TestLog_SlowHandlerDelaysOnlyItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var lines []string
		m, _ := w.manager(lockmgr.Options{Lease: second, Logger: slog.New(slowHandler{func(r slog.Record) {
			time.Sleep(2 * second)
			lines = append(lines, r.Message)
		}})})
		keepThroughTrouble(t, w, m)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Contains(t, lines, "commands fail")
		require.Contains(t, lines, "lock lost")
		require.Zero(t, m.Stats().DroppedLogs)
	})
}

// An observer that does not return costs no lock either. Events beyond the bound of the queue are
// dropped, counted, and reported once the observer goes on.
func TestObserver_ThatHangsDelaysOnlyItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		leave := make(chan struct{})
		release := sync.OnceFunc(func() { close(leave) })
		defer release()
		var granted, dropped uint64
		var last lockmgr.Event
		m, _ := w.manager(lockmgr.Options{Lease: second, Observer: func(e lockmgr.Event) {
			<-leave
			last = e
			switch e := e.(type) {
			case lockmgr.EventGranted:
				granted++
			case lockmgr.EventDropped:
				dropped += e.Events
			}
		}})
		keepThroughTrouble(t, w, m)
		owner := m.NewOwner()
		l := mustLock(t, m, "a", lockmgr.AsOwner(owner))
		for range lockmgr.MaxUndelivered {
			mustUnlock(t, mustLock(t, m, "a", lockmgr.AsOwner(owner)))
		}
		mustUnlock(t, l)
		synctest.Wait()
		told := m.Stats().DroppedEvents
		require.NotZero(t, told)
		release()
		synctest.Wait()
		require.Equal(t, told, dropped, "all drops are reported")
		require.IsType(t, lockmgr.EventDropped{}, last)
		before := granted
		mustUnlock(t, mustLock(t, m, "b"))
		synctest.Wait()
		require.Equal(t, before+1, granted)
		require.Equal(t, told, m.Stats().DroppedEvents)
	})
}

// While the observer hangs, Close returns when its context ends, and within seconds if that never
// ends.
func TestClose_DoesNotWaitForASlowObserver(t *testing.T) {
	for name, test := range map[string]struct {
		limit, within time.Duration
	}{
		"with a context":    {100 * milli, 250 * milli},
		"without a context": {time.Hour, 3 * second},
	} {
		inBubble(t, name, func(t *testing.T, w *scene) {
			leave := make(chan struct{})
			m := dialNetwork(t, &network{server: w.server}, lockmgr.Options{Observer: func(lockmgr.Event) { <-leave }})
			defer close(leave)
			l := mustAwait(t, m.LockAsync("a"))
			_ = l.UnlockAsync()
			begin := time.Now()
			require.NoError(t, m.Close(endsIn(t, test.limit)))
			require.Less(t, time.Since(begin), test.within)
		})
	}
}

// The observer gets all events up to the end of the manager before Close returns.
func TestClose_WaitsForWhatIsToBeTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var lost bool
		m := dialNetwork(t, &network{server: w.server}, lockmgr.Options{Observer: func(e lockmgr.Event) {
			time.Sleep(100 * milli)
			if _, ok := e.(lockmgr.EventLost); ok {
				lost = true
			}
		}})
		mustLock(t, m, "a")
		mustClose(t, m)
		require.True(t, lost)
	})
}

// Close returns after its context ends even if the manager's goroutine stands still.
func TestClose_DoesNotWaitForTheManagersGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var stopper lockmgr.Stopper
		m := dialNetwork(t, &network{server: w.server}, stopper.Options(lockmgr.Options{}))
		mustLock(t, m, "a")
		resume := stopper.Stop(m)
		begin := time.Now()
		require.ErrorIs(t, m.Close(endsIn(t, second)), context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(begin), 2*second)
		resume()
		require.ErrorContains(t, m.Close(ctx), "releases not confirmed: 1")
	})
}
