package locker

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestCandidate_NamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		require.False(t, seen[c.Name], c.Name)
		require.NotEmpty(t, c.About, c.Name)
		seen[c.Name] = true
		found, ok := ByName(c.Name)
		require.True(t, ok)
		require.Equal(t, c.Kind, found.Kind)
	}
	_, ok := ByName("nobody")
	require.False(t, ok)
}

// Whatever is compared must be a lock: of two clients, one caller at a time, and all get their
// turn.
func TestCandidate_ExcludesAndServesAll(t *testing.T) {
	s := redistest.Start(t)
	for _, name := range append(Names(Holdfast, Waker, Peer, Neighbour, ReadWrite, Permit, Fair), "raw handover") {
		if name == "rueidislock" || name == "rueidislock tuned" {
			continue // may leave a waiter behind, which a run reports
		}
		t.Run(name, func(t *testing.T) {
			c, _ := ByName(name)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var inside, grants atomic.Int64
			var wg sync.WaitGroup
			for client := range 2 {
				l := redistest.Must(c.Open(ctx, Config{Addr: s.Addr(), Seed: uint64(client)}))(t)
				defer l.Close()
				for range 4 {
					wg.Go(func() {
						h, err := l.Lock(ctx, "name of "+c.Name)
						if err != nil {
							t.Error(err)
							return
						}
						if inside.Add(1) != 1 {
							t.Error("two inside")
						}
						grants.Add(1)
						inside.Add(-1)
						if err := h.Unlock(ctx); err != nil {
							t.Error(err)
						}
					})
				}
			}
			wg.Wait()
			require.Equal(t, int64(8), grants.Load())
		})
	}
}

