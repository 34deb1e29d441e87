package goose

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

func manager(t *testing.T, s *redistest.Server) *lockmgr.Manager {
	t.Helper()
	return faults.Dial(t, s.Addr(), lockmgr.Options{Lease: 4 * time.Second, CommandTimeout: 1300 * time.Millisecond}) // a busy machine is no trouble
}

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db := redistest.Must(sql.Open("sqlite", path))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func provider(t *testing.T, db *sql.DB, locker *Locker, up func(ctx context.Context, tx *sql.Tx) error) *goose.Provider {
	t.Helper()
	return redistest.Must(goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(locker),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: up}, nil))))(t)
}

// Of two processes that start at once, one migrates. The other waits for it, and finds nothing to
// do.
func TestLocker_TwoProcesses(t *testing.T) {
	s := redistest.Start(t)
	managers := []*lockmgr.Manager{manager(t, s), manager(t, s)}
	path := filepath.Join(t.TempDir(), "shop.db")
	var running, applied atomic.Int64
	up := func(ctx context.Context, tx *sql.Tx) error {
		if running.Add(1) != 1 {
			t.Error("two migrations run")
		}
		defer running.Add(-1)
		faults.Eventually(t, func() bool { return managers[0].Stats().Waiting+managers[1].Stats().Waiting > 0 }, "nobody waits")
		_, err := tx.ExecContext(ctx, "CREATE TABLE orders (id INTEGER)")
		return err
	}
	var all sync.WaitGroup
	for _, m := range managers {
		p := provider(t, open(t, path), NewLocker(m, "migrations"), up)
		all.Go(func() {
			results, err := p.Up(context.Background())
			if err != nil {
				t.Error(err)
			}
			applied.Add(int64(len(results)))
		})
	}
	all.Wait()
	require.EqualValues(t, 1, applied.Load())
	for _, m := range managers {
		require.Zero(t, m.Stats().Held, "a lock was not released")
	}
}

// Migrations whose lock was lost end with an error.
func TestLocker_Loss(t *testing.T) {
	s := redistest.Start(t)
	m := manager(t, s)
	p := provider(t, open(t, filepath.Join(t.TempDir(), "shop.db")), NewLocker(m, "migrations"), func(context.Context, *sql.Tx) error {
		faults.Do(t, s, "DEL", "migrations")
		faults.Eventually(t, func() bool { return m.Stats().Losses == 1 })
		return nil
	})
	_, err := p.Up(t.Context())
	require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
}

// Migrations do not run without the lock.
func TestLocker_Busy(t *testing.T) {
	s := redistest.Start(t)
	m, other := manager(t, s), manager(t, s)
	held := faults.Take(t, other, "migrations")
	up := func(context.Context, *sql.Tx) error { t.Error("a migration runs"); return nil }
	locker := NewLocker(m, "migrations", lockmgr.MaxWait(10*time.Millisecond))
	_, err := provider(t, open(t, filepath.Join(t.TempDir(), "shop.db")), locker, up).Up(t.Context())
	require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
	faults.Release(t, held)
	require.ErrorIs(t, locker.Unlock(t.Context(), nil), lockmgr.ErrNotHeld)
}

// The lock excludes all others, even if their contexts have the same owner.
func TestLocker_IgnoresTheOwner(t *testing.T) {
	m := manager(t, redistest.Start(t))
	ctx := lockmgr.WithOwner(t.Context(), m.NewOwner())
	locker := NewLocker(m, "shop", lockmgr.OnlyIfFree())
	require.NoError(t, locker.Lock(ctx, nil))
	require.ErrorIs(t, locker.Lock(ctx, nil), lockmgr.ErrNotAcquired)
	require.NoError(t, locker.Unlock(ctx, nil))
}

// An option that lets others have the lock, too, is refused.
func TestLocker_RefusesOptionsThatUndoIt(t *testing.T) {
	m := manager(t, redistest.Start(t))
	for _, o := range []lockmgr.LockOption{lockmgr.Shared(), lockmgr.AsOwner(m.NewOwner())} {
		locker := NewLocker(m, "shop", lockmgr.OnlyIfFree(), o)
		err := locker.Lock(t.Context(), nil)
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption, o.Name())
		require.ErrorContains(t, err, o.Name())
	}
}
