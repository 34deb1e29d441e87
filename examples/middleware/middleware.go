package main

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// oneAtATime returns a handler that serves one request for each key at a time, over all processes.
// Other requests for the key wait, but for at most wait. A request that gets no lock is answered
// with 503 and Retry-After if a later try may succeed, and with 500 if not.
func oneAtATime(mgr *lockmgr.Manager, key func(*http.Request) string, wait time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served := false
		err := mgr.Do(r.Context(), key(r), func(ctx context.Context, _ *lockmgr.Lock) error {
			served = true
			next.ServeHTTP(w, r.WithContext(ctx)) // ctx ends when the lock is lost
			return nil
		}, lockmgr.MaxWait(wait))
		switch {
		case served: // next has answered
		case lockmgr.Temporary(err): // the key is busy, or the server can't be reached
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusServiceUnavailable)
		default:
			http.Error(w, "no lock", http.StatusInternalServerError)
		}
	})
}