// As many callers of two clients have a permit at a time as there are, and no more. All get their
// turns.
func TestCandidate_PermitsLimitAndServeAll(t *testing.T) {
	s := redistest.Start(t)
	const limit, callers, turns = 100, 150, 3
	for _, name := range Names(Holdfast, Permit) {
		t.Run(name, func(t *testing.T) {
			c, _ := ByName(name)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var inside, grants atomic.Int64
			full := make(chan struct{}) // closed when all permits are taken
			var once sync.Once
			var wg sync.WaitGroup
			for client := range 2 {
				l := redistest.Must(c.Open(ctx, Config{Addr: s.Addr(), Seed: uint64(client)}))(t)
				defer l.Close()
				for range callers {
					wg.Go(func() {
						for range turns {
							h, err := l.(Limiter).Acquire(ctx, "permits of "+c.Name, limit)
							if err != nil {
								t.Error(err)
								return
							}
							n := inside.Add(1)
							if n > limit {
								t.Errorf("%d inside", n)
							}
							if n >= limit {
								once.Do(func() { close(full) })
							}
							select {
							case <-full:
								if _, err := s.Do("PING"); err != nil { // the work of the caller: a round trip
									t.Error(err)
								}
							case <-ctx.Done():
							}
							grants.Add(1)
							inside.Add(-1)
							if err := h.Unlock(ctx); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			wg.Wait()
			require.Equal(t, int64(2*callers*turns), grants.Load())
		})
	}
}

// Waiters of two clients are served in the order in which they have come. One that gives up leaves
// nothing behind that the others wait for.
func TestCandidate_FairServesInOrder(t *testing.T) {
	s := redistest.Start(t)
	for _, name := range []string{"holdfast", "one channel a waiter"} {
		t.Run(name, func(t *testing.T) {
			c, _ := ByName(name)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var clients []FairLocker
			for client := range 3 {
				l := redistest.Must(c.Open(ctx, Config{Addr: s.Addr(), Seed: uint64(client)}))(t)
				defer l.Close()
				clients = append(clients, l.(FairLocker))
			}
			key := "order of " + c.Name
			inQueue := func(n int) {
				t.Helper()
				require.Eventually(t, func() bool {
					text, err := s.Do("LLEN", QueueKey(key))
					return err == nil && text == strconv.Itoa(n)
				}, 10*time.Second, time.Millisecond)
			}
			held := redistest.Must(clients[2].LockFair(ctx, key))(t)

			short, giveUp := context.WithCancel(ctx)
			gone := make(chan error)
			go func() {
				_, err := clients[0].LockFair(short, key)
				gone <- err
			}()
			inQueue(1)

			var order []int
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					h, err := clients[i%2].LockFair(ctx, key)
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, i)
					if err := h.Unlock(ctx); err != nil {
						t.Error(err)
					}
				})
				inQueue(i + 2)
			}
			giveUp()
			require.Error(t, <-gone)
			inQueue(20)
			require.NoError(t, held.Unlock(ctx))
			wg.Wait()
			for i, caller := range order {
				require.Equal(t, i, caller, "%v", order)
			}
			inQueue(0)
		})
	}
}

// Sets that overlap exclude each other, and all get their turn.
func TestCandidate_SetsExcludeAndServeAll(t *testing.T) {
	s := redistest.Start(t)
	for _, name := range []string{"holdfast", "Lock one by one", "bsm/redislock tuned"} {
		t.Run(name, func(t *testing.T) {
			c, _ := ByName(name)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var inside [3]atomic.Int64
			var wg sync.WaitGroup
			for client := range 2 {
				l := redistest.Must(c.Open(ctx, Config{Addr: s.Addr(), Seed: uint64(client)}))(t)
				defer l.Close()
				for _, set := range [][]int{{0, 1}, {1, 2}, {0, 2}, {0, 1, 2}} {
					wg.Go(func() {
						var names []string
						for _, i := range set {
							names = append(names, string(rune('a'+i))+" of "+c.Name)
						}
						h, err := l.(SetLocker).LockSet(ctx, names)
						if err != nil {
							t.Error(err)
							return
						}
						for _, i := range set {
							if inside[i].Add(1) != 1 {
								t.Error("two inside")
							}
						}
						for _, i := range set {
							inside[i].Add(-1)
						}
						if err := h.Unlock(ctx); err != nil {
							t.Error(err)
						}
					})
				}
			}
			wg.Wait()
		})
	}
}

// One of a set that is held makes the wait for all of it end with its context, and then the others
// are free.
func TestCandidate_SetIsAllOrNothing(t *testing.T) {
	s := redistest.Start(t)
	for _, name := range append(Names(Holdfast, Several), "bsm/redislock tuned") {
		t.Run(name, func(t *testing.T) {
			c, _ := ByName(name)
			l := redistest.Must(c.Open(t.Context(), Config{Addr: s.Addr()}))(t)
			defer l.Close()
			a, b := "a of "+name, "b of "+name
			h := redistest.Must(l.Lock(t.Context(), b))(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			_, err := l.(SetLocker).LockSet(ctx, []string{a, b})
			require.Error(t, err)
			free := redistest.Must(l.Lock(t.Context(), a))(t)
			require.NoError(t, free.Unlock(t.Context()))
			require.NoError(t, h.Unlock(t.Context()))
			h = redistest.Must(l.(SetLocker).LockSet(t.Context(), []string{a, b}))(t)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

// A wait ends with its context, for all of them.
func TestCandidate_WaitEndsWithItsContext(t *testing.T) {
	s := redistest.Start(t)
	for _, name := range Names(Holdfast, Waker, Peer, Neighbour, Permit, Fair) {
		t.Run(name, func(t *testing.T) {
			c, _ := ByName(name)
			l := redistest.Must(c.Open(t.Context(), Config{Addr: s.Addr()}))(t)
			defer l.Close()
			h := redistest.Must(l.Lock(t.Context(), "w"+name))(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			_, err := l.Lock(ctx, "w"+name)
			require.Error(t, err)
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
}

func TestCandidate_RawBatchesRun(t *testing.T) {
	addr, _ := redistest.Mini(t)
	c, _ := ByName("raw batches")
	l := redistest.Must(c.Open(t.Context(), Config{Addr: addr}))(t)
	defer l.Close()
	var n atomic.Int64
	err := l.(Pairer).Pairs(t.Context(), []string{"a", "b", "c"},
		func() bool { return n.Load() > 10 }, func(int, time.Time) { n.Add(1) })
	require.NoError(t, err)
	require.Greater(t, n.Load(), int64(10))
}

// An unlock gives the lock to the client that waits, and joins the line for the next caller of its
// own. A grant that no caller wants goes back.
func TestCandidate_RawHandover(t *testing.T) {
	s := redistest.Start(t)
	c, _ := ByName("raw handover")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a := redistest.Must(c.Open(ctx, Config{Addr: s.Addr()}))(t)
	defer a.Close()
	b := redistest.Must(c.Open(ctx, Config{Addr: s.Addr()}))(t)
	defer b.Close()
	server := func(want string, args ...string) {
		t.Helper()
		require.Eventually(t, func() bool { got, err := s.Do(args...); return err == nil && got == want }, 10*time.Second, time.Millisecond)
	}
	lock := func(l Locker) <-chan Held {
		held := make(chan Held, 1)
		go func() {
			h, err := l.Lock(ctx, "n")
			if err != nil {
				t.Error(err)
			}
			held <- h
		}()
		return held
	}
	mine := func(l Locker) string { return l.(*handover).owner }

	h := redistest.Must(a.Lock(ctx, "n"))(t)
	waiting := lock(b)
	server("1", "LLEN", lineKey("n"))
	require.NoError(t, h.Unlock(ctx))
	h = <-waiting
	server(mine(b), "GET", "n")
	server(mine(a), "LINDEX", lineKey("n"), "0")
	waiting = lock(a)
	require.NoError(t, h.Unlock(ctx))
	h = <-waiting
	server(mine(a), "GET", "n")
	require.NoError(t, h.Unlock(ctx))
	server("0", "EXISTS", "n", lineKey("n"))
	h = redistest.Must(b.Lock(ctx, "n"))(t)
	require.NoError(t, h.Unlock(ctx))
}
