//go:build unix

package server_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A process that wakes up after its lease knows at once that it has lost the lock, although nobody
// has told it: the server does not answer then. What it does too late harms nobody.
func TestLock_ProcessThatWakesUpKnowsItIsLost(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	s := redistest.Start(t)
	m := faults.Dial(t, s.Addr(), lockmgr.Options{})
	c := spawn(t, "pausable", task{Addr: s.Addr(), Name: "a", Lease: lease})
	early := 0
	for done := 0; done < *pauses; {
		c.hear(t, "held")
		c.signal(t, syscall.SIGSTOP)
		next := faults.Take(t, m, "a", lockmgr.Fenced()) // the lease is over
		<-time.After(lease)                              // and over again
		s.Signal(syscall.SIGSTOP)
		woken := time.Now().UnixNano() // by the host's clock, which both share
		c.signal(t, syscall.SIGCONT)
		var lastTrue, firstFalse int64
		redistest.Must(fmt.Sscan(c.hear(t, "lost"), &lastTrue, &firstFalse))(t)
		s.Signal(syscall.SIGCONT)
		require.Less(t, lastTrue, woken, "it still believed in its lock %v after it woke up", time.Duration(lastTrue-woken))
		if firstFalse >= woken {
			done++
		} else {
			// The machine was so busy that it lost the lock before it was stopped.
			early++
			require.Less(t, early, 10+*pauses, "it never holds the lock for long enough")
		}
		c.say(t, "unlock")
		require.Equal(t, "lost=true", c.hear(t, "unlocked"))
		require.True(t, next.Valid())
		require.Equal(t, []string{next.HolderID()}, owners(t, s, "a"))
		faults.Release(t, next)
		c.say(t, "again")
	}
	t.Logf("%d of %d first calls of Valid and of Err of a context were right", *pauses, *pauses)
}
