package lockmgr_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// queue returns the owners in the queue of a fair lock.
func queue(t *testing.T, m *lockmgr.Manager, name string) (owners []string) {
	t.Helper()
	info := mustInspect(t, m, name)
	for _, w := range info.Queue {
		owners = append(owners, w.Owner)
	}
	return owners
}

// awaitQueue waits until so many are in the queue of a fair lock.
func awaitQueue(t *testing.T, m *lockmgr.Manager, name string, n int) {
	t.Helper()
	faults.Eventually(t, func() bool { return len(queue(t, m, name)) == n })
}

// awaitNoKeys waits until the server has no key.
func awaitNoKeys(t *testing.T, s *redistest.Server) {
	t.Helper()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "DBSIZE") == "0" })
}

// Waiters of one manager pass the lock on in memory, with far fewer scripts than grants.
func TestFair_PassesInMemory(t *testing.T) {
	t.Parallel()
	const many = 1000
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	first := mustLock(t, m, "f", lockmgr.Fair())
	var got []int // of callbacks, each of which appends before it unlocks
	var left sync.WaitGroup
	left.Add(many)
	for i := range many {
		m.LockAsync("f", lockmgr.Fair()).OnDone(func(l *lockmgr.Lock, _ error) {
			got = append(got, i)
			l.UnlockAsync()
			left.Done()
		})
	}
	awaitQueue(t, m, "f", many)
	sent := m.Stats().Scripts
	mustUnlock(t, first)
	left.Wait()
	require.IsIncreasing(t, got)
	require.Less(t, m.Stats().Scripts-sent, uint64(many/10), "far fewer commands than handoffs")
	require.Zero(t, m.Stats().Subscriptions, "nobody else waited")
	awaitNoKeys(t, s)
}

// ready waits until a manager that waits for a fair lock hears its messages, and has sent so many
// scripts. The first wait has a second one: when the subscription is confirmed.
func ready(t *testing.T, s *redistest.Server, m *lockmgr.Manager, scripts uint64) {
	t.Helper()
	faults.Eventually(t, func() bool {
		return faults.Do(t, s, "PUBSUB", "NUMSUB", "redisson_lock__channel:{f}:"+m.ID()) == "redisson_lock__channel:{f}:"+m.ID()+"\n1" && m.Stats().Scripts >= scripts
	})
}

// An unlock in one process is the grant in another: the script that releases the lock records the
// next holder, and the message of the script is the grant. The next holder sends nothing. A hold
// that lasts is renewed before the short lease of such a grant is over, and has its lease then.
func TestFair_GrantByMessage(t *testing.T) {
	s, a, b := startServer(t, lockmgr.Options{})
	l := mustLock(t, a, "f", lockmgr.Fair())
	const rounds = 20
	silent := 0
	for i := range rounds {
		sent := b.Stats().Scripts
		waits := b.LockAsync("f", lockmgr.Fair())
		awaitQueue(t, a, "f", 1)
		if i < 2 {
			sent++ // the first wait of the manager
		}
		ready(t, s, b, sent+1)
		sent = b.Stats().Scripts
		mustUnlock(t, l)
		l = mustAwait(t, waits)
		if b.Stats().Scripts == sent { // else this host was so slow that a renewal was due
			silent++
		}
		a, b = b, a
	}
	require.Greater(t, silent, rounds/2)
	faults.Eventually(t, func() bool { return l.Remaining() > 20*time.Second }, "no renewal")
	mustUnlock(t, l)
	awaitNoKeys(t, s)
}

// A grant whose message is lost is found by the next script of the waiter.
func TestFair_GrantByMessageIsLost(t *testing.T) {
	s, a, b := startServer(t, lockmgr.Options{})
	l := mustLock(t, a, "f", lockmgr.Fair())
	waits := b.LockAsync("f", lockmgr.Fair())
	awaitQueue(t, a, "f", 1)
	place := queue(t, a, "f")[0]
	// What the script of a does, but for the message.
	faults.Do(t, s, "EVAL", `redis.call('DEL', unpack(KEYS)) redis.call('HSET', KEYS[1], ARGV[1], 1) return redis.call('PEXPIRE', KEYS[1], 2000)`,
		"4", "f", "redisson_lock_queue:{f}", "redisson_lock_timeout:{f}", "redisson_lock_queue:{f}:waits", place)
	next := mustAwait(t, waits)
	require.Equal(t, place, next.HolderID())
	require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
	mustUnlock(t, next)
	awaitNoKeys(t, s)
}

