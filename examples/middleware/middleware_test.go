package main

import (
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
		runtest.InOrder(t, runtest.Run(t, run, args...), "ben: POST /accounts/7: 503 1\n", "ben: POST /accounts/8: 204 \n",
			"anna: POST /accounts/7: 204 \n", "ben: POST /accounts/7: 204 \n")
	})
}

func TestRun_NoServer(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), t.Output(), []string{"-redis", runtest.Nowhere(t)}), "Without -redis")
}

// The context of a request ends when the lock is lost. The handler has the last word.
func TestHandler_Loss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mgr, err := lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{})
	require.NoError(t, err)
	defer mgr.Close(t.Context())
	h := oneAtATime(mgr, func(*http.Request) string { return "a" }, time.Minute, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := mgr.ForceUnlock(t.Context(), "a")
		require.NoError(t, err)
		<-r.Context().Done()
		w.WriteHeader(http.StatusTeapot)
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", nil))
	require.Equal(t, http.StatusTeapot, w.Code)
}

// A request that can never get its lock is not told to try again.
func TestHandler_BadName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	mgr, err := lockmgr.DialURL("redis://"+s.Addr(), lockmgr.Options{})
	require.NoError(t, err)
	defer mgr.Close(t.Context())
	h := oneAtATime(mgr, func(*http.Request) string { return "" }, time.Minute, http.NotFoundHandler())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", nil))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Empty(t, w.Header().Get("Retry-After"))
}
