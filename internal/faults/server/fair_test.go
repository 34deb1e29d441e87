package server_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A fairLine is a fair lock and the requests of some managers for it.
type fairLine struct {
	faults.FairLock
	t     testing.TB
	s     *redistest.Server
	ms    []*lockmgr.Manager
	asked int            // requests
	ended sync.WaitGroup // requests that have failed, or have given the lock back

	mu     sync.Mutex
	inside int           // requests that have the lock
	order  []int         // requests that have had it, in this order
	errs   map[int]error // of requests that have failed
}

func newFairLine(t testing.TB, s *redistest.Server, name string, ms []*lockmgr.Manager) *fairLine {
	return &fairLine{FairLock: faults.FairLock{Name: name}, t: t, s: s, ms: ms, errs: map[int]error{}}
}

// dialThree connects three managers. Their requests wait while the server is away.
func dialThree(t testing.TB, s *redistest.Server, lease time.Duration) (ms []*lockmgr.Manager) {
	for range 3 {
		o := with(lease)
		o.RetryTime = time.Minute
		ms = append(ms, faults.Dial(t, s.Addr(), o))
	}
	return ms
}

// hold takes the lock with the first manager.
func (x *fairLine) hold() *lockmgr.Lock {
	x.t.Helper()
	return faults.Take(x.t, x.ms[0], x.Name, lockmgr.Fair())
}

// ask makes a request. If it gets the lock, it gives it back at once.
func (x *fairLine) ask(m *lockmgr.Manager, opts ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
	i := x.asked
	x.asked++
	x.ended.Add(1)
	f := m.LockAsync(x.Name, append(opts, lockmgr.Fair())...)
	f.OnDone(func(l *lockmgr.Lock, err error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if err != nil {
			x.errs[i] = err
			x.ended.Done()
			return
		}
		x.order = append(x.order, i)
		if x.inside++; x.inside > 1 {
			x.t.Errorf("%d holders of %s", x.inside, x.Name)
		}
		go func() { // a callback must not block
			defer x.ended.Done()
			x.mu.Lock()
			x.inside--
			x.mu.Unlock()
			if err := l.Unlock(faults.Patient(x.t)); err != nil {
				x.t.Errorf("request %d of %s: %v", i, x.Name, err)
			}
		}()
	})
	return f
}

// queue makes n requests of each manager. The managers take turns, and each request has its place
// before the next one is made.
func (x *fairLine) queue(n int) {
	x.t.Helper()
	for i := range n * len(x.ms) {
		x.ask(x.ms[i%len(x.ms)])
		x.AwaitWaiting(x.t, x.s, x.asked)
	}
}

// await waits until all requests have an end.
func (x *fairLine) await() {
	x.t.Helper()
	done := make(chan struct{})
	go func() {
		x.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(faults.Patience):
		require.FailNow(x.t, "some wait for ever", "%s: %d of %d had the lock, record %q, queue %q, deadlines %q, waits %q", x.Name, len(x.order), x.asked,
			faults.Do(x.t, x.s, "HGETALL", x.Name), faults.Do(x.t, x.s, "LRANGE", x.Queue(), "0", "-1"),
			faults.Do(x.t, x.s, "ZRANGE", x.Deadlines(), "0", "-1", "WITHSCORES"), faults.Do(x.t, x.s, "HGETALL", x.Waits()))
	}
}

// requireServed waits until all have had the lock, each once.
func (x *fairLine) requireServed() {
	x.t.Helper()
	x.await()
	require.Empty(x.t, x.errs)
	require.Len(x.t, x.order, x.asked)
	all := slices.Sorted(slices.Values(x.order))
	require.Len(x.t, slices.Compact(all), x.asked)
}

// requireNothingLeft waits until the server has no key of the lock.
func (x *fairLine) requireNothingLeft() {
	x.t.Helper()
	faults.Eventually(x.t, func() bool { return faults.Do(x.t, x.s, "EXISTS", x.Name) == "0" && len(x.Left(x.t, x.s)) == 0 }, "something of %q is left", x.Name)
}

// requireInOrder waits until all have had the lock in the order in which they came, and nothing is
// left.
func (x *fairLine) requireInOrder() {
	x.t.Helper()
	x.requireServed()
	require.IsIncreasing(x.t, x.order)
	x.requireNothingLeft()
}

