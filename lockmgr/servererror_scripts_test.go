package lockmgr_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Scripts may vanish from the server at any moment.
func TestServerError_ScriptsFlushed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := dial(t, s.Addr(), lockmgr.Options{})
	var users, flusher sync.WaitGroup
	var stop atomic.Bool
	w := dialWire(t, s.Addr())
	flushes := 0
	flusher.Go(func() {
		for ; !stop.Load(); flushes++ {
			if _, err := w.Do("SCRIPT", "FLUSH"); err != nil {
				return
			}
		}
	})
	for i := range 50 {
		users.Go(func() {
			for range 40 {
				l, err := m.Lock(ctx, fmt.Sprint("name", i%20), lockmgr.Fenced())
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	stop.Store(true)
	flusher.Wait()
	require.Greater(t, flushes, 10)
	require.Zero(t, m.Stats().Losses)
	awaitAtRest(t, m)
}

// A user who may not call EVAL needs the scripts on the server already. A user who may
// not call SCRIPT LOAD brings them there by EVAL.
func TestServerError_ScriptsNotLoaded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "mute", "+@all", "-eval", "-script", "~*", "&*")
	setUser(t, s, "speaker", "+@all", "-script", "~*", "&*")
	mute := dialAs(t, s.Addr(), "mute", lockmgr.Options{Lease: time.Second, CommandTimeout: slow})
	speaker := dialAs(t, s.Addr(), "speaker", lockmgr.Options{})
	requireServerError(t, lockmgr.ErrPermission, errOf(mute.TryLock(faults.Patient(t), "a")))
	for _, m := range []*lockmgr.Manager{speaker, mute} {
		mustUnlock(t, mustLock(t, m, "a"))
	}
}
