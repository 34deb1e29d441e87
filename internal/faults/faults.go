package faults

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Patience is how long a test waits for what must happen, on a machine that may be busy. Where the
// end of a lease could do what something else should have done, the lease is longer.
const Patience = 25 * time.Second

// Patient returns a context for what must not hang.
func Patient(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return c
}

// ByMessage runs do, which frees what a request of m waits for, and returns when the request is
// granted. It fails if the message did not reach m, and only a later look of m helped. m looks
// every 5 s, so the request must not wait for much longer than a second before. On a busy machine
// the message may take a while, and m may look meanwhile.
func ByMessage(t testing.TB, m *lockmgr.Manager, do func(), what ...any) {
	t.Helper()
	polls, begin := m.Stats().Polls, time.Now()
	do()
	if took := time.Since(begin); m.Stats().Polls > polls && took > 2*time.Second {
		require.Fail(t, fmt.Sprintf("granted after %v, by a look and by no message", took), what...)
	}
}

// CloseAtEnd closes a manager when t ends. Each of its releases must be confirmed then.
func CloseAtEnd(t testing.TB, m *lockmgr.Manager) {
	t.Cleanup(func() { require.NoError(t, m.Close(Patient(t))) })
}

// Dial connects a manager, which is closed when t ends: see CloseAtEnd. The manager has no record
// of a process, unless o names one: many tests count keys and commands.
func Dial(t testing.TB, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	o.Anonymous = o.Anonymous || o.Process == (lockmgr.Process{})
	m := redistest.Must(lockmgr.DialURL("redis://"+addr, o))(t)
	CloseAtEnd(t, m)
	return m
}

// Take takes a lock that is free, or about to be.
func Take(t testing.TB, m *lockmgr.Manager, name string, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return redistest.Must(m.Lock(Patient(t), name, opts...))(t, name)
}

// Release unlocks locks.
func Release(t testing.TB, locks ...*lockmgr.Lock) {
	t.Helper()
	for _, l := range locks {
		require.NoError(t, l.Unlock(Patient(t)), l.Name())
	}
}

// Do sends a command to a server and returns the reply.
func Do(t testing.TB, s *redistest.Server, args ...string) string {
	t.Helper()
	return redistest.Must(s.Do(args...))(t)
}

// Info reads a number from INFO.
func Info(t testing.TB, s *redistest.Server, section, field string) int {
	t.Helper()
	_, rest, found := strings.Cut(Do(t, s, "INFO", section), field+":")
	require.True(t, found, field)
	number, _, _ := strings.Cut(rest, "\r")
	return redistest.Must(strconv.Atoi(number))(t)
}

// PTTL returns for how long a key lives. It is negative if there is no key, or the key has no end.
func PTTL(t testing.TB, s *redistest.Server, key string) time.Duration {
	t.Helper()
	return time.Duration(redistest.Must(strconv.Atoi(Do(t, s, "PTTL", key)))(t)) * time.Millisecond
}

// Channel returns the channel of a lock. It does not ask the library, which may be wrong.
func Channel(name string) string {
	if strings.Contains(name, "{") {
		return "redisson_lock__channel:" + name
	}
	return "redisson_lock__channel:{" + name + "}"
}

// Subscribers returns how many clients are subscribed to the channel of a lock.
func Subscribers(t testing.TB, s *redistest.Server, name string) int {
	t.Helper()
	lines := strings.Split(Do(t, s, "PUBSUB", "NUMSUB", Channel(name)), "\n") // the name may have line breaks
	return redistest.Must(strconv.Atoi(lines[len(lines)-1]))(t)
}

// AwaitSubscribed waits until so many clients are subscribed.
func AwaitSubscribed(t testing.TB, s *redistest.Server, name string, n int) {
	t.Helper()
	Eventually(t, func() bool { return Subscribers(t, s, name) == n }, "subscribers of %q: never %d", name, n)
}

// Eventually waits until something is so. Unlike require.Eventually it asks on the test's own
// goroutine, so that what it calls may end the test. It asks less often while time passes: many of
// those who ask send commands.
func Eventually(t testing.TB, so func() bool, what ...any) {
	t.Helper()
	pause := time.Millisecond
	for end := time.Now().Add(Patience); !so(); pause = min(pause*5/4, 20*time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "it never was so", what...)
		}
		time.Sleep(pause)
	}
}

// Await waits for the result of a future.
func Await[T any](t testing.TB, f *futures.Future[T]) T {
	t.Helper()
	return redistest.Must(f.Await(Patient(t)))(t)
}

// Settled reports whether a future has a result.
func Settled(f *futures.Future[*lockmgr.Lock]) bool { return Closed(f.Done()) }

// Closed reports whether a channel is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// AwaitClosed waits until a channel is closed.
func AwaitClosed(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Patience):
		require.FailNow(t, "did not happen: "+what)
	}
}

// AwaitLost waits for the loss of a lock.
func AwaitLost(t testing.TB, l *lockmgr.Lock) {
	t.Helper()
	AwaitClosed(t, l.Lost(), "the loss of "+l.Name())
}

// Entries returns the entries of a record, without the processes that have them.
func Entries(info lockmgr.Info) (entries []lockmgr.Holder) {
	for _, h := range info.Holders {
		entries = append(entries, lockmgr.Holder{Owner: h.Owner, Count: h.Count})
	}
	return entries
}
