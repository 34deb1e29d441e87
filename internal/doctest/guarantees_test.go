package doctest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var errStale = errors.New("stale")

// docs/guarantees.md 1
func save(ctx context.Context, db *sql.DB, lock *lockmgr.Lock, id int, state string) error {
	res, err := db.ExecContext(ctx, `
		UPDATE orders SET state = $1, token = $2, holder = $3
		WHERE id = $4 AND (token < $2 OR (token = $2 AND holder = $3))`,
		state, lock.Token(), lock.HolderID(), id)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errStale // a later holder has written, or there is no such row
}

// end

// A holder that does not know of its loss is refused, and so is a second holder with the same token.
func TestGuarantees_Fencing(t *testing.T) {
	t.Parallel()
	addr, server := redistest.Mini(t)
	ctx := t.Context()
	table := &orders{id: 42}
	db := sql.OpenDB(table)
	defer db.Close()
	require.NoError(t, dial("redis://"+addr, func(mgr *lockmgr.Manager) error {
		lock := func() *lockmgr.Lock {
			l := redistest.Must(mgr.Lock(ctx, "orders:42", lockmgr.Fenced()))(t)
			return l
		}
		old := lock()
		require.NoError(t, save(ctx, db, old, 42, "paid"))
		require.NoError(t, save(ctx, db, old, 42, "packed"), "again by the same holder")
		require.NoError(t, old.Unlock(ctx))

		later := lock()
		require.NoError(t, save(ctx, db, later, 42, "sent"))
		require.ErrorIs(t, save(ctx, db, old, 42, "late"), errStale)
		require.Equal(t, "sent", table.state)
		require.ErrorIs(t, save(ctx, db, later, 7, "nowhere"), errStale)
		require.NoError(t, later.Unlock(ctx))

		// A failover that loses data: the counter begins again.
		server.FlushAll()
		for token := range later.Token() { // the last one is given twice
			again := lock()
			require.Equal(t, token+1, again.Token())
			require.ErrorIs(t, save(ctx, db, again, 42, "refused"), errStale)
			require.NoError(t, again.Unlock(ctx))
		}
		require.NoError(t, server.Set("redisson_lock_token:{orders:42}", fmt.Sprint(table.token)))
		last := lock()
		require.NoError(t, save(ctx, db, last, 42, "counted on"))
		return last.Unlock(ctx)
	}))
}

// orders is a database that knows the page's statement, and has a table of one row.
type orders struct {
	id            int64
	state, holder string
	token         int64
}

func (o *orders) Connect(context.Context) (driver.Conn, error) { return o, nil }
func (o *orders) Driver() driver.Driver                        { return nil }
func (o *orders) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (o *orders) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }
func (o *orders) Close() error                                 { return nil }

func (o *orders) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if got := strings.Join(strings.Fields(query), " "); got !=
		"UPDATE orders SET state = $1, token = $2, holder = $3 WHERE id = $4 AND (token < $2 OR (token = $2 AND holder = $3))" {
		return nil, errors.New("unknown statement: " + got)
	}
	state, token, holder := args[0].Value.(string), args[1].Value.(int64), args[2].Value.(string)
	if args[3].Value.(int64) != o.id || (o.token >= token && (o.token != token || o.holder != holder)) {
		return driver.RowsAffected(0), nil
	}
	o.state, o.token, o.holder = state, token, holder
	return driver.RowsAffected(1), nil
}
