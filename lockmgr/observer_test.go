package lockmgr_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/faults/ends"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The observer gets one event for each grant, and one for each request that was cancelled.
func TestObserver_Balances(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		m, _ := w.manager(lockmgr.Options{Observer: seen.Observe})
		const n = 300
		for i := range n {
			f := m.LockAsync("a")
			if i%3 == 0 {
				f.Cancel() // some race their grant
			}
			f.OnDone(func(l *lockmgr.Lock, err error) {
				if err == nil {
					l.UnlockAsync()
				}
			})
		}
		time.Sleep(second)
		mustClose(t, m)
		granted := faults.Count(seen, faults.Always[lockmgr.EventGranted])
		require.Equal(t, n, granted+faults.Count(seen, faults.Always[lockmgr.EventFailed]))
		require.Equal(t, granted, faults.Count(seen, faults.Always[lockmgr.EventUnlocked]))
	})
}

// However a hold ends, the statistics, the events and the log lines tell the same of it. A loss is
// told once. The EventUnlocked of a lost hold comes after its EventLost.
func TestEnds_ToldTheSameEverywhere(t *testing.T) {
	t.Parallel()
	ends.Each(t, func(t *testing.T, o *lockmgr.Options) func(*lockmgr.Manager, ends.Counts) {
		witness, log := faults.NewWitness(), new(lockedBuffer)
		o.Observer, o.Logger = witness.Observe, slog.New(slog.NewTextHandler(log, nil))
		return func(m *lockmgr.Manager, want ends.Counts) { requireTold(t, m, witness, log.String(), want) }
	})
}

func requireTold(t *testing.T, m *lockmgr.Manager, witness *faults.Witness, log string, want ends.Counts) {
	var events ends.Counts
	lost := map[string]bool{}
	faults.Count(witness, func(e lockmgr.Event) bool {
		switch e := e.(type) {
		case lockmgr.EventGranted:
			if e.Reentry {
				events.Reentered++
			} else {
				events.Granted++
			}
		case lockmgr.EventFailed:
			events.Failed++
		case lockmgr.EventLost:
			lost[e.Owner] = true
			if errors.Is(e.Err, lockmgr.ErrClosed) {
				events.Closed++
			} else {
				events.Lost++
			}
		case lockmgr.EventUnlocked:
			if errors.Is(e.Err, lockmgr.ErrLeaseLost) || errors.Is(e.Err, lockmgr.ErrClosed) {
				require.True(t, lost[e.Owner], "the loss is told first")
			} else {
				events.Unlocked++
			}
		}
		return true
	})
	require.Equal(t, want, events)
	stats := m.Stats()
	require.EqualValues(t, want.Lost+want.Closed, stats.Losses)
	require.EqualValues(t, want.Reentered, stats.Reentries)
	require.Equal(t, want.Lost, strings.Count(log, `msg="lock lost"`), log)
}

type spanKey struct{}

// span makes a context as a tracer would.
func span(name string) context.Context { return context.WithValue(ctx, spanKey{}, name) }

func spanOf(c context.Context) any {
	if c == nil {
		return nil
	}
	return c.Value(spanKey{})
}

// last returns the newest event of a type, once all goroutines of the bubble are blocked.
func last[E lockmgr.Event](t *testing.T, seen *faults.Witness) (newest E) {
	t.Helper()
	synctest.Wait()
	require.NotZero(t, faults.Count(seen, func(e E) bool { newest = e; return true }), "no such event")
	return newest
}

