package doctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

type (
	job    = func(ctx context.Context, lock *lockmgr.Lock) error
	simple = func(ctx context.Context) error
	termed = func(ctx context.Context, term int64) error
)

func choosePlain(ctx context.Context, mgr *lockmgr.Manager, name string, work simple) error {
	// docs/choosing.md 1
	err := mgr.Do(ctx, name, func(ctx context.Context, lock *lockmgr.Lock) error {
		return work(ctx) // ctx ends when the lock is lost
	}, lockmgr.MaxWait(2*time.Second))
	// end
	return err
}

func chooseFair(ctx context.Context, mgr *lockmgr.Manager, name string, work simple) error {
	// docs/choosing.md 2
	lock, err := mgr.Lock(ctx, name, lockmgr.Fair())
	if err != nil {
		return err
	}
	return lock.Do(ctx, work)
	// end
}

func chooseReadWrite(ctx context.Context, mgr *lockmgr.Manager, work simple, update job) error {
	// docs/choosing.md 3
	read := func(ctx context.Context, lock *lockmgr.Lock) error { return work(ctx) }
	if err := mgr.Do(ctx, "catalog", read, lockmgr.Shared()); err != nil {
		return err
	}
	return mgr.Do(ctx, "catalog", update, lockmgr.Exclusive())
	// end
}

func chooseSeveral(ctx context.Context, mgr *lockmgr.Manager, transfer simple) error {
	// docs/choosing.md 4
	set := lockmgr.All("accounts:7", "accounts:9")
	return mgr.DoAll(ctx, set, func(ctx context.Context, lock *lockmgr.Lock) error {
		return transfer(ctx)
	})
	// end
}

func choosePermits(ctx context.Context, mgr *lockmgr.Manager, work simple) error {
	// docs/choosing.md 5
	exports := mgr.Permits("exports", 10)
	return exports.Do(ctx, 1, func(ctx context.Context, lock *lockmgr.Lock) error {
		return work(ctx)
	})
	// end
}

func chooseFenced(ctx context.Context, mgr *lockmgr.Manager, name string, write termed) error {
	// docs/choosing.md 6
	err := mgr.Do(ctx, name, func(ctx context.Context, lock *lockmgr.Lock) error {
		return write(ctx, lock.Token()) // the resource refuses smaller tokens
	}, lockmgr.Fenced())
	// end
	return err
}

func chooseLeader(ctx context.Context, mgr *lockmgr.Manager, schedule termed) error {
	// docs/choosing.md 7
	return mgr.Lead(ctx, "scheduler", func(ctx context.Context, term int64) error {
		return schedule(ctx, term) // must return when ctx ends: the leadership is lost
	})
	// end
}

func chooseOnce(ctx context.Context, mgr *lockmgr.Manager, job simple) error {
	// docs/choosing.md 8
	err := mgr.Do(ctx, "nightly", func(ctx context.Context, lock *lockmgr.Lock) error {
		return job(ctx)
	}, lockmgr.OnlyIfFree(), lockmgr.KeepFor(time.Minute))
	if errors.Is(err, lockmgr.ErrNotAcquired) {
		return nil // another process runs the job, or has run it
	}
	return err
	// end
}

// A ledger is the table of the runs that have ended, which lives without the lock's server.
type ledger map[time.Time]int64

func (l ledger) Has(_ context.Context, night time.Time) (bool, error) { return l[night] > 0, nil }

func (l ledger) Add(_ context.Context, night time.Time, term int64) error {
	l[night] = term
	return nil
}

func chooseLedger(ctx, untilTheEnd context.Context, mgr *lockmgr.Manager, night time.Time, ledger ledger, job simple) error {
	// docs/choosing.md 9
	return mgr.Lead(ctx, "nightly", func(ctx context.Context, term int64) error {
		if done, err := ledger.Has(ctx, night); err != nil || done {
			return err
		}
		if err := job(ctx); err != nil {
			return err
		}
		return ledger.Add(ctx, night, term)
	}, lockmgr.WaitContext(untilTheEnd))
	// end
}

func chooseHandOver(ctx context.Context, mgr *lockmgr.Manager, work simple, send func(holder string, token int64) error) error {
	// docs/choosing.md 10
	lock, err := mgr.Lock(ctx, "order 7", lockmgr.KeepFor(10*time.Minute), lockmgr.Fenced())
	if err != nil {
		return err
	}
	if err := lock.Do(ctx, work); err != nil {
		return err
	}
	// The name stays taken for the rest of the ten minutes.
	return send(lock.HolderID(), lock.Token())
	// end
}

func chooseTakeOver(ctx context.Context, mgr *lockmgr.Manager, work simple, holder string, token int64) error {
	// docs/choosing.md 11
	lock, err := mgr.Lock(ctx, "order 7", lockmgr.TakeOver(holder), lockmgr.Fenced())
	if err != nil {
		return err
	}
	return lock.Do(ctx, func(ctx context.Context) error {
		if lock.Token() != token+1 {
			return errStale // others may have had the lock in between: look at the order before you go on
		}
		return work(ctx)
	})
	// end
}

