package interop

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The tests of this file are about failures of Redisson's fair lock that users have reported. The
// numbers are those of the issues. Go does not fail so, beside threads of Redisson that wait in the
// same queue.

// Requests with short waits and long leases come and go, and the deadlines do not pile up (#1104).
func TestFair_ShortWaitsWithLongLeases(t *testing.T) {
	const (
		wait   = 200 * time.Millisecond
		lease  = 30 * time.Second
		length = 2500 * time.Millisecond
		each   = 3 // threads, and goroutines
	)
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, java := w.manager(t, lockmgr.Options{}), w.open(t, request{})
		holder := lock(t, m, name, fairly)
		patient := []*member{w.javaJoins(t, java.thread("patient"), name, 0), w.goJoins(t.Context(), t, m, name)}
		watch := w.watchLine(t, name, patient)
		running := java.thread("load").fair().sendRequest(t, request{
			Op: "grants", Name: name, Threads: each, Wait: wait.Milliseconds(), Lease: lease.Milliseconds(), Millis: length.Milliseconds(),
		})
		end := time.Now().Add(length)
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range each {
			wg.Go(func() {
				for time.Now().Before(end) {
					_, err := m.Lock(t.Context(), name, fairly, lockmgr.MaxWait(wait), lockmgr.FixedLease(lease))
					if !gaveUp(err) {
						t.Errorf("Lock: %v", err)
						return
					}
					refused.Add(1)
				}
			})
		}
		var last time.Duration
		for time.Now().Before(end) {
			for _, left := range w.left(t, name) {
				last = max(last, left)
			}
			time.Sleep(5 * time.Millisecond)
		}
		wg.Wait()
		r := running.report(t)
		t.Logf("%d waits of Go and %d of Java ended without the lock; the latest deadline was %v away", refused.Load(), r.Refused, last)
		require.Empty(t, r.Errors)
		require.Zero(t, r.Grants)
		require.Greater(t, r.Refused, int64(each))
		// The lease of the holder, the waits of all of them, the place.
		require.Less(t, last, lease+5*time.Minute+2*each*wait+placeTime+time.Second)
		w.awaitQueue(t, name, patient...)
		begin := time.Now()
		unlock(t, holder)
		serveAll(t, patient...)
		require.Less(t, time.Since(begin), eventLimit)
		watch.end(t)
		unlock(t, lock(t, m, name, fairly, lockmgr.MaxWait(wait)))
	})
}

// Hundreds wait at a time, with fixed leases, and all of them have their turn (#2883).
func TestFair_HundredsWithFixedLeases(t *testing.T) {
	const (
		threads = 75 // of each client, and goroutines of each manager
		lease   = 5 * time.Second
	)
	each(t, func(t *testing.T, w *world) {
		name, counter := w.fairName(t, ""), w.counter(t, 4*threads)
		load := counter.request(name, threads)
		load.Times, load.Lease = 1, lease.Milliseconds()
		one, two := w.two(t)
		begin := time.Now()
		holder := lock(t, w.manager(t, lockmgr.Options{}), name, fairly)
		var running []*call
		for _, c := range []*client{one, two} {
			running = append(running, c.thread("load").fair().sendRequest(t, load))
		}
		var wg sync.WaitGroup
		for range 2 {
			m := w.manager(t, lockmgr.Options{})
			for range threads {
				wg.Go(func() {
					again(t, func() (*lockmgr.Lock, error) {
						return m.Lock(t.Context(), name, fairly, lockmgr.FixedLease(lease))
					}, func() (more bool, err error) {
						_, err = counter.count()
						return false, err
					})
				})
			}
		}
		eventually(t, func() bool { return len(w.queue(t, name)) == 4*threads }, func() string { return fmt.Sprint(len(w.queue(t, name)), " wait") })
		joined := time.Since(begin)
		unlock(t, holder)
		wg.Wait()
		first, second := running[0].report(t), running[1].report(t)
		require.EqualValues(t, threads, first.Grants)
		t.Logf("all had joined after %v, and had their turns after %v", joined.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
		counter.requireExact(t, first, second)
		require.EqualValues(t, 2*threads, counter.grants.Load())
	})
}

// Go waits for longer than Redisson keeps a place, and is woken (#3004).
//
// A thread of Java that is first in the queue does lose its place. 4.7.0 looks again when the lease
// that it was told is over, and joins again at the end. 3.16.8 may sleep without end.
func TestFair_WaitsBeyondTheWaitTime(t *testing.T) {
	const (
		wait  = time.Second // five minutes by default
		lease = time.Second
		held  = 3500 * time.Millisecond
	)
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, other, java := w.manager(t, withLease(lease)), w.manager(t, withLease(lease)), w.open(t, request{FairWait: wait.Milliseconds()})
		holder := lock(t, m, name, fairly)
		first := w.javaJoins(t, java.thread("first"), name, 0)
		left := w.left(t, name)[first.id]
		require.LessOrEqual(t, left, lease+wait)
		all := []*member{
			w.goJoins(t.Context(), t, m, name),
			w.javaJoins(t, java.thread("second"), name, 0),
			w.goJoins(t.Context(), t, other, name),
		}
		watch := w.watchLine(t, name, all)
		time.Sleep(held)
		unlock(t, holder)
		serveAll(t, all...)
		watch.end(t)
		select {
		case <-first.call.done:
		case <-time.After(2 * lease):
			require.Equal(t, oldest, w.version)
			t.Log("the thread that was first in the queue has not been woken")
			require.NoError(t, first.java.send(t, "interrupt", name).result(t))
			require.ErrorContains(t, first.call.result(t), "InterruptedException")
			return
		}
		serveAll(t, first)
	})
}

