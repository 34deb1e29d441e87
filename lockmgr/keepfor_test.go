package lockmgr_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A job that takes longer than the time is not disturbed, and its lock is free at once. A waiter of
// the same manager gets it in memory.
func TestKeepFor_LongJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a", lockmgr.KeepFor(time.Minute))
		f := m.LockAsync("a")
		time.Sleep(10 * time.Minute)
		require.True(t, l.Valid())
		began := time.Now()
		mustUnlock(t, l)
		l = mustAwait(t, f)
		require.Zero(t, time.Since(began))
		mustUnlock(t, l)
		require.Empty(t, w.owners("a"))
	})
}

// A lock whose fixed lease or MaxHold is over stays taken, too.
func TestKeepFor_EndsByItself(t *testing.T) {
	for _, bound := range []lockmgr.LockOption{lockmgr.FixedLease(time.Second), lockmgr.MaxHold(time.Second)} {
		for _, keep := range []time.Duration{10 * time.Second, 10 * time.Minute} {
			bubble(t, func(t *testing.T, w *scene) {
				m, _ := w.manager(lockmgr.Options{})
				l := mustLock(t, m, "a", lockmgr.KeepFor(keep), bound)
				began := time.Now()
				f := m.LockAsync("a")
				<-l.Lost()
				require.InDelta(t, time.Second, time.Since(began), float64(100*time.Millisecond))
				l = must(f.Await(ctx))(t)
				require.InDelta(t, keep, time.Since(began), float64(500*time.Millisecond))
				mustUnlock(t, l)
			})
		}
	}
}

// The unlock of a name that stays taken lets nobody else have it: no pause follows for clients that
// stand in no line.
func TestKeepFor_NoPauseAfterTheUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		held := mustLock(t, m, "job", lockmgr.KeepFor(152*milli))
		requireTimesOut(t, func() error { return errOf(other.Lock(faults.Patient(t), "job", lockmgr.MaxWait(150*milli))) })
		mustUnlock(t, held)
		time.Sleep(3 * milli)
		mustUnlock(t, mustTryLock(t, m, "job"))
	})
}

// A lock that nobody has taken is not kept, nor is one that ForceUnlock has removed.
func TestKeepFor_NotKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		f := m.LockAsync("a", lockmgr.KeepFor(time.Hour))
		<-f.Done()
		f.Cancel()
		time.Sleep(time.Second)
		l := mustTryLock(t, m, "a", lockmgr.KeepFor(time.Hour))
		mustUnlock(t, l)
		require.ErrorIs(t, errOf(m.TryLock(ctx, "a")), lockmgr.ErrNotAcquired)
		info := mustInspect(t, m, "a")
		require.Equal(t, l.HolderID()+":kept", info.Holders[0].Owner, "who had it can still be seen")
		require.Contains(t, info.Holders[0].String(), " (kept by KeepFor, ended 0s ago)")
		must(m.ForceUnlock(ctx, "a"))(t)
		mustUnlock(t, mustTryLock(t, m, "a"))
	})
}

