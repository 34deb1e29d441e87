package lockmgr_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A thousand local readers that come and go within a moment cost three scripts: the first and the
// last reader need one each, and one looks for the record before others join.
func TestReadWrite_ManyReadersFewScripts(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, other := w.managers(lockmgr.Options{})
		var locks []*lockmgr.Lock
		for range 1000 {
			locks = append(locks, mustLock(t, m, "doc", lockmgr.Shared()))
		}
		require.EqualValues(t, 2, m.Stats().Scripts)
		info := mustInspect(t, other, "doc")
		require.Equal(t, "read", info.Mode)
		require.Equal(t, []lockmgr.Holder{{Owner: locks[0].HolderID(), Count: 1}}, faults.Entries(info))
		require.ErrorIs(t, errOf(other.TryLock(ctx, "doc", lockmgr.Exclusive())), lockmgr.ErrNotAcquired)
		reads := mustTryLock(t, other, "doc", lockmgr.Shared())
		mustUnlock(t, locks...)
		require.EqualValues(t, 3, m.Stats().Scripts)
		mustUnlock(t, reads)
		writes := mustTryLock(t, other, "doc", lockmgr.Exclusive())
		info = mustInspect(t, m, "doc")
		require.Equal(t, "write", info.Mode)
		require.Equal(t, writes.HolderID()+":write", info.Holders[0].Owner)
		mustUnlock(t, writes)
	})
}

// A writer that reads goes on reading when it no longer writes, and readers elsewhere are woken by
// that.
func TestReadWrite_DowngradeWakesReaders(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	owner := m.NewOwner()
	w := mustLock(t, m, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner))
	f := other.LockAsync("doc", lockmgr.Shared())
	faults.Eventually(t, func() bool { return other.Stats().Subscriptions == 3 })
	r := mustTryLock(t, m, "doc", lockmgr.Shared(), lockmgr.AsOwner(owner))
	requirePending(t, f)
	w = mustPass(t, w, other, f)
	require.True(t, r.Valid())
	mustUnlock(t, r, w)
}

// An owner that reads may try to write: it gets that side too if nobody else reads.
func TestReadWrite_TryLockUpgrades(t *testing.T) {
	_, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	owner := m.NewOwner()
	r := mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.AsOwner(owner))
	elsewhere := mustLock(t, other, "doc", lockmgr.Shared())
	require.ErrorIs(t, errOf(m.TryLock(ctx, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner))), lockmgr.ErrNotAcquired, "another process reads")
	require.ErrorIs(t, errOf(m.Lock(ctx, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner))), lockmgr.ErrDeadlock, "it would wait")
	mustUnlock(t, elsewhere)
	here := mustLock(t, m, "doc", lockmgr.Shared())
	require.ErrorIs(t, errOf(m.TryLock(ctx, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner))), lockmgr.ErrNotAcquired, "another owner of this manager reads")
	mustUnlock(t, here)

	w := mustTryLock(t, m, "doc", lockmgr.Exclusive(), lockmgr.AsOwner(owner), lockmgr.Fenced())
	require.Positive(t, w.Token())
	require.Equal(t, "write", mustInspect(t, m, "doc").Mode)
	f := other.LockAsync("doc", lockmgr.Shared())
	faults.Eventually(t, func() bool { return other.Stats().Subscriptions == 3 })
	requirePending(t, f)
	mustUnlock(t, w)
	l := must(f.Await(ctx))(t, "it reads again, and so may others")
	require.True(t, r.Valid())
	mustUnlock(t, r, l)
}

func TestReadWrite_ForceUnlock(t *testing.T) {
	s, m, other := startServer(t, lockmgr.Options{})
	ctx := faults.Patient(t)
	one := mustLock(t, m, "doc", lockmgr.Shared())
	two := mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.FixedLease(time.Hour))
	f := other.LockAsync("doc", lockmgr.Exclusive())
	faults.Eventually(t, func() bool { return other.Stats().Subscriptions == 3 })
	require.True(t, must(m.ForceUnlock(ctx, "doc"))(t))
	for _, l := range []*lockmgr.Lock{one, two} {
		faults.AwaitClosed(t, l.Lost(), "the loss is told")
		require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
	}
	mustUnlock(t, mustAwait(t, f))
	require.Empty(t, faults.Do(t, s, "KEYS", "{doc}:*"), "the readers' own keys are gone, too")
}

