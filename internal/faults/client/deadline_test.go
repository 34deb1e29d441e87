package client

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// slowly is how long a server keeps an answer back here: much more than a millisecond, less than
// any time-out.
const slowly = 100 * time.Millisecond

// usable is for how long a lease vouches from the send of its command.
func usable(lease time.Duration) time.Duration { return lease - lease/100 - 2*time.Millisecond }

// requireSentBefore checks that a lock's deadline counts from no later than an instant at which its
// command had been sent.
func requireSentBefore(t *testing.T, l *lockmgr.Lock, sent time.Time, lease time.Duration) {
	t.Helper()
	now := time.Now()
	left := l.Remaining() // as of now, or later
	require.Positive(t, left)
	require.LessOrEqual(t, now.Add(left), sent.Add(usable(lease)), "an answer that was slow has moved the deadline")
}

// slowAnswer lets the server take slowly to answer the script that ask makes a manager send. It
// returns an instant at which the script had been sent.
func slowAnswer(t *testing.T, s *redistest.Server, ask func()) (sent time.Time) {
	t.Helper()
	resume := pause(t, s)
	ask()
	held(t, s, 1)
	sent = time.Now()
	time.Sleep(slowly)
	resume()
	return sent
}

// An answer that takes long stretches no lease: a first grant, a lock that was handed on and a
// renewal are all good for as long as if it had come at once.
func TestAnswer_SlowOneProlongsNoLease(t *testing.T) {
	t.Parallel()
	t.Run("grant", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		m := dial(t, s, lockmgr.Options{})
		var f *futures.Future[*lockmgr.Lock]
		sent := slowAnswer(t, s, func() { f = m.LockAsync("a") })
		requireSentBefore(t, faults.Await(t, f), sent, long)
	})
	t.Run("handoff", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		m := dial(t, s, lockmgr.Options{})
		first := faults.Take(t, m, "a")
		f := m.LockAsync("a")
		sent := slowAnswer(t, s, func() { first.UnlockAsync() })
		l := faults.Await(t, f)
		require.Eventually(t, func() bool { return faults.Do(t, s, "HKEYS", "a") == l.HolderID() }, faults.Patience, time.Millisecond)
		redistest.Must(m.Inspect(faults.Patient(t), "a"))(t) // goes when the handoff was dealt with
		requireSentBefore(t, l, sent, long)
	})
	t.Run("renewal", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		renewed := make(chan struct{}, 100)
		const lease = 3 * time.Second
		m := dial(t, s, lockmgr.Options{Lease: lease, Anonymous: true, Observer: func(e lockmgr.Event) {
			if _, ok := e.(lockmgr.EventRenewed); ok {
				renewed <- struct{}{}
			}
		}})
		l := faults.Take(t, m, "a")
		sent := slowAnswer(t, s, func() {}) // of a renewal, which comes by itself
		<-renewed
		requireSentBefore(t, l, sent, lease)
	})
}

var scriptRunner = regexp.MustCompile(`(?m)^id=(\d+) .* cmd=evalsha`)

// A script that takes longer than its time-out, and a caller whose context ends, leave the
// connection alone, and the commands of everybody else on it.
func TestConnection_ClosedByNoImpatientCaller(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s, lockmgr.Options{CommandTimeout: 500 * time.Millisecond})
	l := faults.Take(t, m, "held")
	redistest.Must(m.Inspect(faults.Patient(t), "held"))(t) // so that there is no EVAL, but EVALSHA last
	redistest.Must(m.Inspect(faults.Patient(t), "held"))(t)
	before := scriptRunner.FindStringSubmatch(faults.Do(t, s, "CLIENT", "LIST"))
	require.Len(t, before, 2)
	resume := pause(t, s)
	_, err := m.TryLock(faults.Patient(t), "a")
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	require.ErrorContains(t, err, "time-out")
	for _, hurry := range []error{context.Canceled, context.DeadlineExceeded} {
		hasty := newEndless(hurry)
		time.AfterFunc(time.Millisecond, func() { close(hasty.done) })
		_, err := m.Lock(hasty, "b")
		require.ErrorIs(t, err, hurry)
	}
	resume()
	require.Eventually(t, func() bool { return faults.Do(t, s, "EXISTS", "a", "b") == "0" && m.Stats().Pending == 0 }, faults.Patience, 5*time.Millisecond)
	faults.Release(t, l)
	require.Contains(t, faults.Do(t, s, "CLIENT", "LIST"), "id="+before[1]+" ", "its connection is another one now")
}