// However a hold ends, and however short it was, others see whose it was, when it ended and what
// for.
func TestKeepFor_TellsWhoHadTheLock(t *testing.T) {
	keep, note := lockmgr.KeepFor(time.Hour), lockmgr.Note("invoice 42")
	for _, how := range []string{"unlocked", "unlocked later", "closed", "MaxHold", "re-entry", "passed in memory", "Unlock is late"} {
		inBubble(t, how, func(t *testing.T, w *scene) {
			m, n := w.manager(lockmgr.Options{Process: billing})
			other, _ := w.manager(lockmgr.Options{})
			began := time.Now()
			switch how {
			case "unlocked":
				mustUnlock(t, mustLock(t, m, "a", keep, note))
			case "unlocked later":
				l := mustLock(t, m, "a", keep, note)
				time.Sleep(time.Minute)
				mustUnlock(t, l)
			case "closed":
				mustLock(t, m, "a", keep, note)
				mustClose(t, m)
			case "MaxHold":
				<-mustLock(t, m, "a", keep, note, lockmgr.MaxHold(time.Second)).Lost()
			case "re-entry":
				as := lockmgr.AsOwner(m.NewOwner())
				l := mustLock(t, m, "a", note, as)
				mustUnlock(t, mustLock(t, m, "a", keep, as, lockmgr.Note("not the note of the hold")))
				time.Sleep(time.Second)
				mustUnlock(t, l)
			case "passed in memory":
				before := mustLock(t, m, "a", lockmgr.Note("before"))
				f := m.LockAsync("a", keep, note)
				time.Sleep(time.Second)
				mustUnlock(t, before)
				mustUnlock(t, mustAwait(t, f))
			case "Unlock is late":
				l := mustLock(t, m, "a", keep, note)
				time.Sleep(time.Second)
				n.cut()
				l.UnlockAsync()
				time.AfterFunc(3*time.Second, n.heal)
			}
			ended := time.Now()
			time.Sleep(5*time.Minute + 100*time.Millisecond)
			h := mustInspect(t, other, "a").Holders[0]
			require.True(t, h.Kept())
			require.Equal(t, int64(1), h.Count)
			require.Equal(t, billing, h.Process)
			require.Equal(t, "invoice 42", h.Note)
			require.WithinDuration(t, ended, h.Ended, 50*time.Millisecond)
			require.False(t, h.Since.Before(began.Add(-100*time.Millisecond)))
			require.False(t, h.Since.After(h.Ended))
			require.Empty(t, w.processKeys(), "the record of the lock tells, and ends with the lock")
			require.Regexp(t, `^billing@web-3, pid 411 \(kept by KeepFor, ended 5m0s ago\), for [0-9.a-z]+: invoice 42$`, h.String())
			require.ErrorContains(t, other.Explain(ctx, errOf(other.TryLock(ctx, "a"))), h.String())
		})
	}
}

// An Anonymous manager tells nobody, and what others wrote can't break a reader.
func TestKeepFor_TellsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{Process: billing, Anonymous: true})
		other, _ := w.manager(lockmgr.Options{})
		l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour), lockmgr.Note("secret"))
		mustUnlock(t, l)
		untold := lockmgr.Holder{Owner: l.HolderID() + ":kept", Count: 1}
		require.Equal(t, untold, mustInspect(t, other, "a").Holders[0])
		for _, value := range []string{"", "x", "{}", "[1]", `{"ended":-1}`, `{"ended":"1"}`, `{"ended":9e18}`, `{"ended":1` + strings.Repeat(" ", 5000) + "}"} {
			w.server.HSet("a", untold.Owner, value)
			h := mustInspect(t, other, "a").Holders[0]
			h.Count = 1
			require.Equal(t, untold, h, value)
		}
		w.server.HSet("a", untold.Owner, `{"program":"\u001b[2J`+strings.Repeat("x", 300)+`","note":"a\nb","since":9000000000000,"ended":1}`)
		h := mustInspect(t, other, "a").Holders[0]
		require.LessOrEqual(t, len(h.Process.Program), lockmgr.MaxProcessBytes+len("…"))
		require.NotContains(t, h.Process.Program+h.Note, "\x1b")
		require.NotContains(t, h.Note, "\n")
		require.Zero(t, h.Since)
	})
}

// A real server keeps the longest words, and a client of Redisson finds an ordinary record: a hash
// with one field, which ends by itself.
func TestKeepFor_LongestWords(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	long := lockmgr.Process{Program: strings.Repeat("<", lockmgr.MaxProcessBytes), Host: strings.Repeat(">", lockmgr.MaxProcessBytes), PID: 1 << 22}
	m := dial(t, s.Addr(), lockmgr.Options{Process: long})
	note := strings.Repeat("&", lockmgr.MaxNoteBytes)
	l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour), lockmgr.Note(note))
	mustUnlock(t, l)
	for _, reader := range []*lockmgr.Manager{m, dial(t, s.Addr(), lockmgr.Options{})} {
		info := mustInspect(t, reader, "a")
		require.Len(t, info.Holders, 1)
		h := info.Holders[0]
		require.Equal(t, long, h.Process)
		require.Equal(t, note, h.Note)
		require.WithinDuration(t, time.Now(), h.Ended, faults.Patience)
		require.Equal(t, "plain", info.Kind)
		require.Positive(t, info.TTL)
	}
	require.Equal(t, "1", faults.Do(t, s, "HLEN", "a"))
	require.Equal(t, "1", faults.Do(t, s, "HEXISTS", "a", l.HolderID()+":kept"))
	_, found := scan(t, m, "")["a"]
	require.True(t, found)
	require.True(t, must(m.ForceUnlock(ctx, "a"))(t))
}

