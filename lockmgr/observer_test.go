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

func TestObserver(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var events []lockmgr.Event
		m, _ := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) { events = append(events, e) }})
		l := mustLock(t, m, "a")
		f := m.LockAsync("a")
		mustUnlock(t, l)
		l2 := mustAwait(t, f)
		mustUnlock(t, l2)
		synctest.Wait()
		require.Equal(t, []lockmgr.Event{
			lockmgr.EventGranted{Name: "a", Owner: l.HolderID()},
			lockmgr.EventUnlocked{Name: "a", Owner: l.HolderID()},
			lockmgr.EventGranted{Name: "a", Owner: l2.HolderID(), Passed: true},
			lockmgr.EventReleased{Name: "a"},
			lockmgr.EventUnlocked{Name: "a", Owner: l2.HolderID()},
		}, withoutConnection(events))
	})
}

// withoutConnection leaves out times, and events that concern no lock.
func withoutConnection(events []lockmgr.Event) (out []lockmgr.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case lockmgr.EventSubscription, lockmgr.EventCommand:
		case lockmgr.EventGranted:
			e.At, e.Context, e.Waited = time.Time{}, nil, 0
			out = append(out, e)
		case lockmgr.EventUnlocked:
			e.At, e.Context, e.Held, e.Took = time.Time{}, nil, 0, 0
			out = append(out, e)
		case lockmgr.EventReleased:
			e.At = time.Time{}
			out = append(out, e)
		default:
			out = append(out, e)
		}
	}
	return out
}

// The observer gets one event for each grant, and one for each request that was cancelled.
func TestObserver_Balances(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var granted, failed, unlocked int
		m, _ := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) {
			switch e.(type) {
			case lockmgr.EventGranted:
				granted++
			case lockmgr.EventFailed:
				failed++
			case lockmgr.EventUnlocked:
				unlocked++
			}
		}})
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
		require.Equal(t, n, granted+failed)
		require.Equal(t, granted, unlocked)
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
func last[E lockmgr.Event](t *testing.T, events *[]lockmgr.Event) E {
	t.Helper()
	synctest.Wait()
	for i := len(*events) - 1; i >= 0; i-- {
		if e, ok := (*events)[i].(E); ok {
			return e
		}
	}
	require.FailNow(t, "no such event")
	panic("unreachable")
}

// Events carry their time, the context of the request, how long it waited, how long the lock was
// held and how long commands took.
func TestEvent_TellsTimesAndContexts(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var events []lockmgr.Event
		m, net := w.manager(lockmgr.Options{Lease: 10 * second, Anonymous: true, Observer: func(e lockmgr.Event) { events = append(events, e) }})
		l := must(m.Lock(span("first"), "a"))(t)
		granted := last[lockmgr.EventGranted](t, &events)
		require.Equal(t, time.Now(), granted.At)
		require.Zero(t, granted.Waited)
		require.Equal(t, "first", spanOf(granted.Context))

		// One that waits for it, and one that gives up.
		f := m.LockAsync("a", lockmgr.TraceContext(span("second")))
		require.ErrorIs(t, errOf(m.Lock(span("third"), "a", lockmgr.MaxWait(2*second))), lockmgr.ErrWaitTimeout)
		failed := last[lockmgr.EventFailed](t, &events)
		require.Equal(t, 2*second, failed.Waited)
		require.Equal(t, "third", spanOf(failed.Context))
		require.Contains(t, failed.Owner, m.ID())
		require.Equal(t, time.Now(), failed.At)

		mustUnlock(t, l)
		next := mustAwait(t, f)
		unlocked := last[lockmgr.EventUnlocked](t, &events)
		require.Equal(t, 2*second, unlocked.Held)
		require.Zero(t, unlocked.Took)
		require.Equal(t, "first", spanOf(unlocked.Context))
		granted = last[lockmgr.EventGranted](t, &events)
		require.InDelta(t, 2, granted.Waited.Seconds(), 0.05, "a client that is not subscribed gets a pause after so long a hold")
		require.Equal(t, "second", spanOf(granted.Context))

		// A slow server.
		time.Sleep(second)
		net.delay.Store(int64(30 * milli))
		mustUnlock(t, next)
		unlocked = last[lockmgr.EventUnlocked](t, &events)
		require.Equal(t, second, unlocked.Held)
		require.GreaterOrEqual(t, unlocked.Took, 30*milli)
		command := last[lockmgr.EventCommand](t, &events)
		require.Equal(t, "release", command.Command)
		require.Equal(t, []string{"a"}, command.Names)
		require.GreaterOrEqual(t, command.Took, 30*milli)
		require.LessOrEqual(t, command.Took, unlocked.Took)
		require.Equal(t, time.Now(), command.At)
		require.NoError(t, command.Err)
		net.delay.Store(0)

		// A loss, and a request without a context.
		l = mustAwait(t, m.LockAsync("b", lockmgr.FixedLease(second)))
		require.Nil(t, last[lockmgr.EventGranted](t, &events).Context)
		<-l.Lost()
		lost := last[lockmgr.EventLost](t, &events)
		require.Equal(t, time.Now(), lost.At)
		require.InDelta(t, second, lost.Held, float64(20*milli))
		require.Equal(t, "b", lost.Name)

		// A server that does not answer.
		net.hush()
		require.ErrorIs(t, errOf(m.TryLock(ctx, "c")), lockmgr.ErrUnavailable)
		command = last[lockmgr.EventCommand](t, &events)
		require.Equal(t, []string{"c"}, command.Names)
		require.Equal(t, second, command.Took)
		require.ErrorIs(t, command.Err, lockmgr.ErrUnavailable)
		failed = last[lockmgr.EventFailed](t, &events)
		require.Equal(t, second, failed.Waited)
		net.heal()
	})
}

