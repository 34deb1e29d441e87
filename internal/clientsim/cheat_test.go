package clientsim

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/raced"
)

// An invariant that never fails proves little. A cheat is a server or a caller
// that breaks an invariant on purpose, so that the check must fail.
const (
	divided      = "each host has keys of its own"
	evicting     = "records vanish"
	haunted      = "records come back for an hour"
	forgetful    = "token counters start again"
	quiet        = "messages reach nobody"
	unsubscribed = "nobody can subscribe"
	stopping     = "the server stops, and the book does not know"
	slack        = "a request is made some time after it is noted"
	hasty        = "the limits are shorter than those of the manager"
)

// planCheat has the server cheat again and again.
func (w *world) planCheat() {
	w.server.cheat = w.cheat
	r := stream(w.seed, 11)
	for at := time.Duration(0); w.cheat != "" && at < w.set.life; at += time.Duration(r.Int64N(int64(4 * sec))) {
		w.after(at, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, name := range w.names {
				v := w.server.keys.get(name)
				switch {
				case w.cheat == evicting && v != nil:
					delete(w.server.keys, name)
				case w.cheat == haunted && v != nil:
					w.after(w.set.lease, func() {
						w.mu.Lock()
						defer w.mu.Unlock()
						if w.server.keys.get(name) == nil {
							v.end = nowMs() + time.Hour.Milliseconds()
							w.server.keys[name] = v
						}
					})
				case w.cheat == forgetful:
					delete(w.server.keys, counterOf(name))
				}
			}
			if w.cheat == stopping {
				w.server.stopped++
				w.after(4*sec, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.server.resume()
				})
			}
		})
	}
}

func TestInvariants_NoticeCheats(t *testing.T) {
	if raced.On {
		t.Skip("SKIPPED: the race detector watches TestSeeds, which runs the same code")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		cheat      string
		only       kinds
		invariants []string // each must notice
	}{
		{divided, restart, []string{"mutual exclusion"}},
		{evicting, restart, []string{"a valid lock is recorded", "lost for a reason"}},
		{haunted, restart, []string{"no orphans"}},
		{forgetful, fenced, []string{"tokens rise"}},
		{quiet, restart, []string{"a free lock is taken"}},
		{unsubscribed, fixed, []string{"who waits is subscribed"}},
		{stopping, abandon, []string{"errors tell the truth", "trouble stays where it is"}},
		{slack, abandon, []string{"first come first served", "gives up in time"}},
		{hasty, stop | closing, []string{"told in time", "close ends"}},
	} {
		t.Run(c.cheat, func(t *testing.T) {
			for _, want := range c.invariants {
				ignore := make(map[string]bool)
				for _, name := range invariants {
					ignore[name] = name != want
				}
				noticed := false
				for seed := uint64(1); seed <= 60 && !noticed; seed++ {
					res := runSeed(t, options{seed: seed, only: c.only, ignore: ignore, cheat: c.cheat})
					noticed = res.violation != nil
				}
				require.True(t, noticed, want)
			}
		})
	}
}

// Violations that no server can cause are entered into the book directly.
func TestInvariants_NoticeWhatNoServerCauses(t *testing.T) {
	for _, c := range []struct {
		invariant string
		tell      func(w *world, h *hold)
	}{
		{"unlock tells a loss", func(w *world, h *hold) { w.book.unlocked(h, false, nil) }},
		{"close loses", func(w *world, h *hold) { w.book.closed(w.machines[0].manager, nil) }},
		{"lost in time", func(w *world, h *hold) {
			w.mu.Lock()
			w.hosts[0].blackh++
			w.mu.Unlock()
			h.lock.UnlockAsync() // over, but not lost
			w.pause(4 * often)
		}},
		{"who hears of a loss looks", func(w *world, h *hold) {
			w.book.mu.Lock()
			h.heard = time.Now().Add(-time.Minute)
			w.book.mu.Unlock()
			w.pause(2 * often)
		}},
		{"nobody starves", func(w *world, h *hold) {
			q := &request{m: w.machines[1], mgr: w.machines[1].manager.ID(), issued: time.Now(), ask: ask{name: h.name, wait: -1}}
			w.book.mu.Lock()
			p := w.book.of(h.name)
			p.requests = append(p.requests, q)
			w.book.mu.Unlock()
			for range 30 {
				w.pause(sec)
				w.book.mu.Lock()
				p.counts[h.mgr] += 10
				w.book.mu.Unlock()
			}
		}},
		{"nobody waits for ever", func(w *world, h *hold) {
			w.calls.Add(1)
			w.settle()
			w.calls.Done()
		}},
		{"nothing left", func(w *world, h *hold) { w.leftovers() }},
	} {
		t.Run(c.invariant, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ignore := make(map[string]bool)
				for _, name := range invariants {
					ignore[name] = name != c.invariant
				}
				w := newWorld(options{seed: 1, only: restart, ignore: ignore})
				w.connect()
				m := w.machines[0]
				q := w.book.ask(m, m.manager, ask{name: w.names[0], wait: -1})
				l, err := m.manager.Lock(context.Background(), q.name)
				require.NoError(t, err)
				h := w.book.answered(q, l, nil)
				go w.book.watch()
				w.pause(sec)
				require.False(t, w.failed())
				c.tell(w, h)
				require.True(t, w.failed())
				w.tearDown()
			})
		})
	}
}