// A client of Redisson forces a lock open: it deletes the record alone. A reader that unlocks after
// that takes its own key with it, whose fixed lease may be long.
func TestReadWrite_RecordIsGoneBeforeTheUnlock(t *testing.T) {
	for _, set := range []bool{false, true} {
		for _, told := range []bool{false, true} {
			bubble(t, func(t *testing.T, w *scene) {
				m, _ := w.manager(lockmgr.Options{})
				var l *lockmgr.Lock
				if set {
					l = mustLockAll(t, m, lockmgr.Set{Shared: []string{"doc"}}, lockmgr.FixedLease(time.Hour))
				} else {
					l = mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.FixedLease(time.Hour))
				}
				time.Sleep(second)
				w.server.Del("doc")
				if told {
					_, err := m.ForceUnlock(ctx, "doc") // which looks at the record, as a message does
					require.NoError(t, err)
					time.Sleep(second)
				}
				require.ErrorIs(t, l.Unlock(ctx), lockmgr.ErrLeaseLost)
				time.Sleep(time.Minute)
				require.Empty(t, w.server.Keys(), "set: %v, told: %v", set, told)
			})
		}
	}
}

// Readers that ask again at once keep no writer of another process out, alone or in a set: it waits
// for the holds that it finds, and for those that begin within PassTime, before the readers' manager
// asks who waits.
func TestReadWrite_WriterWaitsForOneHold(t *testing.T) {
	for readers, hold := range map[int]time.Duration{4: time.Second, 8: 250 * time.Millisecond, 32: 200 * time.Millisecond} {
		for seed := range uint64(10) {
			set := seed%2 == 1
			bubble(t, func(t *testing.T, w *scene) {
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				m, other := w.managers(lockmgr.Options{})
				random := rand.New(rand.NewPCG(seed/2, 0))
				phase := func() time.Duration { return time.Duration(random.Int64N(int64(hold))) }
				for i := range readers {
					begins := phase()
					wg.Go(func() {
						<-time.After(begins)
						for ctx.Err() == nil {
							l := mustLock(t, []*lockmgr.Manager{m, other}[i%2], "doc", lockmgr.Shared())
							time.Sleep(hold)
							mustUnlock(t, l)
						}
					})
				}
				writer, _ := w.manager(lockmgr.Options{})
				for range 5 {
					<-time.After(2*hold + phase())
					asked := time.Now()
					if set {
						mustUnlock(t, mustLockAll(t, writer, lockmgr.Set{Names: []string{"other"}, Exclusive: []string{"doc"}}))
					} else {
						mustUnlock(t, mustLock(t, writer, "doc", lockmgr.Exclusive()))
					}
					require.LessOrEqual(t, time.Since(asked), hold+105*milli, "%d readers, %v, set: %v, seed %d", readers, hold, set, seed)
				}
				cancel()
				wg.Wait()
			})
		}
	}
}

// A writer that has given up keeps no readers out. A set that has, does so for three seconds and
// their retry, no more.
func TestReadWrite_WriterThatGaveUp(t *testing.T) {
	for _, set := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *scene) {
			m, writer := w.managers(lockmgr.Options{})
			reads := mustLock(t, m, "doc", lockmgr.Shared())
			third, _ := w.manager(lockmgr.Options{})
			f := writer.LockAsync("doc", lockmgr.Exclusive(), lockmgr.MaxWait(200*milli))
			if set {
				f = writer.LockAllAsync(lockmgr.Set{Exclusive: []string{"doc"}}, lockmgr.MaxWait(200*milli))
			}
			time.Sleep(50 * milli)
			require.ErrorIs(t, errOf(third.TryLock(t.Context(), "doc", lockmgr.Shared())), lockmgr.ErrNotAcquired, "a writer waits")
			require.ErrorIs(t, errOf(f.Await(t.Context())), lockmgr.ErrWaitTimeout)
			gaveUp := time.Now()
			late := mustLock(t, third, "doc", lockmgr.Shared())
			if set {
				require.Less(t, time.Since(gaveUp), 3200*milli)
			} else {
				require.Less(t, time.Since(gaveUp), 20*milli)
			}
			mustUnlock(t, late)
			mustUnlock(t, reads)
		})
	}
}

