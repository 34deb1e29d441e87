package lockmgr_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// awaitLine waits until as many managers stand in the line of the lock "a".
func awaitLine(t *testing.T, s *redistest.Server, n string) {
	t.Helper()
	faults.Eventually(t, func() bool { return faults.Do(t, s, "LLEN", "{a}:lock_line") == n }, "managers in the line: %s", n)
}

// early returns a hold of b. A release of a has joined the line, and nobody waits in a.
func early(t *testing.T, s *redistest.Server, a, b *lockmgr.Manager) *lockmgr.Lock {
	t.Helper()
	turn := func(l *lockmgr.Lock, next *lockmgr.Manager) *lockmgr.Lock {
		f := next.LockAsync("a")
		awaitLine(t, s, "1") // takes longer than the caller took to ask
		mustUnlock(t, l)
		return mustAwait(t, f)
	}
	l := mustLock(t, a, "a")
	for range 100 {
		if l = turn(l, b); faults.Do(t, s, "LLEN", "{a}:lock_line") == "1" {
			return l
		}
		l = turn(l, a)
	}
	t.Fatal("no release joins the line")
	return nil
}

// A release has joined the line, and then the server, or what it knows of the line, is gone. The
// next request of that manager does not wait for a message that can't come.
func TestEarly_PositionIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, s *redistest.Server, l *lockmgr.Lock){
		"subscriptions": func(t *testing.T, s *redistest.Server, l *lockmgr.Lock) {
			faults.Do(t, s, "CLIENT", "KILL", "TYPE", "pubsub")
			mustUnlock(t, l)
		},
		"server": func(t *testing.T, s *redistest.Server, _ *lockmgr.Lock) {
			s.Kill()
			s.Restart()
			faults.Eventually(t, func() bool { return strings.Count(faults.Do(t, s, "PUBSUB", "CHANNELS"), "channel") >= 3 })
		},
		"data": func(t *testing.T, s *redistest.Server, _ *lockmgr.Lock) { faults.Do(t, s, "FLUSHALL") },
		"line": func(t *testing.T, s *redistest.Server, l *lockmgr.Lock) {
			faults.Do(t, s, "DEL", "{a}:lock_line", "{a}:lock_wants")
			mustUnlock(t, l)
		},
		"holder": func(t *testing.T, s *redistest.Server, _ *lockmgr.Lock) { faults.Do(t, s, "PEXPIRE", "a", "100") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireOnceWithin(t, 1500*time.Millisecond, func() time.Duration {
				s := redistest.Start(t).Unrestricted()
				a, b := dialSingle(t, s.Addr()), dialSingle(t, s.Addr())
				lose(t, s, early(t, s, a, b))
				start := time.Now()
				mustUnlock(t, mustLock(t, a, "a"))
				return time.Since(start)
			}, "a manager that waits for a message looks again after two seconds")
		})
	}
}

// The release of a writer has joined the line for a request that leaves. Readers of others share
// the lock.
func TestEarly_WriterLeaves(t *testing.T) {
	t.Parallel()
	requireOnceWithin(t, 1500*time.Millisecond, func() time.Duration {
		s := redistest.Start(t)
		a, b, c := dial(t, s.Addr(), lockmgr.Options{PassCount: 1}), dial(t, s.Addr(), lockmgr.Options{PassCount: 1}), dial(t, s.Addr(), lockmgr.Options{})
		write, read := lockmgr.Exclusive(), lockmgr.Shared()
		waits := mustLock(t, b, "a", write)
		first := a.LockAsync("a", write)
		awaitLine(t, s, "1")
		l := mustPass(t, waits, a, first) // a is subscribed now
		reads := b.LockAsync("a", read)
		awaitLine(t, s, "1")
		second, third := a.LockAsync("a", write), a.LockAsync("a", write)
		mustUnlock(t, l)
		select {
		case <-reads.Done(): // the release has joined the line for the second writer
		case <-second.Done(): // passed on in memory once
			mustUnlock(t, mustAwait(t, second))
			mustAwait(t, reads)
		}
		awaitLine(t, s, "1")
		start := time.Now()
		second.Cancel()
		third.Cancel()
		mustUnlock(t, mustLock(t, c, "a", read))
		return time.Since(start)
	}, "a position without a request lasts for three seconds")
}

// dialSingle connects to a server that may lose releases.
func dialSingle(t *testing.T, addr string) *lockmgr.Manager {
	return dialOption(t, rueidis.ClientOption{InitAddress: []string{addr}}, lockmgr.Options{})
}
