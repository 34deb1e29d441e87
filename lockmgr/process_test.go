package lockmgr_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

var billing = lockmgr.Process{Program: "billing", Host: "web-3", PID: 411}

// processKeys lists the records of processes on the server.
func (w *scene) processKeys() (keys []string) {
	for _, key := range w.server.Keys() {
		if strings.HasPrefix(key, "holdfast:") {
			keys = append(keys, key)
		}
	}
	return keys
}

// Another manager sees who holds a lock, since when and what for. Its record costs a command after
// the first second, and one every ten seconds.
func TestProcess_OthersSeeWhoHoldsALock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		seen := faults.NewWitness()
		m, _ := w.manager(lockmgr.Options{Process: billing, Observer: seen.Observe})
		other, _ := w.manager(lockmgr.Options{})
		granted := time.Now()
		l := mustLock(t, m, "a", lockmgr.Note("invoice 42"))

		holder := func(by *lockmgr.Manager) lockmgr.Holder { return mustInspect(t, by, "a").Holders[0] }
		time.Sleep(900 * time.Millisecond)
		require.Equal(t, lockmgr.Holder{Owner: l.HolderID(), Count: 1}, holder(other), "a short hold costs nothing")
		require.Equal(t, billing, holder(m).Process, "a manager knows its own holds")
		require.Equal(t, "invoice 42", holder(m).Note)
		require.Empty(t, w.processKeys())

		time.Sleep(time.Second)
		require.Equal(t, "plain", mustInspect(t, other, "a").Kind)
		h := holder(other)
		require.Equal(t, billing, h.Process)
		require.Equal(t, "invoice 42", h.Note)
		require.WithinDuration(t, granted, h.Since, 150*time.Millisecond)
		require.Equal(t, "billing@web-3, pid 411, for 1.9s: invoice 42", h.String())
		require.Len(t, w.processKeys(), 1)

		time.Sleep(time.Minute)
		require.Equal(t, h, holder(other))
		synctest.Wait()
		written := faults.Count(seen, func(e lockmgr.EventCommand) bool { return e.Command == "SET" })
		require.Equal(t, 7, written, "one second after the grant, then every ten")

		// A record that is not needed goes.
		mustUnlock(t, l)
		time.Sleep(1100 * time.Millisecond)
		require.Empty(t, w.processKeys())
		l = mustLock(t, m, "a", lockmgr.Note("again"))
		time.Sleep(2 * time.Second)

		// A later hold does not have the note of an earlier one.
		mustUnlock(t, l)
		mustLock(t, m, "a")
		h = holder(other)
		require.Equal(t, billing, h.Process)
		require.Empty(t, h.Note)
		require.Zero(t, h.Since)
		time.Sleep(12 * time.Second)
		require.Equal(t, "billing@web-3, pid 411, for 12s", holder(other).String(), "a hold without a note is told later")

		// A record that got lost is written again.
		require.True(t, w.server.Del(w.processKeys()[0]))
		time.Sleep(10 * time.Second)
		require.Len(t, w.processKeys(), 1)
		mustClose(t, m)
		synctest.Wait()
		require.Empty(t, w.processKeys(), "Close removes the record")
	})
}

// refuse makes the server refuse a command for records of processes, and counts the refusals.
func (w *scene) refuse(command, message string) (count *atomic.Int64) {
	count = new(atomic.Int64)
	w.server.Server().SetPreHook(func(c *server.Peer, name string, args ...string) bool {
		if name != command || len(args) == 0 || !strings.HasPrefix(args[0], "holdfast:manager:") {
			return false
		}
		count.Add(1)
		c.WriteError(message)
		return true
	})
	return count
}

// The record of a process that died ends by itself within 35 s, however long its locks last.
func TestProcess_RecordOfADeadProcessEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{Process: billing, Lease: time.Hour})
		other, _ := w.manager(lockmgr.Options{})
		mustLock(t, m, "a", lockmgr.FixedLease(365*24*time.Hour), lockmgr.Note("long"))
		mustLock(t, m, "b")
		time.Sleep(2 * time.Second)
		n.cut()
		time.Sleep(33 * time.Second)
		info := mustInspect(t, other, "a")
		require.Equal(t, billing, info.Holders[0].Process, "as long as a lock of 30 s would be there")
		time.Sleep(2 * time.Second)
		require.Empty(t, w.processKeys())
		require.Zero(t, mustInspect(t, other, "a").Holders[0].Process, "its lock is still there")
	})
}