// requireWaits checks that nobody has had the lock, and all wait.
func (x *fairLine) requireWaits() {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	require.Empty(x.t, x.errs)
	require.Empty(x.t, x.order)
}

// requireProlonged waits until the lease of each lock was renewed. While somebody waits for a fair
// lock, transfers do that.
func requireProlonged(t testing.TB, locks ...*lockmgr.Lock) {
	t.Helper()
	left := make([]time.Duration, len(locks))
	for i, l := range locks {
		left[i] = l.Remaining()
	}
	for i, l := range locks {
		faults.Eventually(t, func() bool { return l.Remaining() > left[i] || l.Err() != nil }, "%s is not renewed", l.Name())
		require.NoError(t, l.Err(), l.Name())
	}
}

// A key beside the lock's own has another type. Requests for this lock fail, and no others. The
// holder keeps the lock and can give it back. The lock can be used as soon as the key is gone.
func TestFairQueue_KeyOfAnotherType(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ms := dialThree(t, s, watched)
	keys := map[string]func(faults.FairLock) string{"queue": faults.FairLock.Queue, "deadlines": faults.FairLock.Deadlines, "waits": faults.FairLock.Waits}
	for what, key := range keys {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			x, beside := newFairLine(t, s, what, ms), newFairLine(t, s, "beside "+what, ms)
			key := key(x.FairLock)
			requireRefused := func() {
				t.Helper()
				for _, m := range ms {
					_, err := m.Lock(faults.Patient(t), x.Name, lockmgr.Fair())
					require.ErrorIs(t, err, lockmgr.ErrWrongType)
				}
			}
			// Before anybody asks.
			faults.Do(t, s, "SET", key, "x")
			requireRefused()
			_, err := ms[0].TryLock(faults.Patient(t), x.Name, lockmgr.Fair())
			require.ErrorIs(t, err, lockmgr.ErrWrongType)
			require.Equal(t, "0", faults.Do(t, s, "EXISTS", x.Name), "nothing was written")
			faults.Do(t, s, "DEL", key)

			// While some hold and wait.
			l, other := x.hold(), beside.hold()
			plain := faults.Take(t, ms[1], "plain "+what)
			x.queue(3)
			beside.queue(3)
			faults.Do(t, s, "SET", key, "x")
			x.await()
			require.Len(t, x.errs, x.asked)
			for _, err := range x.errs {
				require.ErrorIs(t, err, lockmgr.ErrWrongType)
			}
			requireRefused()
			require.Equal(t, "x", faults.Do(t, s, "GET", key))
			requireProlonged(t, l, other, plain)
			beside.requireWaits()
			faults.Release(t, other)
			beside.requireInOrder()
			faults.Release(t, plain)
			require.NoError(t, l.Unlock(faults.Patient(t)), "given back all the same")
			require.Equal(t, "0", faults.Do(t, s, "EXISTS", x.Name))

			faults.Do(t, s, "DEL", key)
			again := newFairLine(t, s, x.Name, ms)
			l = again.hold()
			again.queue(3)
			faults.Release(t, l)
			again.requireInOrder()
		})
	}
}

// add writes members that no client has written: at the head of the queue or at its end, with a
// deadline or, if lasts is zero, without one.
func (x *fairLine) add(atHead bool, lasts time.Duration, members ...string) {
	x.t.Helper()
	push := "RPUSH"
	if atHead {
		push = "LPUSH"
	}
	for _, member := range members {
		faults.Do(x.t, x.s, push, x.Queue(), member)
		if lasts != 0 {
			x.expire(lasts, member)
		}
	}
}

// expire writes deadlines.
func (x *fairLine) expire(lasts time.Duration, members ...string) {
	x.t.Helper()
	for _, member := range members {
		faults.Do(x.t, x.s, "ZADD", x.Deadlines(), strconv.FormatInt(time.Now().Add(lasts).UnixMilli(), 10), member)
	}
}

// place returns the place of a request of a manager: of the last one if n is zero, else of the one
// that comes n requests after it.
func (x *fairLine) place(m *lockmgr.Manager, n int) string {
	x.t.Helper()
	last := 0
	for member := range strings.SplitSeq(faults.Do(x.t, x.s, "LRANGE", x.Queue(), "0", "-1"), "\n") {
		if number, ok := strings.CutPrefix(member, m.ID()+":"); ok {
			i := redistest.Must(strconv.Atoi(strings.TrimSuffix(number, ":f")))(x.t)
			last = max(last, i)
		}
	}
	return m.ID() + ":" + strconv.Itoa(last+n) + ":f"
}

