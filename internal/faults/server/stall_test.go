//go:build unix

package server_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// stalls make a server say nothing for a time. They return at once.
var stalls = map[string]func(t *testing.T, s *redistest.Server, d time.Duration){
	"CLIENT PAUSE": func(t *testing.T, s *redistest.Server, d time.Duration) {
		faults.Do(t, s, "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10))
	},
	"CLIENT PAUSE WRITE": func(t *testing.T, s *redistest.Server, d time.Duration) {
		faults.Do(t, s, "CLIENT", "PAUSE", strconv.FormatInt(d.Milliseconds(), 10), "WRITE")
	},
	"DEBUG SLEEP": func(t *testing.T, s *redistest.Server, d time.Duration) {
		slept := make(chan error, 1)
		go func() {
			_, err := s.Do("DEBUG", "SLEEP", strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
			slept <- err
		}()
		t.Cleanup(func() { require.NoError(t, <-slept) })
	},
	"SIGSTOP": func(t *testing.T, s *redistest.Server, d time.Duration) {
		s.Signal(syscall.SIGSTOP)
		woken := make(chan struct{})
		time.AfterFunc(d, func() {
			defer close(woken)
			s.Signal(syscall.SIGCONT)
		})
		t.Cleanup(func() { <-woken })
	},
}

// A server that stands still for longer than a lease can't confirm anything: the holder gives the
// lock up at its deadline, neither before nor after, and the next one has it only then.
func TestLock_LostAtTheDeadlineOfAStoppedServer(t *testing.T) {
	t.Parallel()
	for what, stall := range stalls {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--enable-debug-command", "local")
			holder, other := faults.Dial(t, s.Addr(), with(short)), faults.Dial(t, s.Addr(), lockmgr.Options{})
			var (
				l     *lockmgr.Lock
				next  *futures.Future[*lockmgr.Lock]
				early chan bool
			)
			faults.Eventually(t, func() bool {
				l = faults.Take(t, holder, "a", lockmgr.Fenced())
				next = other.LockAsync("a", lockmgr.Fenced())
				before, told := l, make(chan bool, 1)
				early = told
				next.OnDone(func(*lockmgr.Lock, error) { told <- before.Valid() })
				faults.Eventually(t, func() bool { return faults.Subscribers(t, s, "a") == 1 })
				if l.Valid() {
					return true
				}
				faults.Release(t, faults.Await(t, next)) // a busy machine has lost it already
				return false
			})

			start := time.Now()
			stall(t, s, short+short/4)
			left, asked := l.Remaining(), time.Now()
			require.LessOrEqual(t, left, short-short/100-time.Millisecond, "it relies on more than it asked for")
			work := l.Context(ctx)
			requireLost(t, l, ranOut)
			lost := time.Now()
			<-work.Done()
			// A renewal that was answered before may have moved the deadline further than was seen,
			// but not further than a lease.
			require.GreaterOrEqual(t, lost.Sub(asked), left-time.Millisecond)
			require.Less(t, lost.Sub(start), short+late)

			after := faults.Await(t, next)
			require.False(t, <-early, "two holders")
			require.Greater(t, after.Token(), l.Token())
			require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost)
			again := holder.LockAsync("a", lockmgr.Fenced())
			require.Equal(t, []string{after.HolderID()}, owners(t, s, "a"), "what was sent to a deaf server changes nothing when it wakes up")
			faults.Release(t, after)
			faults.Release(t, faults.Await(t, again))
			require.Equal(t, "0", faults.Do(t, s, "EXISTS", "a"))
		})
	}
}