// A record that is not removed ends by itself: after an unlock and after Close, if the removal is
// refused, if it is lost, and if a write comes after it.
func TestProcess_RecordThatIsNotRemovedEnds(t *testing.T) {
	for _, how := range []string{"refused after an unlock", "refused in Close", "lost in Close", "a late write"} {
		inBubble(t, how, func(t *testing.T, w *scene) {
			m, n := w.manager(lockmgr.Options{Process: billing, Lease: time.Hour})
			l := mustLock(t, m, "a", lockmgr.FixedLease(365*24*time.Hour))
			time.Sleep(2 * time.Second)
			require.Len(t, w.processKeys(), 1)
			switch key := w.processKeys()[0]; how {
			case "refused after an unlock":
				w.refuse("DEL", "MISCONF no writes")
				mustUnlock(t, l)
			case "refused in Close":
				w.refuse("DEL", "MISCONF no writes")
				mustClose(t, m)
			case "lost in Close":
				mustUnlock(t, l)
				n.hush()
				mustClose(t, m)
			case "a late write":
				text, life := must(w.server.Get(key))(t), w.server.TTL(key)
				mustClose(t, m)
				require.NoError(t, w.server.Set(key, text))
				w.server.SetTTL(key, life)
			}
			synctest.Wait()
			require.Len(t, w.processKeys(), 1)
			time.Sleep(35 * time.Second)
			require.Empty(t, w.processKeys())
		})
	}
}

// A manager that has nothing for a second writes nothing.
func TestProcess_ShortHoldsCostNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Process: billing})
		for range 100 {
			l := mustLock(t, m, "a", lockmgr.Note("short"))
			time.Sleep(50 * time.Millisecond)
			mustUnlock(t, l)
			time.Sleep(951 * time.Millisecond)
			require.Empty(t, w.processKeys())
		}
	})
}

// A manager with many short holds has a record between the holds, too. The record goes within two
// seconds after the last hold.
func TestProcess_RecordStaysBetweenShortHolds(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Process: billing})
		seen := 0
		for range 300 {
			l := mustLock(t, m, "a")
			time.Sleep(100 * time.Millisecond)
			mustUnlock(t, l)
			time.Sleep(60 * time.Millisecond)
			if len(w.processKeys()) == 1 {
				seen++
			}
			require.True(t, seen == 0 || len(w.processKeys()) == 1)
		}
		require.Greater(t, seen, 200)
		time.Sleep(900 * time.Millisecond)
		require.Len(t, w.processKeys(), 1)
		time.Sleep(1100 * time.Millisecond)
		require.Empty(t, w.processKeys())
	})
}

// The last hold ends while the write of the record is not answered. The record is removed a second
// later all the same.
func TestProcess_HoldEndsDuringTheWrite(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{Process: lockmgr.Process{Program: "app"}})
		l := mustLock(t, m, "orders")
		mustUnlock(t, l) // the server knows the scripts now
		n.delay.Store(int64(400 * time.Millisecond))
		l = mustLock(t, m, "orders", lockmgr.FixedLease(1200*time.Millisecond))
		<-l.Lost()
		n.delay.Store(0)
		time.Sleep(time.Second / 2)
		require.Len(t, w.processKeys(), 1)
		time.Sleep(2 * time.Second)
		require.Empty(t, w.processKeys())
	})
}

func TestProcess_Anonymous(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Process: billing, Anonymous: true})
		other, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a", lockmgr.Note("secret"))
		time.Sleep(time.Minute)
		require.Empty(t, w.processKeys())
		info := mustInspect(t, other, "a")
		require.Equal(t, []lockmgr.Holder{{Owner: l.HolderID(), Count: 1}}, info.Holders)
		require.Equal(t, l.HolderID(), info.Holders[0].String())
	})
}

// A user who may not write the record holds locks all the same. The log says so once.
func TestProcess_RefusedByTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var log bytes.Buffer
		m, _ := w.manager(lockmgr.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		refused := w.refuse("SET", "NOPERM No permissions to access a key")
		mustLock(t, m, "a")
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, refused.Load(), "it is not tried again")
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "can't be told who holds"), log.String())
		require.Zero(t, m.Stats().Losses)
	})
}