// A client that may publish on the channel of a manager, and does not know the secret of the
// manager, can't forge a grant. No grant counts twice.
func TestFair_ForgedGrant(t *testing.T) {
	s, a, b := startServer(t, lockmgr.Options{})
	for _, tt := range []struct {
		name        string
		opts        []lockmgr.LockOption
		hash, field string // with what b wants
		place, sent int    // words of that; place -1: it is in the queue
	}{
		{"p", nil, "{p}:lock_wants", b.ID(), 3, 4},
		{"f", []lockmgr.LockOption{lockmgr.Fair()}, "redisson_lock_queue:{f}:waits", "@" + b.ID(), -1, 1},
	} {
		channel := "redisson_lock__channel:{" + tt.name + "}:" + b.ID()
		spy := must(resp.Dial(s.Addr(), time.Minute))(t)
		t.Cleanup(spy.Close)
		must(spy.Do("SUBSCRIBE", channel))(t)
		wanted := func() []string { return strings.Fields(faults.Do(t, s, "HGET", tt.hash, tt.field)) }
		wait := func(scripts uint64) (l *lockmgr.Lock, waits *futures.Future[*lockmgr.Lock]) {
			l = mustLock(t, a, tt.name, tt.opts...)
			sent := b.Stats().Scripts
			waits = b.LockAsync(tt.name, tt.opts...)
			faults.Eventually(t, func() bool {
				hear := faults.Do(t, s, "PUBSUB", "NUMSUB", channel) // the spy, and b
				return strings.HasSuffix(hear, "\n2") && b.Stats().Scripts >= sent+scripts && len(wanted()) > tt.sent
			}, "b wants a grant")
			return l, waits
		}
		l, waits := wait(2)
		mustUnlock(t, l)
		granted := must(spy.Receive())(t).([]any)[2].(string)
		mustUnlock(t, mustAwait(t, waits))

		l, waits = wait(1)
		words := strings.Fields(granted)
		require.Len(t, words, 6)
		for i := range 6 { // with the number and the script of today, with the number, and as it was
			if words = strings.Fields(granted); i < 5 {
				words[0] = wanted()[max(tt.place, 0)]
				if tt.place < 0 {
					words[0] = strings.TrimSuffix(strings.TrimPrefix(queue(t, a, "f")[0], b.ID()+":"), ":f")
				}
			}
			if i < 4 {
				words[1] = wanted()[tt.sent]
			}
			sent := b.Stats().Scripts
			faults.Do(t, s, "PUBLISH", channel, strings.Join(words, " "))
			faults.Eventually(t, func() bool { return b.Stats().Scripts > sent }, "a message makes the manager ask")
			require.ErrorIs(t, errOf(waits.Result()), futures.ErrPending)
		}
		require.True(t, l.Valid())
		mustUnlock(t, l)
		mustUnlock(t, mustAwait(t, waits))
	}
}

func TestFair_Inspect(t *testing.T) {
	_, m, _ := startServer(t, lockmgr.Options{})
	l := mustLock(t, m, "f", lockmgr.Fair(), lockmgr.Fenced())
	require.Positive(t, l.Token())
	require.True(t, strings.HasPrefix(l.HolderID(), m.ID()+":"), l.HolderID())
	waits := m.LockAsync("f", lockmgr.Fair())
	awaitQueue(t, m, "f", 1)
	info := mustInspect(t, m, "f")
	require.Equal(t, l.HolderID(), info.Holders[0].Owner)
	require.Zero(t, info.Waiting)
	require.Positive(t, info.Queue[0].TTL)
	require.LessOrEqual(t, info.Queue[0].TTL, 5*time.Second)
	mustUnlock(t, l)
	next := mustAwait(t, waits)
	require.Equal(t, info.Queue[0].Owner, next.HolderID(), "the place becomes the holder")
	mustUnlock(t, next)
}

// A plain request of another process gets a free fair lock, although some wait for it. The waiters
// fail with ErrKind.
func TestFair_PlainRequestOfAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		_, _ = w.server.RPush("redisson_lock_queue:{f}", "java:1") // the first waiter takes its time
		_, _ = w.server.ZAdd("redisson_lock_timeout:{f}", float64(time.Now().Add(time.Hour).UnixMilli()), "java:1")
		waits := []*futures.Future[*lockmgr.Lock]{m.LockAsync("f", lockmgr.Fair()), m.LockAsync("f", lockmgr.Fair())}
		synctest.Wait()
		require.Len(t, queue(t, other, "f"), 3)
		l := mustTryLock(t, other, "f")
		for _, f := range waits {
			require.ErrorIs(t, errOf(f.Await(ctx)), lockmgr.ErrKind)
		}
		require.True(t, l.Valid())
		mustUnlock(t, l)
	})
}