// Leases end without an unlock, and the next one has its turn then (#3730).
func TestFair_LeasesThatEnd(t *testing.T) {
	const lease = 300 * time.Millisecond
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		one, two, java := w.manager(t, lockmgr.Options{}), w.manager(t, lockmgr.Options{}), w.open(t, request{})
		lock(t, one, name, fairly, lockmgr.FixedLease(lease))
		var all []*member
		for i := range 8 {
			switch {
			case i%2 == 0:
				all = append(all, w.javaJoinsFor(t, java.thread(strconv.Itoa(i)), name, 10*time.Second, lease))
			case i%4 == 1:
				all = append(all, w.goJoins(t.Context(), t, one, name, lockmgr.FixedLease(lease)))
			default:
				all = append(all, w.goJoins(t.Context(), t, two, name, lockmgr.FixedLease(lease)))
			}
		}
		for i, m := range all {
			m.hasLock(t, all[i+1:]...)
		}
		t.Logf("%d leases of %v took %v", len(all)-1, lease, all[len(all)-1].ended().Sub(all[0].ended()).Round(time.Millisecond))
	})
}

// The server does not answer while waits of Go end. It has none of their places afterwards (#5019).
func TestFair_TimeoutsLeaveNoPlace(t *testing.T) {
	const (
		wait  = 300 * time.Millisecond
		pause = 1200 * time.Millisecond
	)
	together(t, func(t *testing.T, w *world) {
		name := w.fairName(t, "")
		m, java := w.manager(t, lockmgr.Options{CommandTimeout: wait}), w.open(t, request{})
		holder := lock(t, m, name, fairly)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stay := []*member{w.javaJoins(t, java.thread("a"), name, 0)}
		leave := []*member{
			w.goJoins(t.Context(), t, m, name, lockmgr.MaxWait(wait)),
			w.goJoins(ctx, t, m, name),
		}
		stay = append(stay, w.goJoins(t.Context(), t, m, name), w.javaJoins(t, java.thread("b"), name, 0))
		// Not by ClientPause, for which the tests' client would open another connection.
		pauses := w.redis.B().Arbitrary("CLIENT", "PAUSE", strconv.FormatInt(pause.Milliseconds(), 10), "WRITE").Build()
		require.NoError(t, w.redis.Do(background, pauses).Error())
		// These are in the queue late, or never.
		late := make(chan error)
		go func() {
			_, err := m.Lock(t.Context(), name, fairly, lockmgr.MaxWait(wait))
			late <- err
		}()
		cancel()
		for _, m := range leave {
			m.gaveUp(t)
		}
		require.Error(t, <-late)
		w.awaitQueue(t, name, stay...)
		unlock(t, holder)
		serveAll(t, stay...)
	})
}