// Events carry their time, the context of the request, how long it waited, how long the lock was
// held and how long commands took.
func TestEvent_TellsTimesAndContexts(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		m, net := w.manager(lockmgr.Options{Lease: 10 * second, Anonymous: true, Observer: seen.Observe})
		l := must(m.Lock(span("first"), "a"))(t)
		granted := last[lockmgr.EventGranted](t, seen)
		require.Equal(t, time.Now(), granted.At)
		require.Equal(t, l.HolderID(), granted.Owner)
		require.False(t, granted.Passed)
		require.Zero(t, granted.Waited)
		require.Equal(t, "first", spanOf(granted.Context))

		// One that waits for it, and one that gives up.
		f := m.LockAsync("a", lockmgr.TraceContext(span("second")))
		require.ErrorIs(t, errOf(m.Lock(span("third"), "a", lockmgr.MaxWait(2*second))), lockmgr.ErrWaitTimeout)
		failed := last[lockmgr.EventFailed](t, seen)
		require.Equal(t, 2*second, failed.Waited)
		require.Equal(t, "third", spanOf(failed.Context))
		require.Contains(t, failed.Owner, m.ID())
		require.Equal(t, time.Now(), failed.At)

		mustUnlock(t, l)
		next := mustAwait(t, f)
		unlocked := last[lockmgr.EventUnlocked](t, seen)
		require.Equal(t, l.HolderID(), unlocked.Owner)
		require.Equal(t, 2*second, unlocked.Held)
		require.Zero(t, unlocked.Took)
		require.Equal(t, "first", spanOf(unlocked.Context))
		granted = last[lockmgr.EventGranted](t, seen)
		require.Equal(t, next.HolderID(), granted.Owner)
		require.True(t, granted.Passed)
		require.InDelta(t, 2, granted.Waited.Seconds(), 0.05, "a client that is not subscribed gets a pause after so long a hold")
		require.Equal(t, "second", spanOf(granted.Context))

		// A slow server.
		time.Sleep(second)
		net.delay.Store(int64(30 * milli))
		mustUnlock(t, next)
		unlocked = last[lockmgr.EventUnlocked](t, seen)
		require.Equal(t, second, unlocked.Held)
		require.GreaterOrEqual(t, unlocked.Took, 30*milli)
		command := last[lockmgr.EventCommand](t, seen)
		require.Equal(t, "release", command.Command)
		require.Equal(t, []string{"a"}, command.Names)
		require.GreaterOrEqual(t, command.Took, 30*milli)
		require.LessOrEqual(t, command.Took, unlocked.Took)
		require.Equal(t, time.Now(), command.At)
		require.NoError(t, command.Err)
		require.Equal(t, lockmgr.EventReleased{Name: "a", At: command.At}, last[lockmgr.EventReleased](t, seen))
		net.delay.Store(0)

		// A loss, and a request without a context.
		l = mustAwait(t, m.LockAsync("b", lockmgr.FixedLease(second)))
		require.Nil(t, last[lockmgr.EventGranted](t, seen).Context)
		<-l.Lost()
		lost := last[lockmgr.EventLost](t, seen)
		require.Equal(t, time.Now(), lost.At)
		require.InDelta(t, second, lost.Held, float64(20*milli))
		require.Equal(t, "b", lost.Name)

		// A reader that joins another.
		reader := mustLock(t, m, "r", lockmgr.Shared())
		require.False(t, last[lockmgr.EventGranted](t, seen).Passed)
		mustUnlock(t, mustLock(t, m, "r", lockmgr.Shared()))
		require.True(t, last[lockmgr.EventGranted](t, seen).Passed)
		mustUnlock(t, reader)

		// A server that does not answer.
		net.hush()
		require.ErrorIs(t, errOf(m.TryLock(ctx, "c")), lockmgr.ErrUnavailable)
		command = last[lockmgr.EventCommand](t, seen)
		require.Equal(t, []string{"c"}, command.Names)
		require.Equal(t, second, command.Took)
		require.ErrorIs(t, command.Err, lockmgr.ErrUnavailable)
		failed = last[lockmgr.EventFailed](t, seen)
		require.Equal(t, second, failed.Waited)
		net.heal()
	})
}

// The event of a wait that a context ended has the error that the caller got.
func TestEvent_OfAWaitThatAContextEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		m, net := w.manager(lockmgr.Options{Observer: seen.Observe})
		l := must(m.Lock(ctx, "a"))(t)
		ended := func(reason string, after time.Duration, until func(ctx context.Context) (context.Context, context.CancelFunc)) {
			t.Helper()
			for _, of := range []string{"the call", "WaitContext"} {
				until, cancel := until(ctx)
				time.AfterFunc(after, cancel)
				call, wait := until, ctx
				if of == "WaitContext" {
					call, wait = ctx, until
				}
				err := errOf(m.Lock(call, "a", lockmgr.WaitContext(wait)))
				require.Equal(t, reason, lockmgr.Reason(err), of)
				require.Equal(t, err, last[lockmgr.EventFailed](t, seen).Err, of)
			}
		}
		deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 4*second)
		}
		m.LockAsync("a", lockmgr.WaitContext(ctx)).Cancel()
		require.Equal(t, lockmgr.ErrCanceled, last[lockmgr.EventFailed](t, seen).Err)
		ended("timeout", 5*second, deadline)
		ended("canceled", second, context.WithCancel)
		net.hush()
		ended("unavailable", 5*second, deadline)
		net.heal()
		mustUnlock(t, l)
	})
}