// The lock is free when its time is over, for those who wait here and elsewhere, and not before:
// whichever way the lock came, after an unlock, after Close and after the end of the process, and
// even if its hold is over at once.
func TestKeepFor(t *testing.T) {
	keep, lease := time.Minute, 3*time.Second
	check := func(t *testing.T, w *scene, how, end string) {
		m, n := w.manager(lockmgr.Options{Lease: lease})
		other, _ := w.manager(lockmgr.Options{})
		var l *lockmgr.Lock
		switch kept := lockmgr.KeepFor(keep); how {
		case "acquired":
			l = mustLock(t, m, "a", kept)
		case "short fixed lease":
			l = mustLock(t, m, "a", kept, lockmgr.FixedLease(time.Second))
		case "passed in memory":
			before, f := mustLock(t, m, "a"), m.LockAsync("a", kept)
			mustUnlock(t, before)
			l = mustAwait(t, f)
		case "passed often":
			var all []*futures.Future[*lockmgr.Lock]
			for range 10 {
				all = append(all, m.LockAsync("a", lockmgr.Fenced()))
			}
			f := m.LockAsync("a", kept)
			for _, f := range all {
				mustUnlock(t, mustAwait(t, f))
			}
			l = mustAwait(t, f)
		case "re-entered":
			as := lockmgr.AsOwner(m.NewOwner())
			l = mustLock(t, m, "a", as)
			mustUnlock(t, mustLock(t, m, "a", as, kept))
		}
		began := time.Now()
		waits := []*lockmgr.Manager{other, m}
		switch end {
		case "unlocked at once":
			mustUnlock(t, l)
		case "unlocked later":
			time.Sleep(700 * time.Millisecond)
			mustUnlock(t, l)
		case "closed":
			mustClose(t, m)
			waits = waits[:1]
		case "killed soon":
			time.Sleep(2 * time.Millisecond) // a round trip
			n.cut()
			waits = waits[:1]
		}
		for _, m := range waits {
			require.ErrorIs(t, errOf(m.TryLock(ctx, "a")), lockmgr.ErrNotAcquired)
		}
		for i, m := range waits {
			next := must(m.Lock(ctx, "a"))(t)
			if i == 0 {
				require.InDelta(t, keep, time.Since(began), float64(500*time.Millisecond))
			}
			mustUnlock(t, next)
		}
		require.False(t, l.Valid())
		n.heal()
		time.Sleep(10 * time.Second) // until the manager that was cut off has given up its release
	}
	for _, how := range []string{"acquired", "short fixed lease", "passed in memory", "passed often", "re-entered"} {
		for _, end := range []string{"unlocked at once", "unlocked later", "closed", "killed soon"} {
			inBubble(t, how+", "+end, func(t *testing.T, w *scene) { check(t, w, how, end) })
		}
	}
	keep, lease = 5*time.Second, 30*time.Second
	for _, end := range []string{"unlocked later", "closed"} {
		inBubble(t, "shorter than the lease, "+end, func(t *testing.T, w *scene) { check(t, w, "acquired", end) })
	}
}

// A lock that was lost before its future is cancelled is kept: somebody may just be taking it.
func TestKeepFor_LostBeforeTheCancel(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		over := m.LockAsync("a", lockmgr.KeepFor(time.Hour), lockmgr.FixedLease(time.Second))
		closed := m.LockAsync("b", lockmgr.KeepFor(time.Hour))
		<-closed.Done()
		time.Sleep(2 * time.Second)
		mustClose(t, m)
		over.Cancel()
		closed.Cancel()
		time.Sleep(time.Minute)
		for _, name := range []string{"a", "b"} {
			require.ErrorIs(t, errOf(other.TryLock(ctx, name)), lockmgr.ErrNotAcquired)
		}
	})
}