// soon is how long members last that no client removes before their deadlines.
const soon = time.Second

// garbage are changes of a queue that no client makes.
var garbage = map[string]func(x *fairLine, atHead bool){
	"members without a deadline": func(x *fairLine, atHead bool) { x.add(atHead, 0, "java:1", "java:2") },
	"deadlines without a member": func(x *fairLine, _ bool) {
		x.expire(time.Hour, "java:1")
		x.expire(-time.Hour, "java:2")
		faults.Do(x.t, x.s, "ZADD", x.Deadlines(), "inf", "java:3", "-inf", "java:4")
	},
	"deadlines of our next places": func(x *fairLine, _ bool) {
		x.expire(time.Hour, x.place(x.ms[0], 1), x.place(x.ms[1], 2))
		x.expire(-time.Hour, x.place(x.ms[0], 2), x.place(x.ms[2], 1))
	},
	"names like ours":                     func(x *fairLine, atHead bool) { x.add(atHead, soon, "zzz:f", ":f", "a:b:f", ":1:f") },
	"names like ours, without a deadline": func(x *fairLine, atHead bool) { x.add(atHead, 0, "zzz:f", ":f", "a:b:f", ":1:f") },
	"our names without a number": func(x *fairLine, atHead bool) {
		for i, number := range []string{"", "nan", "inf", "-1", "0", "007", "1.5", "1e3", "0x10", " 3", "3 ", "99999999999999999999999"} {
			x.add(atHead, soon, x.ms[i%3].ID()+":"+number+":f")
		}
	},
	"our places twice": func(x *fairLine, atHead bool) {
		x.add(atHead, 0, x.place(x.ms[0], 0), x.place(x.ms[0], 0), x.place(x.ms[1], -1))
	},
	"odd characters": func(x *fairLine, atHead bool) {
		x.add(atHead, soon, "", "%s%d\x00\r\n", "sum", "@"+x.ms[0].ID(), "\xff\xfe", "{}*?[", strings.Repeat("x", 10_000))
	},
	"odd characters, without a deadline": func(x *fairLine, atHead bool) {
		x.add(atHead, 0, "", "%s%d\x00\r\n", "sum", "@"+x.ms[0].ID(), "\xff\xfe", "{}*?[", strings.Repeat("x", 10_000))
	},
	"no queue":           func(x *fairLine, _ bool) { faults.Do(x.t, x.s, "DEL", x.Queue()) },
	"no deadlines":       func(x *fairLine, _ bool) { faults.Do(x.t, x.s, "DEL", x.Deadlines()) },
	"neither of the two": func(x *fairLine, _ bool) { faults.Do(x.t, x.s, "DEL", x.Queue(), x.Deadlines()) },
	"no waits":           func(x *fairLine, _ bool) { faults.Do(x.t, x.s, "DEL", x.Waits()) },
	"waits of no numbers": func(x *fairLine, _ bool) {
		faults.Do(x.t, x.s, "HSET", x.Waits(), "sum", "nan", "@"+x.ms[0].ID(), "x", "java:1", "y")
	},
	"a place less": func(x *fairLine, _ bool) {
		for _, m := range x.ms {
			faults.Do(x.t, x.s, "LREM", x.Queue(), "1", x.place(m, -1))
		}
	},
	"a deadline less": func(x *fairLine, _ bool) {
		for _, m := range x.ms {
			faults.Do(x.t, x.s, "ZREM", x.Deadlines(), x.place(m, -1))
		}
	},
}

// Somebody adds members to the queue, or removes some. All requests are served in the end.
func TestFairQueue_Garbage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for what, spoil := range garbage {
		for _, where := range []string{"first", "before those who wait", "behind those who wait"} {
			t.Run(what+"/"+where, func(t *testing.T) {
				t.Parallel()
				x := newFairLine(t, s, what+" "+where, dialThree(t, s, steady))
				l := x.hold()
				if where != "first" {
					x.queue(3)
				}
				spoil(x, where == "before those who wait")
				for i := range 9 {
					x.ask(x.ms[i%3])
				}
				faults.Release(t, l)
				x.requireServed()
				faults.Release(t, x.hold()) // once what was added is over
				x.requireNothingLeft()
			})
		}
	}
}
