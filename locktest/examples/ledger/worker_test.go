package ledger_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
	"github.com/holdfast-go/holdfast/locktest"
	"github.com/holdfast-go/holdfast/locktest/examples/ledger"
)

type entry struct {
	at     time.Time
	writer string
	token  int64
}

// A memory is a ledger for tests.
type memory struct {
	mu      sync.Mutex
	entries []entry
}

var errStale = errors.New("stale token")

func (m *memory) Append(_ context.Context, writer string, token int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.entries); n > 0 && token < m.entries[n-1].token {
		return errStale
	}
	m.entries = append(m.entries, entry{time.Now(), writer, token})
	return nil
}

// last returns the newest entry.
func (m *memory) last() entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entries[len(m.entries)-1]
}

// start runs a worker with a manager of its own until the end of the test.
func start(t *testing.T, s *locktest.Server, id string, l ledger.Ledger) *lockmgr.Manager {
	m := s.Manager(t, lockmgr.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- (&ledger.Worker{ID: id, Manager: m, Ledger: l, Every: time.Second}).Run(ctx)
	}()
	t.Cleanup(func() { // before the manager is closed
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	})
	locktest.Advance(time.Minute)
	return m
}

// bubble runs a test in fake time.
func bubble(t *testing.T, test func(t *testing.T, s *locktest.Server, l *memory)) {
	synctest.Test(t, func(t *testing.T) { test(t, locktest.Start(t), new(memory)) })
}

func TestWorker_StopsWhenItsLockIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server, l *memory) {
		start(t, s, "a", l)
		require.Less(t, time.Since(l.last().at), 2*time.Second, "it writes")
		s.LoseName(ledger.Name)
		rival := s.Hold(t, ledger.Name, lockmgr.Fenced())
		lost := time.Now()
		locktest.Advance(5 * time.Minute)
		require.False(t, l.last().at.After(lost), "it wrote without its lock")
		rival.Release()
		locktest.Within(t, 5*time.Second, func() bool { return l.last().token > rival.Lock.Token() })
	})
}

func TestWorker_StopsWhenTheServerIsFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server, l *memory) {
		start(t, s, "a", l)
		before := l.last()
		s.Freeze()
		frozen := time.Now()
		locktest.Advance(5 * time.Minute)
		require.Less(t, l.last().at.Sub(frozen), 30*time.Second, "it wrote after its lease")
		s.Thaw()
		locktest.Within(t, 15*time.Second, func() bool { return l.last().token > before.token })
	})
}

func TestWorker_AnotherTakesOverWhenItIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server, l *memory) {
		first := start(t, s, "a", l)
		start(t, s, "b", l)
		require.Equal(t, "a", l.last().writer)
		s.Partition(first)
		locktest.Within(t, 31*time.Second, func() bool { return l.last().writer == "b" })
		s.Heal(first)
		locktest.Advance(5 * time.Minute)
		for i, e := range l.entries[1:] {
			if before := l.entries[i]; before.writer != e.writer {
				require.Equal(t, "a", before.writer, "writers took turns")
				require.Less(t, before.token, e.token)
			}
		}
		require.Equal(t, "b", l.last().writer, "the first waits")
	})
}

func TestWorker_WritesOnWhenTheServerRestarts(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Server, l *memory) {
		start(t, s, "a", l)
		s.Restart()
		locktest.Advance(5 * time.Minute)
		require.Equal(t, l.entries[0].token, l.last().token, "it has the same lock")
		for i, e := range l.entries[1:] {
			require.Less(t, e.at.Sub(l.entries[i].at), 2*time.Second)
		}
	})
}
