package faults

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A FairLock returns the keys of a fair lock. It does not ask the library, which may be wrong.
type FairLock struct{ Name string }

func (f FairLock) braced() string {
	if strings.Contains(f.Name, "{") {
		return f.Name
	}
	return "{" + f.Name + "}"
}

// Queue returns the key of the list of those who wait.
func (f FairLock) Queue() string { return "redisson_lock_queue:" + f.braced() }

// Deadlines returns the key of the sorted set of their deadlines.
func (f FairLock) Deadlines() string { return "redisson_lock_timeout:" + f.braced() }

// Waits returns the key of what the scripts note while somebody waits.
func (f FairLock) Waits() string { return f.Queue() + ":waits" }

// Waiting returns how many members the queue has.
func (f FairLock) Waiting(t testing.TB, s *redistest.Server) int {
	t.Helper()
	n, err := strconv.Atoi(Do(t, s, "LLEN", f.Queue()))
	if err != nil {
		return -1 // of another type
	}
	return n
}

// AwaitWaiting waits until the queue has so many members.
func (f FairLock) AwaitWaiting(t testing.TB, s *redistest.Server, n int) {
	t.Helper()
	Eventually(t, func() bool { return f.Waiting(t, s) == n }, "the queue of %q never had %d members", f.Name, n)
}

// Left returns those keys of the lock that the server has, except the record.
func (f FairLock) Left(t testing.TB, s *redistest.Server) (keys []string) {
	t.Helper()
	for _, key := range []string{f.Queue(), f.Deadlines(), f.Waits()} {
		if Do(t, s, "EXISTS", key) == "1" {
			keys = append(keys, key)
		}
	}
	return keys
}