// A live waiter keeps its place for longer than a place lasts without its manager.
func TestFair_LongWait(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		l := mustLock(t, m, "f", lockmgr.Fair())
		first := other.LockAsync("f", lockmgr.Fair())
		synctest.Wait()
		second := m.LockAsync("f", lockmgr.Fair())
		time.Sleep(10 * time.Minute)
		require.Len(t, queue(t, m, "f"), 2)
		second.Cancel()
		third := m.LockAsync("f", lockmgr.Fair())
		synctest.Wait()
		before := m.Stats().Scripts + other.Stats().Scripts
		time.Sleep(time.Minute)
		require.Less(t, m.Stats().Scripts+other.Stats().Scripts-before, uint64(120), "about one script a second for all places of a manager")
		mustUnlock(t, l)
		for _, f := range []*futures.Future[*lockmgr.Lock]{first, third} {
			mustUnlock(t, mustAwait(t, f))
		}
		time.Sleep(2 * time.Second) // the records of the processes go
		require.Empty(t, w.server.Keys())
	})
}

// The places of a manager that has died, or whose process is stopped, delay those behind them for
// five seconds, and for one poll more. When the manager goes on, its requests join again, and each
// is served once.
func TestFair_DeadManager(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *scene) {
			m, _ := w.manager(lockmgr.Options{})
			var stopper lockmgr.Stopper
			dead, network := w.manager(stopper.Options(lockmgr.Options{}))
			l := mustLock(t, m, "f", lockmgr.Fair())
			var waits []*futures.Future[*lockmgr.Lock]
			for range 5 {
				waits = append(waits, dead.LockAsync("f", lockmgr.Fair()))
			}
			synctest.Wait()
			behind := m.LockAsync("f", lockmgr.Fair())
			synctest.Wait()
			require.Len(t, queue(t, m, "f"), 6)
			goOn := network.heal
			if stopped {
				goOn = stopper.Stop(dead)
			} else {
				network.hush()
			}
			mustUnlock(t, l)
			asked := time.Now()
			next := mustAwait(t, behind)
			require.Less(t, time.Since(asked), 5*time.Second+1500*time.Millisecond)
			goOn()
			<-time.After(5 * second)
			require.Len(t, queue(t, m, "f"), 5)
			mustUnlock(t, next)
			for _, f := range waits {
				mustUnlock(t, mustAwait(t, f))
			}
			require.Zero(t, dead.Stats().Pending)
		})
	}
}

// A forced unlock tells the first of the queue, which need not wait until it looks again.
func TestFair_ForceUnlockTellsTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		l := mustLock(t, m, "job", lockmgr.Fair())
		next := other.LockAsync("job", lockmgr.Fair())
		synctest.Wait()
		forced := time.Now()
		require.True(t, must(other.ForceUnlock(ctx, "job"))(t))
		mustUnlock(t, mustAwait(t, next))
		require.Less(t, time.Since(forced), second/2)
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
	})
}

// A manager that waits listens on a channel of its own. A client of Redisson knows only that of the
// first place. The manager listens there, too, while such a client takes part.
func TestFair_Channels(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{Linger: -1})
	faults.Do(t, s, "HSET", "f", "java:1", "1")
	waits := m.LockAsync("f", lockmgr.Fair())
	awaitQueue(t, m, "f", 1)
	place := queue(t, m, "f")[0]
	hears := func(who string) bool {
		return faults.Do(t, s, "PUBLISH", "redisson_lock__channel:{f}:"+who, "0") == "1"
	}
	faults.Eventually(t, func() bool { return hears(m.ID()) })
	faults.Eventually(t, func() bool { return hears(place) })
	faults.Do(t, s, "DEL", "f")
	require.True(t, hears(place))
	mustUnlock(t, mustAwait(t, waits))
	faults.Eventually(t, func() bool { return !hears(m.ID()) && !hears(place) })
}

// The locks "a" and "{a}" share channels, and fair ones a queue. A release of the one grants nobody
// the other.
func TestServer_BracesMakeAnotherLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for kind, options := range map[string][]lockmgr.LockOption{"plain": nil, "fair": {lockmgr.Fair()}} {
		t.Run(kind, func(t *testing.T) {
			name := "a " + kind
			first, next, third := dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{}), dial(t, s.Addr(), lockmgr.Options{})
			l := mustLock(t, first, name, options...)
			waiting := next.LockAsync(name, options...)
			faults.Eventually(t, func() bool { return next.Stats().Subscriptions > 0 })
			for range 3 {
				soon := endsIn(t, 3*second)
				if other, err := third.Lock(soon, "{"+name+"}", options...); err == nil {
					mustUnlock(t, other)
				}
				if other, err := third.TryLock(soon, "{"+name+"}", options...); err == nil {
					mustUnlock(t, other)
				}
				require.True(t, l.Valid())
				requirePending(t, waiting, "two have the lock")
			}
			mustUnlock(t, l)
			mustUnlock(t, must(waiting.Await(faults.Patient(t)))(t))
		})
	}
}
