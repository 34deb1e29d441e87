package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Each release that Close gives up has its event, whether ctx ended or the server has failed for
// long. Ten have log lines, and one line counts the others, even if the handler takes nothing but
// errors. Close ends a second after its context at most, or after one more try.
func TestClose_ReportsEachReleaseThatItGivesUp(t *testing.T) {
	for what, timeout := range map[string]time.Duration{"its context ends": second, "the server has failed": time.Hour} {
		inBubble(t, what, func(t *testing.T, w *scene) {
			log, lines := logged(slog.LevelError)
			n := &network{server: w.server}
			seen := faults.NewWitness()
			m := dialNetwork(t, n, lockmgr.Options{Logger: log, Observer: seen.Observe})
			held := mustLockEach(t, m, numbered("", 50))
			n.hush()
			for _, l := range held[:25] {
				l.UnlockAsync()
			}
			time.Sleep(8 * second)
			begin := time.Now()
			err := m.Close(endsIn(t, timeout))
			require.LessOrEqual(t, time.Since(begin), 2*second+frozenPauses)
			require.Equal(t, timeout == second, errors.Is(err, context.DeadlineExceeded), err)
			require.ErrorContains(t, err, "releases not confirmed: 50, the locks will expire, the last of them is ")
			require.ErrorIs(t, held[49].Err(), lockmgr.ErrClosed)
			told := m.Close(ctx) // waits for the observer and the log handler
			for range 50 {
				require.EqualError(t, m.Close(endsIn(t, 0)), told.Error(), "the end is there")
			}
			require.EqualValues(t, 50, m.Stats().Unreleased)
			require.Equal(t, 50, faults.Count(seen, func(e lockmgr.EventReleaseGivenUp) bool { return e.Err != nil }))
			require.Len(t, lines(`"release not confirmed`), 10)
			require.Len(t, lines(`level=ERROR msg="more releases not confirmed, the locks will expire" count=40`), 1)
		})
	}
}

// An unlock that reaches the manager just after Close fails with ErrClosed, as every later unlock
// does.
func TestUnlock_CrossesClose(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var stopper lockmgr.Stopper
		m, _ := w.manager(stopper.Options(lockmgr.Options{}))
		l := mustLock(t, m, "a")
		resume := stopper.Stop(m)
		closed := make(chan error, 1)
		go func() { closed <- m.Close(ctx) }()
		synctest.Wait() // Close is in the mailbox
		f := l.UnlockAsync()
		resume()
		require.ErrorIs(t, errOf(f.Await(ctx)), lockmgr.ErrClosed)
		require.NoError(t, <-closed)
	})
}

// A request that has never had its lock leaves no lock behind: nobody is told that a release is not
// confirmed.
func TestClose_WaitersLeaveNothing(t *testing.T) {
	for _, title := range []string{"plain", "writer", "set", "fair", "permits"} {
		ask := kindOf(title).ask
		for i, closes := range []bool{false, true, true} {
			unanswered := i == 2
			inBubble(t, fmt.Sprint(title, " closes=", closes, " unanswered=", unanswered), func(t *testing.T, w *scene) {
				holder, _ := w.manager(lockmgr.Options{})
				held := mustAwait(t, ask(holder, "a"))
				m, n := w.manager(lockmgr.Options{})
				f := ask(m, "a")
				synctest.Wait() // it waits
				if unanswered {
					n.hush() // what leaves the line gets no answer
				} else {
					n.cut()
					synctest.Wait()
				}
				if closes {
					require.NoError(t, m.Close(ctx))
				}
				require.Error(t, errOf(f.Await(ctx)))
				time.Sleep(time.Minute) // of fake time: longer than any record lives
				require.Zero(t, m.Stats().Unreleased)
				mustUnlock(t, held)
			})
		}
	}
}

// The removal of the record of the process fails after the last unlock. Close removes the record.
func TestClose_RemovesTheRecordOfTheProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a")
		record := "holdfast:manager:" + strings.ReplaceAll(m.ID(), "-", "")[:16]
		time.Sleep(2 * second)
		require.True(t, w.server.Exists(record))
		mustUnlock(t, l)
		n.cut()
		time.Sleep(5 * second)
		n.heal()
		mustClose(t, m)
		require.False(t, w.server.Exists(record))
	})
}
