package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A shop changes orders, each under a lock of its own.
type shop struct {
	mgr      *lockmgr.Manager
	name     string                          // what the names of the locks begin with
	orders   *table                          // the resource
	work     func(ctx context.Context) error // what has to be done before the order is changed
	wait     time.Duration                   // how long a request waits for another one of the same order
	deadline time.Duration                   // how long a request takes at most
}

// ServeHTTP answers PUT /orders/{id}/{state}.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.deadline)
	defer cancel()
	err := s.change(ctx, r.PathValue("id"), r.PathValue("state"))
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, lockmgr.ErrNotAcquired), errors.Is(err, errStale): // somebody else has the order
		http.Error(w, err.Error(), http.StatusConflict)
	case lockmgr.Temporary(err), errors.Is(err, context.DeadlineExceeded): // the server can't be reached
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// change changes an order. It does not use Do, which waits for its unlock for longer than the
// deadline of a request allows while the server is silent.
func (s *shop) change(ctx context.Context, id, state string) error {
	lock, err := s.mgr.Lock(ctx, s.name+":"+id, lockmgr.Fenced(), lockmgr.MaxWait(s.wait))
	if err != nil {
		return err
	}
	defer lock.UnlockAsync()                          // the release goes on in the background
	if err := s.work(lock.Context(ctx)); err != nil { // ends when the lock is lost
		return err
	}
	return s.orders.save(id, state, lock.Token(), lock.HolderID())
}
