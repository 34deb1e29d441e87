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
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patient is longer than any step takes on a busy machine.
const patient = time.Minute

func manager(t *testing.T, s *redistest.Server) *lockmgr.Manager {
	t.Helper()
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, lockmgr.Options{Lease: 4 * time.Second, CommandTimeout: 1300 * time.Millisecond}) // a busy machine is no trouble
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		require.NoError(t, m.Close(ctx))
	})
	return m
}

func open(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func provider(t *testing.T, db *sql.DB, locker *Locker, up func(ctx context.Context, tx *sql.Tx) error) *goose.Provider {
	t.Helper()
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithLocker(locker),
		goose.WithGoMigrations(goose.NewGoMigration(1, &goose.GoFunc{RunTx: up}, nil)))
	require.NoError(t, err)
	return p
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
		for deadline := time.Now().Add(patient); managers[0].Stats().Waiting+managers[1].Stats().Waiting == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("nobody waits")
				break
			}
		}
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
		_, err := s.Do("DEL", "migrations")
		for deadline := time.Now().Add(patient); err == nil && m.Stats().Losses == 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		return err
	})
	_, err := p.Up(t.Context())
	require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
}

// Migrations do not run without the lock.
func TestLocker_Busy(t *testing.T) {
	s := redistest.Start(t)
	m, other := manager(t, s), manager(t, s)
	held, err := other.Lock(t.Context(), "migrations")
	require.NoError(t, err)
	up := func(context.Context, *sql.Tx) error { t.Error("a migration runs"); return nil }
	locker := NewLocker(m, "migrations", lockmgr.MaxWait(10*time.Millisecond))
	_, err = provider(t, open(t, filepath.Join(t.TempDir(), "shop.db")), locker, up).Up(t.Context())
	require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
	require.NoError(t, held.Unlock(t.Context()))
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