// A lock that KeepFor keeps goes to the request that names its hold, before all who wait elsewhere.
// Nobody was in between: the tokens follow each other.
func TestTakeOver(t *testing.T) {
	for _, where := range []string{"elsewhere", "same manager"} {
		for _, waiting := range []bool{false, true} {
			for _, id := range []string{"HolderID", "Inspect"} {
				t.Run(fmt.Sprintf("%s, by %s, others wait: %v", where, id, waiting), func(t *testing.T) {
					s, m, other := startServer(t, lockmgr.Options{})
					third := dial(t, s.Addr(), lockmgr.Options{})
					ctx := faults.Patient(t)
					to := map[string]*lockmgr.Manager{"elsewhere": other, "same manager": m}[where]
					l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour), lockmgr.Fenced())
					token, from := l.Token(), l.HolderID()
					require.ErrorIs(t, errOf(other.TryLock(ctx, "a", lockmgr.TakeOver(from))), lockmgr.ErrNotAcquired, "the hold has not ended")
					mustUnlock(t, l)
					require.ErrorIs(t, errOf(other.TryLock(ctx, "a")), lockmgr.ErrNotAcquired)
					require.ErrorIs(t, errOf(other.TryLock(ctx, "a", lockmgr.TakeOver(from+"0"))), lockmgr.ErrNotAcquired, "another hold")
					if id == "Inspect" {
						from = must(m.Inspect(ctx, "a"))(t).Holders[0].Owner
					}
					var next sync.WaitGroup
					if waiting {
						for _, m := range []*lockmgr.Manager{m, other, third} {
							if m != to {
								f := m.LockAsync("a")
								next.Go(func() { mustUnlock(t, mustAwait(t, f)) })
							}
						}
						faults.Eventually(t, func() bool { return faults.Do(t, s, "LLEN", "{a}:lock_line") == "2" }, "all stand in the line")
					}
					l = must(to.Lock(ctx, "a", lockmgr.TakeOver(from), lockmgr.Fenced(), lockmgr.MaxWait(time.Second)))(t)
					require.Equal(t, token+1, l.Token())
					require.True(t, l.Valid())
					if !waiting {
						require.ErrorIs(t, errOf(third.TryLock(ctx, "a", lockmgr.TakeOver(from))), lockmgr.ErrNotAcquired, "an ID is of use once")
					}
					mustUnlock(t, l)
					next.Wait()
					mustUnlock(t, must(third.TryLock(ctx, "a"))(t, "free"))
				})
			}
		}
	}
}

// A request that takes over waits as others do while there is nothing to take over.
func TestTakeOver_Waits(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	for _, to := range []*lockmgr.Manager{m, other} { // the request comes before the unlock
		l := mustLock(t, m, "a", lockmgr.KeepFor(time.Hour))
		f := to.LockAsync("a", lockmgr.TakeOver(l.HolderID()))
		behind := to.LockAsync("a")
		faults.Eventually(t, func() bool { return to.Stats().Waiting == 2 })
		mustUnlock(t, l)
		mustUnlock(t, mustAwait(t, f))
		mustUnlock(t, mustAwait(t, behind))
	}

	mustUnlock(t, must(m.TryLock(ctx, "a", lockmgr.TakeOver("nobody")))(t, "a free lock"))
	l := mustLock(t, m, "a", lockmgr.KeepFor(100*time.Millisecond))
	from := l.HolderID()
	mustUnlock(t, l)
	l = mustLock(t, m, "a")
	requireTimesOut(t, func() error {
		return errOf(other.Lock(ctx, "a", lockmgr.TakeOver(from), lockmgr.MaxWait(10*time.Millisecond)))
	})
	mustUnlock(t, l)
}

// The record may carry an earlier number of a hold that was passed on in memory a moment ago. It
// stays under the ID that callers know.
func TestTakeOver_OfAHoldThatWasPassedOn(t *testing.T) {
	for _, work := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		inBubble(t, work.String(), func(t *testing.T, w *scene) {
			m, other := w.managers(lockmgr.Options{})
			for range 10 {
				l := mustLock(t, m, "a")
				plain, kept := m.LockAsync("a"), m.LockAsync("a", lockmgr.KeepFor(10*time.Second))
				synctest.Wait() // both wait
				mustUnlock(t, l)
				mustUnlock(t, mustAwait(t, plain))
				l = mustAwait(t, kept)
				time.Sleep(work)
				mustUnlock(t, l)
				mustUnlock(t, must(other.TryLock(ctx, "a", lockmgr.TakeOver(l.HolderID())))(t))
			}
		})
	}
}