// A process hands a lock on, and the next one knows whether others were in between.
func TestChoosing_HandedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	var two [2]*lockmgr.Manager
	for i := range two {
		mgr, err := lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = mgr.Close(context.Background()) })
		two[i] = mgr
	}
	first, next := two[0], two[1]
	works := 0
	work := func(context.Context) error { works++; return nil }
	var holder string
	var token int64
	send := func(h string, n int64) error { holder, token = h, n; return nil }
	for _, between := range []bool{false, true} {
		require.NoError(t, chooseHandOver(ctx, first, work, send))
		_, err := next.TryLock(ctx, "order 7")
		require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		if between {
			_, err := first.ForceUnlock(ctx, "order 7")
			require.NoError(t, err)
			l, err := first.TryLock(ctx, "order 7", lockmgr.Fenced())
			require.NoError(t, err)
			require.NoError(t, l.Unlock(ctx))
			require.ErrorIs(t, chooseTakeOver(ctx, next, work, holder, token), errStale)
			continue
		}
		require.NoError(t, chooseTakeOver(ctx, next, work, holder, token))
	}
	require.Equal(t, 3, works)
}

// The page's snippets work, and cost the commands that the page says were counted.
func TestChoosing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := t.Context()
	options := lockmgr.Options{Lease: 10 * time.Minute} // no renewal is to be counted
	mgr, err := lockmgr.DialURL("redis://"+s.Addr(), options)
	require.NoError(t, err)
	defer mgr.Close(ctx)

	ran := 0
	work := func(context.Context) error { ran++; return nil }
	tokens := []int64{}
	write := func(_ context.Context, token int64) error { tokens = append(tokens, token); return nil }
	underLock := func(ctx context.Context, _ *lockmgr.Lock) error { return work(ctx) }
	steps := map[string]func() error{
		"plain":   func() error { return choosePlain(ctx, mgr, "plain", work) },
		"fair":    func() error { return chooseFair(ctx, mgr, "fair", work) },
		"several": func() error { return chooseSeveral(ctx, mgr, work) },
		"permits": func() error { return choosePermits(ctx, mgr, work) },
		"fenced":  func() error { return chooseFenced(ctx, mgr, "fenced", write) },
		"leader":  func() error { return chooseLeader(ctx, mgr, write) },
		"64 names": func() error {
			names := make([]string, 64)
			for i := range names {
				names[i] = fmt.Sprint("set:", i)
			}
			return mgr.DoAll(ctx, lockmgr.All(names...), underLock)
		},
	}
	for what, step := range steps {
		require.NoError(t, step(), what) // loads the scripts
		before := scripts(t, s)
		require.NoError(t, step(), what)
		if what != "fair" { // the page gives no count of a fair lock
			require.Equal(t, 2, scripts(t, s)-before, what)
		}
	}
	require.Equal(t, 10, ran)
	require.Len(t, tokens, 4)
	slices.Sort(tokens)
	require.Equal(t, []int64{1, 1}, tokens[:2], "each of the two names counts its own")

	require.NoError(t, chooseReadWrite(ctx, mgr, work, underLock))
	first, err := mgr.Lock(ctx, "catalog", lockmgr.Shared())
	require.NoError(t, err)
	require.NoError(t, mgr.Do(ctx, "catalog", underLock, lockmgr.Shared())) // loads the script that looks
	before, begin := scripts(t, s), time.Now()
	for range 100 {
		require.NoError(t, mgr.Do(ctx, "catalog", underLock, lockmgr.Shared()))
	}
	require.LessOrEqual(t, scripts(t, s)-before, 1+int(time.Since(begin)/(24*time.Millisecond)))
	require.NoError(t, first.Unlock(ctx))

	// The minute of KeepFor is counted beside the lease that managers have by default.
	var two [2]*lockmgr.Manager
	for i := range two {
		two[i], err = lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{})
		require.NoError(t, err)
		defer two[i].Close(ctx)
		warm := fmt.Sprint("warm:", i)
		require.NoError(t, two[i].Do(ctx, warm, underLock, lockmgr.KeepFor(time.Minute)))
	}
	ran = 0
	runs, night := ledger{}, time.Now()
	require.ErrorIs(t, chooseLedger(ctx, ctx, two[0], night, runs, func(context.Context) error { return errBusy }), errBusy)
	for _, m := range two {
		require.NoError(t, chooseLedger(ctx, ctx, m, night, runs, work))
	}
	require.Equal(t, 1, ran, "the second process asks the ledger")
	require.Equal(t, ledger{night: 2}, runs)

	ran, before = 0, scripts(t, s)
	require.NoError(t, chooseOnce(ctx, two[0], work))
	require.Equal(t, 3, scripts(t, s)-before)
	require.NoError(t, chooseOnce(ctx, two[1], work))
	require.Equal(t, 4, scripts(t, s)-before)
	require.Equal(t, 1, ran)
}

// scripts is how many scripts the server was asked to run.
func scripts(t *testing.T, s *redistest.Server) int {
	n := s.Commands(t)
	return n["evalsha"] + n["eval"]
}