// The event of a wait that a context ended has the error that the caller got.
func TestEvent_OfAWaitThatAContextEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var failed []lockmgr.Event
		m, net := w.manager(lockmgr.Options{Observer: func(e lockmgr.Event) {
			if _, ok := e.(lockmgr.EventFailed); ok { // others come while the test goes on
				failed = append(failed, e)
			}
		}})
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
				require.Equal(t, err, last[lockmgr.EventFailed](t, &failed).Err, of)
			}
		}
		deadline := func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 4*second)
		}
		m.LockAsync("a", lockmgr.WaitContext(ctx)).Cancel()
		require.Equal(t, lockmgr.ErrCanceled, last[lockmgr.EventFailed](t, &failed).Err)
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
		var events []lockmgr.Event
		m, _ := w.manager(lockmgr.Options{MaxWaiters: 1, Observer: func(e lockmgr.Event) {
			if _, ok := e.(lockmgr.EventFailed); ok {
				events = append(events, e)
			}
		}})
		refused := func(name string, err error) {
			t.Helper()
			require.Error(t, err)
			e := last[lockmgr.EventFailed](t, &events)
			require.Equal(t, name, e.Name)
			require.Equal(t, "span", spanOf(e.Context), name)
			require.Equal(t, err.Error(), e.Err.Error())
			require.Equal(t, time.Now(), e.At)
			require.Zero(t, e.Waited)
			require.Empty(t, e.Owner)
			require.Len(t, events, 1)
			events = nil
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
		var events []lockmgr.Event
		m, _ := w.manager(lockmgr.Options{Lease: second, Observer: func(e lockmgr.Event) { events = append(events, e) }})
		names := map[string]bool{}
		locks, _ := burst(t, m, numbered("app:", 50))
		time.Sleep(second)
		for _, l := range locks {
			names[l.Name()] = true
			_ = l.UnlockAsync()
		}
		synctest.Wait()
		seen := map[string]map[string]bool{}
		for _, e := range events {
			if e, ok := e.(lockmgr.EventCommand); ok {
				for _, name := range e.Names {
					if seen[e.Command] == nil {
						seen[e.Command] = map[string]bool{}
					}
					seen[e.Command][name] = true
				}
			}
		}
		require.Equal(t, map[string]map[string]bool{"acquire": names, "renew": names, "release": names}, seen)
	})
}
