package lockmgr

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A note is a value that a dispatcher of these tests delivers. A negative note -n reports that n
// were dropped.
type note int

func newNotes(limit int, deliver func(note)) *dispatcher[note] {
	d := newDispatcher(deliver, func(n uint64) note { return -note(n) })
	d.limit = limit
	return d
}

func TestDispatcher_ReportsDropsInTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []note
		next := make(chan struct{})
		d := newNotes(3, func(n note) { <-next; got = append(got, n) })
		for n := range note(6) { // 0 to 2 fit in
			d.put(n + 1)
			synctest.Wait()
		}
		next <- struct{}{}
		synctest.Wait()
		d.put(7) // there is room, and three are missing before it
		for range 4 {
			next <- struct{}{}
		}
		synctest.Wait()
		require.Equal(t, []note{1, 2, 3, -3, 7}, got)
		require.EqualValues(t, 3, d.drops())
	})
}

// Values of several goroutines arrive one at a time, and those of each in order.
func TestDispatcher_KeepsTheOrder(t *testing.T) {
	const producers, each = 4, 2000
	var last [producers]note
	d := newNotes(producers*each, func(n note) {
		p, i := n%producers, n/producers
		require.Equal(t, last[p]+1, i)
		last[p] = i
	})
	var wg sync.WaitGroup
	for p := range note(producers) {
		wg.Go(func() {
			for i := range note(each) {
				d.put((i+1)*producers + p)
			}
		})
	}
	wg.Wait()
	d.finish(t.Context())
	for _, n := range last {
		require.EqualValues(t, each, n)
	}
	require.Zero(t, d.drops())
}

// finish ends with its context, drops the rest, and leaves no goroutine once the delivery in hand
// has returned.
func TestDispatcher_EndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []note
		next := make(chan struct{})
		d := newNotes(10, func(n note) { <-next; got = append(got, n) })
		for n := range note(5) {
			d.put(n + 1)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		d.finish(ctx)
		require.Equal(t, time.Second, time.Since(begin))
		d.put(6)
		close(next)
		synctest.Wait()
		require.Equal(t, []note{1}, got)
		require.False(t, d.running)
	})
}

// A log handler gets no line of a level that is disabled. Attributes and groups of the logger reach
// it.
func TestLog_QueuedHandlerIsALogHandler(t *testing.T) {
	var out strings.Builder // finish waits for the last write
	next := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})
	lines := newLineDispatcher(next)
	log := slog.New(queuedHandler{lines, next}).With("a", 1).WithGroup("g")
	log.Info("no")
	log.Warn("yes", "b", 2)
	lines.finish(t.Context())
	require.NotContains(t, out.String(), "no")
	require.Contains(t, out.String(), "level=WARN msg=yes a=1 g.b=2")
}