// A try to read is never refused while only readers of its own process have the name, or ask for
// it: not while a command is under way, and not when they have had the name for so long that a
// process which is not known gets a chance.
func TestReadWrite_TryLockIsNotRefusedBesideReaders(t *testing.T) {
	for _, tt := range []struct {
		readers, rounds int
		hold, delay     time.Duration
	}{{8, 500, 100 * time.Microsecond, 0}, {8, 500, 5 * milli, 0}, {8, 500, 50 * milli, 0}, {2, 1000, 4 * milli, 2 * milli}, {3, 1000, 4 * milli, 10 * milli}} {
		bubble(t, func(t *testing.T, w *scene) {
			m, n := w.manager(lockmgr.Options{})
			n.delay.Store(int64(tt.delay))
			var wg sync.WaitGroup
			for i := range tt.readers {
				wg.Go(func() {
					lengths := rand.New(rand.NewPCG(uint64(i), 0))
					for range tt.rounds {
						ask := mustTryLock
						if i == 2 && tt.delay > 0 { // this one waits
							ask = mustLock
						}
						l := ask(t, m, "doc", lockmgr.Shared())
						<-time.After(time.Duration(lengths.Int64N(int64(tt.hold))))
						mustUnlock(t, l)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A reader that waits for a writer of another process waits for those for whom the writer waits. The
// manager learns of the writer before or after the requests. Each reader has a single lock or a set.
func TestReadWrite_DeadlockThroughAWriterElsewhere(t *testing.T) {
	type reads = func(m *lockmgr.Manager, o lockmgr.Owner) *futures.Future[*lockmgr.Lock]
	single := func(m *lockmgr.Manager, o lockmgr.Owner) *futures.Future[*lockmgr.Lock] {
		return m.LockAsync("doc", lockmgr.Shared(), lockmgr.AsOwner(o))
	}
	inSet := func(m *lockmgr.Manager, o lockmgr.Owner) *futures.Future[*lockmgr.Lock] {
		return m.LockAllAsync(lockmgr.Set{Names: []string{"a"}, Shared: []string{"doc"}}, lockmgr.AsOwner(o))
	}
	inAnother := func(m *lockmgr.Manager, o lockmgr.Owner) *futures.Future[*lockmgr.Lock] {
		return m.LockAllAsync(lockmgr.Set{Names: []string{"b"}, Shared: []string{"doc"}}, lockmgr.AsOwner(o))
	}
	for what, tt := range map[string]struct{ holds, waits reads }{
		"single": {single, single}, "set beside single": {single, inSet}, "single beside set": {inSet, single}, "sets": {inSet, inAnother},
		"single beside single and set": {inSet, single},
	} {
		for _, known := range []bool{false, true} {
			inBubble(t, fmt.Sprint(what, ", known: ", known), func(t *testing.T, w *scene) {
				m, _ := w.manager(lockmgr.Options{})
				elsewhere, _ := w.manager(lockmgr.Options{})
				a, b := m.NewOwner(), m.NewOwner()
				x := mustLock(t, m, "x", lockmgr.AsOwner(a))
				var docs []*lockmgr.Lock
				if what == "single beside single and set" { // the writer waits for both
					docs = append(docs, mustLock(t, m, "doc", lockmgr.Shared()))
				}
				docs = append(docs, mustAwait(t, tt.holds(m, b)))
				writer := elsewhere.LockAsync("doc", lockmgr.Exclusive())
				time.Sleep(second)
				if what == "single" || len(docs) > 1 {
					mustUnlock(t, mustLock(t, m, "doc", lockmgr.Shared())) // the writer lets one reader more in
					time.Sleep(second)
				}
				f := tt.waits(m, a)
				if known {
					time.Sleep(second)
				}
				g := m.LockAsync("x", lockmgr.AsOwner(b))
				time.Sleep(3 * second)
				require.ErrorIs(t, errOf(f.Result()), futures.ErrPending)
				require.ErrorIs(t, errOf(g.Result()), lockmgr.ErrDeadlock)
				mustUnlock(t, docs...)
				mustUnlock(t, mustAwait(t, writer))
				mustUnlock(t, mustAwait(t, f))
				mustUnlock(t, x)
			})
		}
	}
}

// The writer for whom a reader had to wait has given up. A reader that asks later waits for nobody,
// although no script has told the manager so.
func TestReadWrite_NoDeadlockThroughAWriterThatGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, elsewhere := w.managers(lockmgr.Options{})
		a, b := m.NewOwner(), m.NewOwner()
		x := mustLock(t, m, "x", lockmgr.AsOwner(a))
		doc := mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.AsOwner(b))
		writer := elsewhere.LockAsync("doc", lockmgr.Exclusive())
		time.Sleep(second)
		mustUnlock(t, mustLock(t, m, "doc", lockmgr.Shared())) // the writer lets one reader more in
		time.Sleep(second)
		f := m.LockAsync("doc", lockmgr.Shared())
		time.Sleep(second)
		requirePending(t, f)
		f.Cancel()
		writer.Cancel()
		time.Sleep(second)
		g := m.LockAsync("x", lockmgr.AsOwner(b))
		mustUnlock(t, mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.AsOwner(a)))
		requirePending(t, g)
		mustUnlock(t, x)
		mustUnlock(t, mustAwait(t, g), doc)
	})
}

// A reader behind a request that only tries to write waits for nobody, even if the reader's owner has
// the name in a set.
func TestReadWrite_NoDeadlockBehindATry(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		o := m.NewOwner()
		set := mustLockAll(t, m, lockmgr.Set{Names: []string{"a"}, Shared: []string{"doc"}}, lockmgr.AsOwner(o))
		try := m.LockAsync("doc", lockmgr.Exclusive(), lockmgr.OnlyIfFree())
		mustUnlock(t, mustLock(t, m, "doc", lockmgr.Shared(), lockmgr.AsOwner(o)), set)
		require.ErrorIs(t, errOf(try.Result()), lockmgr.ErrNotAcquired)
	})
}