// A request that is refused before it is made has an event, too.
func TestEvent_OfARequestRefusedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen, n := faults.NewWitness(), 0
		m, _ := w.manager(lockmgr.Options{MaxWaiters: 1, Observer: seen.Observe})
		refused := func(name string, err error) {
			t.Helper()
			require.Error(t, err)
			e := last[lockmgr.EventFailed](t, seen)
			require.Equal(t, name, e.Name)
			require.Equal(t, "span", spanOf(e.Context), name)
			require.Equal(t, err.Error(), e.Err.Error())
			require.Equal(t, time.Now(), e.At)
			require.Zero(t, e.Waited)
			require.Empty(t, e.Owner)
			n++
			require.Equal(t, n, faults.Count(seen, faults.Always[lockmgr.EventFailed]))
		}
		traced := lockmgr.TraceContext(span("span"))
		refused("", errOf(m.Lock(span("span"), "")))
		refused("", errOf(m.LockAsync("", traced).Result()))
		refused("a", errOf(m.TryLock(span("span"), "a", lockmgr.FixedLease(1))))
		refused("a", errOf(m.LockAsync("a", traced, lockmgr.FixedLease(1)).Result()))
		refused("a", errOf(m.LockAsync("a", lockmgr.FixedLease(1), traced).Result()))
		refused("b", m.Do(span("span"), "b", nil, lockmgr.AsOwner(lockmgr.Owner{})))
		refused("", errOf(m.LockAll(span("span"), lockmgr.Set{})))
		refused("", errOf(m.LockAllAsync(lockmgr.Set{}, traced).Result()))
		refused(`"a", "b"`, errOf(m.LockAll(span("span"), lockmgr.All("a", "b"), lockmgr.Fair())))
		p := m.Permits("p", 2)
		refused("p", errOf(p.Acquire(span("span"), 3)))
		refused("p", errOf(p.AcquireAsync(0, traced).Result()))
		refused("p", errOf(p.TryAcquire(span("span"), 1, lockmgr.Fenced())))

		ended, cancel := context.WithCancel(span("span"))
		cancel()
		refused("a", errOf(m.Lock(ended, "a")))
		refused(`"a"`, errOf(m.LockAll(ended, lockmgr.All("a"))))
		refused("p", errOf(p.Acquire(ended, 1)))

		// One request is pending, and there may be no more.
		l := mustLock(t, m, "a")
		waiting := m.LockAsync("a")
		_, err := m.Lock(span("span"), "b")
		require.ErrorIs(t, err, lockmgr.ErrOverloaded)
		refused("b", err)
		waiting.Cancel()
		mustUnlock(t, l)
	})
}

// At is when an event happened, not when the observer got it.
func TestEvent_TellsWhenItHappened(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var at []time.Time
		m, _ := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) {
			time.Sleep(second)
			if e, ok := e.(lockmgr.EventGranted); ok {
				at = append(at, e.At)
			}
		}})
		var want []time.Time
		for range 3 {
			l := mustLock(t, m, "a")
			want = append(want, time.Now())
			mustUnlock(t, l)
			time.Sleep(100 * milli)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, want, at)
	})
}

// The event of a shared command names all its locks.
func TestEvent_NamesTheLocksOfACommand(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		m, _ := w.manager(lockmgr.Options{Lease: second, Observer: seen.Observe})
		want, told := map[string]bool{}, map[string]bool{}
		locks, _ := burst(t, m, numbered("app:", 50))
		time.Sleep(second)
		for _, l := range locks {
			for _, command := range []string{"acquire ", "renew ", "release "} {
				want[command+l.Name()] = true
			}
			_ = l.UnlockAsync()
		}
		synctest.Wait()
		faults.Count(seen, func(e lockmgr.EventCommand) bool {
			for _, name := range e.Names {
				told[e.Command+" "+name] = true
			}
			return true
		})
		require.Equal(t, want, told)
	})
}