// What another process wrote can't break a reader, whatever it is.
func TestProcess_HostileRecords(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		const id = "00112233-4455-6677-8899-aabbccddeeff"
		key := "holdfast:manager:0011223344556677"
		w.server.HSet("a", id+":7", "1")
		inspect := func() lockmgr.Holder {
			info := mustInspect(t, m, "a")
			require.Len(t, info.Holders, 1)
			return info.Holders[0]
		}
		for _, text := range []string{"", "x", "[]", "null", `"text"`, "{", `{"pid":"x"}`, `{"holds":[]}`, strings.Repeat("[", 10_000)} {
			require.NoError(t, w.server.Set(key, text))
			require.Equal(t, lockmgr.Holder{Owner: id + ":7", Count: 1}, inspect(), text)
		}
		require.NoError(t, w.server.Set(key, `{"program":"\u001b[2J`+strings.Repeat("p", 300)+`","host":"a\nb","pid":-1,"holds":{"7":{"since":0,"note":"\u202e\r\nforged"}}}`))
		h := inspect()
		require.Len(t, h.Process.Program, lockmgr.MaxProcessBytes+len("…"))
		for _, bad := range []string{"\x1b", "\n", "\r", "\u202e"} {
			require.NotContains(t, h.String(), bad)
		}
		require.Contains(t, h.String(), "forged")
		// Instants at which no hold was granted are not told. Some have no form in JSON.
		for _, since := range []string{"300000000000000", "-300000000000000", "9223372036854775807", "4102444800000", "0"} {
			require.NoError(t, w.server.Set(key, `{"program":"p","holds":{"7":{"since":`+since+`,"note":"n"}}}`))
			h := inspect()
			require.True(t, h.Since.IsZero(), since)
			require.Equal(t, "n", h.Note)
		}
		w.server.Del(key)
		w.server.HSet(key, "no", "string")
		require.Equal(t, lockmgr.Holder{Owner: id + ":7", Count: 1}, inspect(), "a key of another type")

		// Owners that have not the form of a holder ID are shown as they are.
		for _, owner := range []string{"x", ":", id, id + ":", id + ":x", strings.ReplaceAll(id, "-", "") + ":7", "{" + id + "}:7"} {
			w.server.Del("a")
			w.server.HSet("a", owner, "1")
			require.Equal(t, owner, inspect().Owner)
		}
	})
}

func TestProcess_BadOptions(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		for _, note := range []string{strings.Repeat("x", lockmgr.MaxNoteBytes+1), "\xff"} {
			require.ErrorIs(t, errOf(m.Lock(ctx, "a", lockmgr.Note(note))), lockmgr.ErrInvalidOption)
		}
		mustLock(t, m, "a", lockmgr.Note(strings.Repeat("x", lockmgr.MaxNoteBytes)))
	})
	for _, p := range []lockmgr.Process{{Program: strings.Repeat("x", 129)}, {Host: "\xff"}} {
		require.ErrorIs(t, errOf(lockmgr.DialURL("redis://127.0.0.1:1", lockmgr.Options{Process: p})), lockmgr.ErrInvalidOption)
	}
	require.Empty(t, lockmgr.Process{}.String())
	require.Equal(t, "pid 1", lockmgr.Process{PID: 1}.String())
}

// Of many holds a record tells some, and first of all those with a note.
func TestProcess_ManyHolds(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Process: billing})
		other, _ := w.manager(lockmgr.Options{})
		for i := range 3000 {
			mustLock(t, m, fmt.Sprint("a", i))
		}
		mustLock(t, m, "b", lockmgr.Note("n"))
		time.Sleep(500 * time.Millisecond)
		young := mustLock(t, m, "young", lockmgr.Note("too young"))
		time.Sleep(time.Second)
		text := must(w.server.Get(w.processKeys()[0]))(t)
		var record struct {
			Holds map[string]struct{ Note string }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &record))
		require.LessOrEqual(t, len(record.Holds), 257)
		_, number, _ := strings.Cut(young.HolderID(), ":")
		require.NotContains(t, record.Holds, number)
		time.Sleep(time.Second)
		require.Equal(t, "n", mustInspect(t, other, "b").Holders[0].Note)
		require.Equal(t, billing, mustInspect(t, other, "a17").Holders[0].Process)
	})
}

