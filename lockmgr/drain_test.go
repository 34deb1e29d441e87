package lockmgr_test

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const waiters = 1000

// drainManager returns how long a thousand waiters of one name take, from the first unlock to the
// last.
func drainManager(t testing.TB, m *lockmgr.Manager) time.Duration {
	first := mustLock(t, m, "hot")
	var wg sync.WaitGroup
	for range waiters {
		f := m.LockAsync("hot")
		wg.Go(func() {
			l, err := f.Await(ctx)
			if err == nil {
				err = l.Unlock(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	faults.Eventually(t, func() bool { return m.Stats().Waiting == waiters })
	start := time.Now()
	mustUnlock(t, first)
	wg.Wait()
	return time.Since(start)
}

// drainByMessages does the same with raw scripts: every release publishes, and every message lets
// the first waiter try.
func (r *raw) drainByMessages(t testing.TB) time.Duration {
	conn, hangUp := r.client.Dedicate()
	defer hangUp()
	line := make(chan chan struct{}, waiters)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case next := <-line:
			close(next)
		default:
		}
	}})
	require.NoError(t, conn.Do(ctx, conn.B().Subscribe().Channel("redisson_lock__channel:{raw}").Build()).Error())
	require.True(t, rueidis.IsRedisNil(r.client.Do(ctx, r.lock("raw", rawOwner)).Error()))
	var wg sync.WaitGroup
	for range waiters {
		turn := make(chan struct{})
		line <- turn
		wg.Go(func() {
			<-turn
			if err := r.client.Do(ctx, r.lock("raw", rawOwner)).Error(); !rueidis.IsRedisNil(err) {
				t.Error(err)
			}
			require.NoError(t, r.client.Do(ctx, r.unlock("raw", rawOwner)).Error())
		})
	}
	start := time.Now()
	require.NoError(t, r.client.Do(ctx, r.unlock("raw", rawOwner)).Error())
	wg.Wait()
	return time.Since(start)
}

// drainMutex does the same with a local mutex: no lock can be faster.
func drainMutex() time.Duration {
	var mu sync.Mutex
	var wg sync.WaitGroup
	mu.Lock()
	for range waiters {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
		})
	}
	time.Sleep(20 * time.Millisecond) // until they wait: there is no event to wait for
	start := time.Now()
	mu.Unlock()
	wg.Wait()
	return time.Since(start)
}

func BenchmarkDrain(b *testing.B) {
	s := redistest.Start(b)
	m, r := dial(b, s.Addr(), lockmgr.Options{}), newRaw(b, s.Addr())
	drainManager(b, m)
	var ours, messages, mutex time.Duration
	n := 0
	before := m.Stats().Scripts
	for b.Loop() {
		ours += drainManager(b, m)
		messages += r.drainByMessages(b)
		mutex += drainMutex()
		n++
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "us/drain")
	b.ReportMetric(messages.Seconds()/ours.Seconds(), "x-faster-than-messages")
	b.ReportMetric(ours.Seconds()/mutex.Seconds(), "x-mutex")
	b.ReportMetric(float64(m.Stats().Scripts-before)/float64(n), "scripts/drain")
}

// The number of commands is exact enough for a test.
func TestDrain_TakesFewCommands(t *testing.T) {
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	l := mustLock(t, m, "hot")
	left := make(chan struct{})
	n := waiters
	for range waiters {
		m.LockAsync("hot").OnDone(func(l *lockmgr.Lock, err error) {
			l.UnlockAsync()
			if n--; n == 0 { // callbacks run one after another
				close(left)
			}
		})
	}
	faults.Eventually(t, func() bool { return m.Stats().Waiting == waiters })
	before := clientCommands(t, s)
	mustUnlock(t, l)
	<-left
	spent := clientCommands(t, s) - before
	t.Logf("%d commands for %d handoffs", spent, waiters)
	require.Less(t, spent, 25)
}

// clientCommands counts the commands that clients sent, without those that scripts called.
func clientCommands(t testing.TB, s *redistest.Server) int {
	n := 0
	for name, calls := range s.Commands(t) {
		switch name {
		case "evalsha", "eval", "subscribe", "unsubscribe", "script|load":
			n += calls
		}
	}
	return n
}
