package lockmgr_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// logged returns a logger, and a function that returns the lines so far which have a text.
func logged(level slog.Level) (*slog.Logger, func(text string) []string) {
	var log lockedBuffer
	return slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})), func(text string) (found []string) {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, text) {
				found = append(found, line)
			}
		}
		return found
	}
}

// A server that is away for half a minute makes one line when the trouble begins and one when it
// ends, of the commands and of the connection for messages, however many locks are held.
func TestLog_OutageHasTwoLines(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		log, lines := logged(slog.LevelInfo)
		m, n := w.manager(lockmgr.Options{Lease: 100 * second, RetryTime: time.Hour, Logger: log})
		for i := range 100 {
			mustLock(t, m, fmt.Sprint("held:", i))
		}
		other, _ := w.manager(lockmgr.Options{})
		busy := mustLock(t, other, "busy")
		f := m.LockAsync("busy")
		time.Sleep(second)
		require.Len(t, lines("notify: connected"), 1)
		n.cut()
		time.Sleep(40 * second) // the renewals are due
		require.Len(t, lines("notify: connection lost"), 1)
		require.Len(t, lines("commands fail"), 1)
		require.Regexp(t, `level=WARN msg="commands fail" (name=busy|leases=\d+) reason=unavailable error=`, lines("commands fail")[0])
		n.heal()
		time.Sleep(5 * second)
		require.Len(t, lines("notify: connected"), 2)
		require.Regexp(t, `after=(39|4\d)[\d.]*s failures=\d+`, lines("notify: connected")[1])
		require.Empty(t, lines("no longer"), "the quiet was short")
		time.Sleep(20 * second)
		require.Len(t, lines("commands no longer fail"), 1)
		require.Regexp(t, `level=INFO msg="commands no longer fail" reason=unavailable for=\d[\d.]*s failures=\d+ renewals=[1-9]\d\d`, lines("no longer")[0])
		mustUnlock(t, busy)
		mustAwait(t, f)
		require.Len(t, lines("level=WARN"), 2)

		// A second outage is a trouble of its own.
		again := mustLock(t, other, "again")
		f = m.LockAsync("again")
		time.Sleep(second)
		n.cut()
		time.Sleep(80 * second)
		require.Len(t, lines("commands fail"), 2)
		n.heal()
		time.Sleep(30 * second)
		require.Len(t, lines("commands no longer fail"), 2)
		require.Len(t, lines("notify: connection lost"), 2)
		mustUnlock(t, again)
		mustAwait(t, f)
	})
}

// Of a thousand locks that are lost at once ten are named, and the others counted. A loss that
// comes later has its own line. Closing tells what was left out.
func TestLog_LossesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		log, lines := logged(slog.LevelInfo)
		m, _ := w.manager(lockmgr.Options{Lease: 9 * second, Logger: log})
		lose := func(n int) {
			for i := range n {
				mustLock(t, m, fmt.Sprint("orders:", i))
			}
			w.server.FlushAll()
			time.Sleep(6 * second)
			require.Zero(t, m.Stats().Held)
		}
		lose(1000)
		named, counted, seconds := len(lines(`"lock lost"`)), 0, len(lines(`"more locks lost"`))
		for _, line := range lines(`"more locks lost"`) {
			_, count, _ := strings.Cut(line, "count=")
			n := must(strconv.Atoi(strings.TrimSpace(count)))(t)
			counted += n
		}
		require.Contains(t, lines(`"lock lost"`)[0], `level=WARN msg="lock lost" name=orders:`)
		require.Equal(t, 1000, named+counted)
		require.Equal(t, 10*seconds, named)
		require.LessOrEqual(t, seconds, 4, "renewals are due within a third of the lease")
		lose(1)
		require.Len(t, lines(`"lock lost"`), named+1)
		require.Len(t, lines(`"more locks lost"`), seconds)

		// While a trouble is open, whose end is told after minutes.
		held := mustLockEach(t, m, numbered("again:", 20))
		w.server.FlushAll()
		w.server.SetError("NOPERM no rights")
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a")), lockmgr.ErrPermission)
		w.server.SetError("")
		<-time.After(3 * second)
		for _, l := range held {
			require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
		}
		<-time.After(2 * second)
		require.Len(t, lines(`"more locks lost" count=10`), 1)
	})
}

// Troubles of two reasons have their own lines.
func TestLog_TroublesByReason(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		log, lines := logged(slog.LevelInfo)
		m, n := w.manager(lockmgr.Options{Lease: 100 * second, Logger: log})
		w.server.SetError("NOPERM no rights")
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a b")), lockmgr.ErrPermission)
		w.server.SetError("")
		n.cut()
		require.Error(t, errOf(m.Lock(ctx, "c", lockmgr.MaxWait(second))))
		require.Len(t, lines("commands fail"), 2)
		require.Contains(t, lines("reason=permission")[0], `name="a b"`)
		require.Contains(t, lines("reason=unavailable")[0], `name=c `)
		time.Sleep(6 * time.Minute)
		require.Empty(t, lines("no longer"), "nothing has succeeded")
		n.heal()
		l := mustLock(t, m, "d")
		time.Sleep(20 * second)
		require.Len(t, lines("commands no longer fail"), 2)

		// Whether a name is refused still is known only when somebody asks for it.
		w.server.SetError("NOPERM no rights")
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a b")), lockmgr.ErrPermission)
		w.server.SetError("")
		mustTryLock(t, m, "e")
		time.Sleep(time.Minute)
		require.Len(t, lines("commands no longer fail"), 2)
		time.Sleep(5 * time.Minute)
		require.Len(t, lines("commands no longer fail"), 3)
		mustUnlock(t, l)
	})
}

// A lockedBuffer may be written and read concurrently.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// While no command reaches the server, whatever a manager has to do, no script follows a failed
// script without a pause.
func TestTroubles_PausesBetweenScripts(t *testing.T) {
	for _, kind := range kinds {
		lock := func(m *lockmgr.Manager) *futures.Future[*lockmgr.Lock] {
			if kind.title == "plain" { // to pass on a token takes a script
				return kind.ask(m, "a", lockmgr.Fenced())
			}
			return kind.ask(m, "a")
		}
		for _, what := range []string{"nothing", "unlock", "give up", "both"} {
			for i := range 4 {
				hush, elsewhere := i%2 == 1, i > 1
				inBubble(t, fmt.Sprint(kind.title, " ", what, " hush=", hush, " elsewhere=", elsewhere), func(t *testing.T, w *scene) {
					m, n := w.manager(lockmgr.Options{})
					holder := m
					if elsewhere {
						holder, _ = w.manager(lockmgr.Options{})
					}
					held := mustAwait(t, lock(holder))
					waits := []*futures.Future[*lockmgr.Lock]{lock(m), lock(m)}
					synctest.Wait()
					if hush {
						n.hush()
					} else {
						n.cut()
					}
					switch what {
					case "unlock":
						held.UnlockAsync()
					case "give up":
						waits[0].Cancel()
						waits[1].Cancel()
					case "both":
						waits[0].Cancel()
						held.UnlockAsync()
						waits[1].Cancel()
					}
					sent := m.Stats().Scripts
					time.Sleep(20 * time.Second)
					require.Less(t, m.Stats().Scripts-sent, uint64(100))
				})
			}
		}
	}
}
