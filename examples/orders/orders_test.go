package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/examples/internal/runtest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestRun_Story(t *testing.T) {
	runtest.OnServers(t, func(t *testing.T, args []string) {
		runtest.InOrder(t, runtest.Run(t, run, args...), "ben: PUT /orders/42/cancelled: 409", "anna: PUT /orders/42/packed: 204",
			"ben: PUT /orders/42/sent: 204", "Done: the order is sent.")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

// open returns a shop whose requests may take a second, and what puts an order into a state.
func open(t *testing.T, s *redistest.Server) (*shop, func(state string) int) {
	// Requests that waited for these times would be noticed.
	mgr, err := lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{Lease: 10 * time.Minute, RetryTime: time.Minute, CommandTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, mgr.Close(ctx))
	})
	o := &shop{mgr: mgr, name: "orders", orders: &table{rows: map[string]row{}}, wait: 10 * time.Minute, deadline: 20 * time.Second,
		work: func(context.Context) error { return nil }}
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}/{state}", o)
	return o, func(state string) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "PUT", "/orders/42/"+state, nil))
		return w.Code
	}
}

// A request whose holder has lost the lock, and does not look, changes nothing.
func TestShop_LateWriteIsRefused(t *testing.T) {
	t.Parallel()
	shop, put := open(t, redistest.Start(t))
	shop.work = func(ctx context.Context) error {
		shop.work = func(context.Context) error { return nil }
		_, err := shop.mgr.ForceUnlock(t.Context(), "orders:42")
		require.NoError(t, err)
		<-ctx.Done() // the lock is lost
		require.Equal(t, http.StatusNoContent, put("sent"))
		return nil
	}
	require.Equal(t, http.StatusConflict, put("late"))
	require.Equal(t, "sent", shop.orders.load("42"))
}

// A server that lost its data may give the same token again.
func TestTable_SameTokenOfAnotherHolder(t *testing.T) {
	t.Parallel()
	orders := &table{rows: map[string]row{}}
	require.NoError(t, orders.save("42", "packed", 1, "anna"))
	require.NoError(t, orders.save("42", "sent", 1, "anna"))
	require.ErrorIs(t, orders.save("42", "packed", 1, "ben"), errStale)
}

// While the server is silent, a request is answered at its deadline, whether it waits for its lock
// or has it already.
func TestShop_SilentServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	shop, put := open(t, s)
	require.Equal(t, http.StatusNoContent, put("new")) // the server knows the scripts
	const intime = 30 * time.Second                    // RetryTime is a minute

	shop.work = func(context.Context) error { s.Freeze(); return nil }
	began := time.Now()
	require.Equal(t, http.StatusNoContent, put("packed"))
	require.Less(t, time.Since(began), intime)

	shop.deadline = time.Second
	require.Equal(t, http.StatusServiceUnavailable, put("sent"))
	require.Less(t, time.Since(began), intime)
	require.Equal(t, "packed", shop.orders.load("42"))
	s.Thaw()
}
