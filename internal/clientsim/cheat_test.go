package clientsim

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/raced"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// An oracle that never speaks proves little. A cheat is a server or a caller that breaks a promise
// on purpose, so that the oracle must speak.
const (
	divided      = "each host has keys of its own"
	evicting     = "records vanish"
	haunted      = "records come back for an hour"
	forgetful    = "token counters start again"
	unsubscribed = "nobody can subscribe"
	stopping     = "the server stops, and the book does not know"
	slack        = "a request is made some time after it is noted"
	lying        = "WAIT counts replicas that have got nothing"
	hasty        = "the limits are shorter than those of the manager"
)

// planCheat has the server cheat again and again.
func (w *world) planCheat() {
	r := stream(w.seed, 11)
	for at := time.Duration(0); w.cheat != "" && at < w.set.life; at += time.Duration(r.Int64N(int64(4 * sec))) {
		w.afterwards(at, func() {
			for _, name := range w.names {
				v := w.keysOf(name).Get(name)
				switch {
				case w.cheat == evicting && v != nil:
					delete(w.keysOf(name).Values, name)
				case w.cheat == haunted && v != nil:
					v := v.Copy()
					w.afterwards(w.set.lease, func() {
						if w.keysOf(name).Get(name) == nil {
							v.End = w.keysOf(name).Ms() + time.Hour.Milliseconds()
							w.keysOf(name).Values[name] = v
						}
					})
				case w.cheat == forgetful:
					delete(w.keysOf(name).Values, counterOf(name))
				}
			}
			if w.cheat == stopping {
				w.servers[0].stopped++
				w.afterwards(4*sec, func() {
					w.servers[0].resume()
				})
			}
		})
	}
}

// allBut returns all oracles but one, to be ignored.
func allBut(oracle string) map[string]bool {
	ignore := make(map[string]bool)
	for _, name := range oracles {
		ignore[name] = name != oracle
	}
	return ignore
}

func TestOracles_NoticeCheats(t *testing.T) {
	if raced.On {
		t.Skip("SKIPPED: the race detector watches TestSeeds, which runs the same code")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, c := range []struct {
		cheat   string
		only    kinds
		oracles []string // each must notice
	}{
		{divided, restart, []string{"promise1"}},
		{evicting, restart, []string{"promise3a", "promise3b"}},
		{evicting, keeping, []string{"promise11b"}},
		{divided, keeping | hot, []string{"promise11a"}},
		{lying, replicated, []string{"promise12a", "promise12b"}},
		{haunted, restart, []string{"promise8b", "promise7b"}},
		{forgetful, fenced, []string{"promise5"}},
		{stopping, sides, []string{"promise14a"}},
		{unsubscribed, fixed, []string{"promise14e"}},
		{stopping, abandon, []string{"promise13a", "promise10"}},
		{slack, abandon, []string{"promise14b", "promise8a"}},
		{hasty, stop | closing, []string{"promise9a", "promise9b"}},
	} {
		t.Run(c.cheat, func(t *testing.T) {
			for _, want := range c.oracles {
				noticed := false
				for seed := uint64(1); seed <= 300 && !noticed; seed++ {
					res := runSeed(t, options{seed: seed, only: c.only, ignore: allBut(want), cheat: c.cheat})
					noticed = res.violation != nil
				}
				require.True(t, noticed, want)
			}
		})
	}
}

// Violations that no server can cause are entered into the book directly.
func TestOracles_NoticeWhatNoServerCauses(t *testing.T) {
	for _, c := range []struct {
		oracle string
		tell   func(w *world, h *hold)
	}{
		{"promise6b", func(w *world, h *hold) { w.book.unlocked(h, false, nil) }},
		{"promise6c", func(w *world, h *hold) { w.book.closed(w.machines[0].manager, nil) }},
		{"promise6a", func(w *world, h *hold) {
			w.mu.Lock()
			w.hosts[0].blackh++
			w.mu.Unlock()
			h.lock.UnlockAsync() // over, but not lost
			w.pause(4 * often)
		}},
		{"promise2a", func(w *world, h *hold) {
			w.mu.Lock()
			h.heard, h.struckAt = time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)
			w.mu.Unlock()
			w.pause(2 * often)
		}},
		{"promise2b", func(w *world, h *hold) {
			w.mu.Lock()
			w.gone[record{h.name, h.mgr}] = time.Now().Add(-time.Minute)
			w.book.promise2b(h, false)
			w.mu.Unlock()
		}},
		{"promise14c", func(w *world, h *hold) {
			q := &request{m: w.machines[1], host: w.machines[1].host, mgr: w.machines[1].manager.ID(), issued: time.Now(), ask: ask{name: h.name, wait: -1}}
			w.mu.Lock()
			p := w.book.of(h.name)
			p.requests = append(p.requests, q)
			w.mu.Unlock()
			for range 30 {
				w.pause(sec)
				w.mu.Lock()
				p.of(h.mgr).grants += 10
				w.mu.Unlock()
			}
		}},
		{"promise14d", func(w *world, h *hold) {
			w.calls.Add(1)
			w.settle()
			w.calls.Done()
		}},
		{"promise8c", func(w *world, h *hold) { w.book.promise8c() }},
		{"promise8c", func(w *world, h *hold) { w.book.idle() }},
		{"promise3a", func(w *world, h *hold) { w.book.inspected(h.name, []*hold{h}, nil) }},
		{"promise13a", func(w *world, h *hold) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.book.promise13a(h.request, lockmgr.ErrOverloaded)
		}},
		{"promise4", func(w *world, h *hold) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.book.ids[h.lock.HolderID()] = &hold{request: &request{m: h.m, ask: ask{name: "another"}}, lock: h.lock}
			w.book.promise4(h, false)
		}},
		{"promise7a", func(w *world, h *hold) {
			e := w.book.managers[h.mgr]
			w.mu.Lock()
			e.killed, e.host = time.Now(), &host{w: w} // another host, of which no command comes
			w.mu.Unlock()
			w.pause(2*w.set.lease + 5*sec)
		}},
		{"promise13b", func(w *world, h *hold) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.book.promise13b(h.request, nil)
		}},
	} {
		t.Run(c.oracle, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := options{seed: 1, only: restart, ignore: allBut(c.oracle)}
				w := newWorld(o, drawSettings(o.seed, o.only, o.off))
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
