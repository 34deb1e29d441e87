package doctest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A ledger is the table of the runs that have ended, which lives without the lock's server.
type ledger struct {
	mu    sync.Mutex
	terms map[time.Time]int64
}

func (l *ledger) Has(_ context.Context, night time.Time) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, has := l.terms[night]
	return has, nil
}

func (l *ledger) Add(_ context.Context, night time.Time, term int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terms[night] = term
	return nil
}

// A flakyServer is an embedded server in fake time, which can be away.
type flakyServer struct {
	*miniredis.Miniredis
	away  atomic.Bool
	mu    sync.Mutex
	conns []net.Conn
}

// startFlaky starts a server, and a manager in each of two processes.
func startFlaky(t *testing.T) (s *flakyServer, two [2]*lockmgr.Manager) {
	s = &flakyServer{Miniredis: miniredis.NewMiniRedis()}
	s.ClockTTL(true)
	t.Cleanup(s.Close) // after the managers, which are closed by later Cleanups
	for i := range two {
		mgr, err := lockmgr.Dial(rueidis.ClientOption{
			InitAddress: []string{"pipe:0"}, ForceSingleClient: true, DialCtxFn: s.dial,
		}, lockmgr.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = mgr.Close(context.Background()) })
		two[i] = mgr
	}
	return s, two
}

func (s *flakyServer) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	if s.away.Load() {
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	}
	c, err := s.Dial()
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, c)
	}
	return c, err
}

// outage begins an outage of a length. Locks outlive the outage on the server, as long as their
// leases last.
func (s *flakyServer) outage(d time.Duration) {
	s.away.Store(true)
	time.AfterFunc(d, func() { s.away.Store(false) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// A job with a ledger runs once, whatever the server does meanwhile. The recipe needs no loop.
func TestChoosing_LedgerInAnOutage(t *testing.T) {
	const outage, hours = 5 * time.Minute, 8 * time.Hour // leases are of 30 s
	for name, c := range map[string]struct {
		away   func(s *flakyServer, begun int) // is called at the start, and at the beginning of each job
		begins int
	}{
		"no outage": {func(*flakyServer, int) {}, 1},
		"at the start": {func(s *flakyServer, begun int) {
			if begun == 0 {
				s.outage(outage)
			}
		}, 1},
		"at work": {func(s *flakyServer, begun int) {
			if begun == 1 {
				s.outage(outage)
			}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, two := startFlaky(t)
				untilTheEnd, stop := context.WithTimeout(t.Context(), hours)
				defer stop()
				runs := &ledger{terms: make(map[time.Time]int64)}
				night, working, begun, ended := time.Now(), 0, 0, 0
				job := func(ctx context.Context) error {
					working, begun = working+1, begun+1
					defer func() { working-- }()
					require.Equal(t, 1, working)
					c.away(s, begun)
					select {
					case <-ctx.Done():
						return context.Cause(ctx)
					case <-time.After(time.Minute):
						ended++
						return nil
					}
				}
				c.away(s, 0)
				var all sync.WaitGroup
				for _, mgr := range two {
					all.Go(func() { require.NoError(t, chooseLedger(t.Context(), untilTheEnd, mgr, night, runs, job)) })
				}
				all.Wait()
				require.Equal(t, 1, ended)
				require.Equal(t, c.begins, begun)
				require.Positive(t, runs.terms[night])
				require.NoError(t, untilTheEnd.Err())
			})
		})
	}
}

// Who waits until the end gets the error of the end. A job that fails is taken over.
func TestChoosing_LedgerUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, two := startFlaky(t)
		runs := &ledger{terms: make(map[time.Time]int64)}
		night, failed := time.Now(), errors.New("failed")
		require.Equal(t, failed, chooseLedger(t.Context(), t.Context(), two[0], night, runs, func(context.Context) error { return failed }))
		require.Empty(t, runs.terms)

		untilTheEnd, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		long := make(chan error, 1)
		go func() {
			long <- chooseLedger(t.Context(), untilTheEnd, two[0], night, runs, func(ctx context.Context) error {
				time.Sleep(time.Hour)
				return ctx.Err()
			})
		}()
		synctest.Wait()
		never := func(context.Context) error { panic("runs beside the other") }
		err := chooseLedger(t.Context(), untilTheEnd, two[1], night, runs, never)
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, <-long, "the end ends no work")

		s.outage(time.Hour)
		untilTheEnd, stop = context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err = chooseLedger(t.Context(), untilTheEnd, two[1], night.Add(1), runs, never)
		require.ErrorIs(t, err, context.DeadlineExceeded, "no process could ask")
	})
}
