package goose_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"testing/fstest"

	"github.com/alicebob/miniredis/v2"
	"github.com/pressly/goose/v3"
	"github.com/redis/rueidis"
	_ "modernc.org/sqlite"

	holdfastgoose "github.com/holdfast-go/holdfast/contrib/goose"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	mgr, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, lockmgr.Options{})
	if err != nil {
		panic(err)
	}
	defer mgr.Close(ctx)
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)

	migrations := fstest.MapFS{"00001_orders.sql": {Data: []byte("-- +goose Up\nCREATE TABLE orders (id INTEGER);\n")}}
	applied, err := migrate(ctx, db, migrations, mgr)
	if err != nil {
		panic(err)
	}
	fmt.Println("applied:", len(applied))
	// Output: applied: 1
}

// migrate has the snippet of README.md.
func migrate(ctx context.Context, db *sql.DB, migrations fs.FS, mgr *lockmgr.Manager) ([]*goose.MigrationResult, error) {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations,
		goose.WithLocker(holdfastgoose.NewLocker(mgr, "migrations:shop")))
	if err != nil {
		return nil, err
	}
	return provider.Up(ctx)
}