// Explain names the holder, and leaves other errors alone.
func TestExplain(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Process: billing})
		other, n := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a", lockmgr.Note("invoice 42"))
		time.Sleep(12 * time.Second)
		_, err := other.Lock(ctx, "a", lockmgr.MaxWait(2*time.Second))
		told := other.Explain(ctx, err)
		require.EqualError(t, told, `lockmgr: lock "a": lock not acquired: wait timed out: it was not free (waited 2s): held by billing@web-3, pid 411, for 14s: invoice 42`)
		require.ErrorIs(t, told, lockmgr.ErrWaitTimeout)
		require.True(t, lockmgr.Temporary(told))
		var failed *lockmgr.LockError
		require.ErrorAs(t, told, &failed)
		require.Equal(t, "invoice 42", failed.Holders[0].Note)
		require.NotContains(t, err.Error(), "billing", "the error itself is not changed")

		wrapped := fmt.Errorf("orders: %w", err)
		told = other.Explain(ctx, wrapped)
		require.ErrorIs(t, told, wrapped)
		require.ErrorContains(t, told, "orders: ")
		require.ErrorContains(t, told, "held by billing@web-3")

		for _, e := range []error{nil, errors.New("x"), lockmgr.ErrNotAcquired, &lockmgr.LockError{Op: "lock", Name: "a", Err: lockmgr.ErrUnavailable}} {
			require.Equal(t, e, other.Explain(ctx, e))
		}
		_, set := other.TryLock(ctx, "a")
		n.cut()
		require.Equal(t, set, other.Explain(ctx, set), "the server can't be reached")
		n.heal()
		mustUnlock(t, l)
		require.True(t, set == other.Explain(ctx, set), "nobody holds it any more")
		mustLockAll(t, m, lockmgr.All("x", "y"))
		_, set = other.TryLockAll(ctx, lockmgr.All("x", "y"))
		require.Equal(t, set, other.Explain(ctx, set), "an error about a set")
	})
}

// Locks lists what is held and what waits.
func TestLocks(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		all := must(m.Locks(ctx))(t)
		require.Empty(t, all)

		owner := m.NewOwner()
		a := mustLock(t, m, "a", lockmgr.AsOwner(owner), lockmgr.Fenced(), lockmgr.Note("n"))
		mustLock(t, m, "a", lockmgr.AsOwner(owner))
		time.Sleep(5 * time.Second)
		older := m.LockAsync("a")
		time.Sleep(time.Second)
		younger := m.LockAsync("a", lockmgr.Note("waits"))
		r := mustLock(t, m, "r", lockmgr.Shared())
		f := mustLock(t, m, "f", lockmgr.Fair(), lockmgr.FixedLease(time.Minute))
		p := mustAcquire(t, m.Permits("p", 3), 2)
		s := mustLockAll(t, m, lockmgr.All("x", "y"), lockmgr.Fenced())
		time.Sleep(2 * time.Second)

		all = must(m.Locks(ctx))(t)
		var remaining []time.Duration
		for i := range all {
			remaining = append(remaining, all[i].Remaining)
			all[i].Remaining = 0
			if !all[i].Held {
				require.Contains(t, all[i].Owner, m.ID()+"/")
				all[i].Owner = ""
			}
		}
		require.Equal(t, []lockmgr.LocalLock{
			{Name: s.Name(), Kind: "set", Held: true, Owner: s.HolderID(), For: 2 * time.Second, Handles: 1},
			{Name: "a", Kind: "plain", Held: true, Owner: a.HolderID(), For: 8 * time.Second, Handles: 2, Token: a.Token(), Note: "n"},
			{Name: "a", Kind: "plain", For: 3 * time.Second},
			{Name: "a", Kind: "plain", For: 2 * time.Second, Note: "waits"},
			{Name: "f", Kind: "fair", Held: true, Owner: f.HolderID(), For: 2 * time.Second, Handles: 1},
			{Name: "p", Kind: "permits", Held: true, Owner: p.HolderID(), For: 2 * time.Second, Handles: 1, Permits: 2},
			{Name: "r", Kind: "read-write", Shared: true, Held: true, Owner: r.HolderID(), For: 2 * time.Second, Handles: 1},
		}, all)
		require.InDelta(t, 57.4, remaining[4].Seconds(), 0.5, "the fixed lease")
		require.Zero(t, remaining[2], "it waits")
		older.Cancel()
		younger.Cancel()
		mustClose(t, m)
		require.ErrorIs(t, errOf(m.Locks(ctx)), lockmgr.ErrClosed)
	})
}
