package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten entries that are given back after a second are one turn of a second, not ten.
func TestPermits_TurnsOfSeveralEntries(t *testing.T) {
	n := &name{kind: Permits, details: &noDetails}
	n.entry.of = n
	require.Equal(t, time.Second, n.turnSince(2*time.Second, time.Second), "of a name of another kind")
	n.details = permits{}.details(n)
	p := n.pool()
	// Eight are held. Of three that are asked for, two were granted.
	p.held = 8
	for _, number := range []uint64{9, 10, 0} {
		p.moving = append(p.moving, &entry{of: n, number: number})
	}
	require.Equal(t, time.Second, n.turnSince(2*time.Second, time.Second), "nothing was acquired yet")
	p.acquired(n)
	require.Equal(t, 10, n.details.turns.entries)
	require.Equal(t, 1900*time.Millisecond, n.turnSince(2*time.Second, time.Second))
	p.held = 3
	require.Equal(t, 1900*time.Millisecond, n.turnSince(2*time.Second, time.Second), "when some have been given back, too")
}

// However many callers a name has, some work for one of them does not grow with the permits
// that others have by more than a look at each.
func TestPermits_ManyEntries(t *testing.T) {
	s := newScripted()
	const many = 500
	var held []*Request
	lock := func(id uint64) *Request {
		r := &Request{Name: "p", Kind: Permits, ID: id, Ends: Forever}
		s.step(LockPermits{r, 1, many})
		return r
	}
	for id := range uint64(many) {
		held = append(held, lock(id+1))
		require.Equal(t, reqGranted, held[id].state)
	}
	require.Equal(t, many, s.m.Stats().Watched, "each is renewed by itself")
	for i, r := range held {
		s.step(Unlock{Request: r})
		require.Equal(t, many-i-1, s.m.Stats().Held)
	}
	require.Zero(t, s.m.Stats().Names)
}

// A manager has no more than so many entries of a name. A request that comes then waits until
// one of them is free.
func TestPermits_MostEntries(t *testing.T) {
	s := newScripted()
	lock := func(id uint64, once bool) *Request {
		r := &Request{Name: "p", Kind: Permits, ID: id, Ends: Forever, Once: once}
		s.step(LockPermits{r, 1, 2 * mostEntries})
		return r
	}
	for id := range uint64(mostEntries) {
		require.Equal(t, reqGranted, lock(id+1, false).state)
	}
	require.Equal(t, reqDone, lock(mostEntries+1, true).state, "who tries once does not wait")
	waits := lock(mostEntries+2, false)
	require.Equal(t, reqQueued, waits.state)
	s.step(Unlock{Request: s.m.names["p"].entry.hold.Request})
	require.Equal(t, reqGranted, waits.state)
}

// Who tries once does not wait for an unlock if it is queued while the last entry that the manager
// may have is asked for.
func TestPermits_TriesForTheLastEntry(t *testing.T) {
	s := newScripted()
	var ops []*Op
	lock := func(id uint64, once bool) *Request {
		r := &Request{Name: "p", Kind: Permits, ID: id, Ends: Forever, Once: once}
		for _, e := range s.m.Step(0, LockPermits{r, 1, 2 * mostEntries}, nil) {
			if run, ok := e.(Run); ok {
				ops = append(ops, run.Op)
			}
		}
		return r
	}
	grant := func() {
		op := ops[0]
		ops = ops[1:]
		for _, e := range s.m.Step(0, &Replies{Replies: []Reply{{Op: op, ID: op.ID, Ran: Yes, OK: true}}}, nil) {
			if run, ok := e.(Run); ok {
				ops = append(ops, run.Op)
			}
		}
	}
	for id := range uint64(mostEntries - 2) {
		lock(id+1, false)
		grant()
	}
	s.m.names["p"].pool().asks = 1 // as after a refusal
	last, once, again := lock(mostEntries-1, false), lock(mostEntries, true), lock(mostEntries+1, true)
	grant()
	grant()
	require.Equal(t, reqGranted, last.state)
	require.Equal(t, reqGranted, once.state)
	require.Equal(t, reqDone, again.state)
	require.Nil(t, again.Hold)
}

// Who tries once does not wait for the answer about the last entry either, if that is for another request.
func TestPermits_LastEntryIsAskedFor(t *testing.T) {
	s := newScripted()
	lock := func(id uint64, once bool) *Request {
		r := &Request{Name: "p", Kind: Permits, ID: id, Ends: Forever, Once: once}
		s.m.Step(0, LockPermits{r, 1, 2 * mostEntries}, nil)
		return r
	}
	for id := range uint64(mostEntries - 1) {
		s.step(LockPermits{&Request{Name: "p", Kind: Permits, ID: id + 1, Ends: Forever}, 1, 2 * mostEntries})
	}
	require.Equal(t, reqQueued, lock(mostEntries, false).state)
	require.Equal(t, reqDone, lock(mostEntries+1, true).state)
}

// taken lets ten requests have a permit each, and as many wait as there are permits.
func taken(t *testing.T, s *scripted) (lock func() *Request, held []*Request) {
	s.most = 10
	var id uint64
	lock = func() *Request {
		id++
		r := &Request{Name: "p", Kind: Permits, ID: id, Ends: Forever}
		s.step(LockPermits{r, 1, 10})
		return r
	}
	for range s.most {
		held = append(held, lock())
		require.Equal(t, reqGranted, held[len(held)-1].state)
	}
	return lock, held
}

// A manager that nobody is heard beside gives all its entries back at the same time, once in
// a while, whenever each of them was first passed on.
func TestPermits_OnePause(t *testing.T) {
	s := newScripted()
	s.m.cfg.ShareEvery, s.m.cfg.BlindPause, s.m.cfg.BackTime = time.Second, 50*time.Millisecond, 10*time.Millisecond
	lock, held := taken(t, s)
	waits := []*Request{lock(), lock(), lock()}
	for step := range 100 { // each is passed on every 300 ms, each at another time
		s.now += 30 * time.Millisecond
		s.step(Tick{})
		if r := held[step%10]; r.state == reqGranted {
			s.step(Unlock{Request: r})
			waits = append(waits, lock())
		}
		for i, r := range held {
			if r.state == reqDone && waits[0].state == reqGranted {
				held[i], waits = waits[0], waits[1:]
			}
		}
	}
	stood := s.m.Stats().StoodBack
	require.Positive(t, stood)
	require.LessOrEqual(t, stood, uint64(4), "once in three quarters of a second")
}

// Entries that come free during a pause begin no new one.
func TestPermits_NoNewPause(t *testing.T) {
	s := newScripted()
	s.m.cfg.PassTime, s.m.cfg.BackTime, s.m.cfg.FarPause = 100*time.Millisecond, time.Second, time.Second
	s.subscribers = 1
	lock, held := taken(t, s)
	var waits []*Request
	for range 30 {
		waits = append(waits, lock())
	}
	for _, r := range append(held, waits[:10]...) { // the first ten pass on: a run begins
		if r == waits[0] {
			s.now += time.Second
		}
		s.now += time.Millisecond
		s.step(Unlock{Request: r})
	}
	require.Zero(t, s.m.Stats().Held, "all were given back")
	require.Equal(t, uint64(1), s.m.Stats().StoodBack)
}

// A kind whose names may have several entries has an index of them: see settleEntry.
func TestRules_SeveralEntriesHaveAnIndex(t *testing.T) {
	for k, r := range rulesOf {
		if r == nil {
			continue
		}
		n := &name{kind: Kind(k), details: &noDetails}
		if n.entry.of = n; Kind(k) != Several { // the details of a set come with its items
			n.details = r.details(n)
		}
		require.Equal(t, r.entries() > 1, n.index() != nil, "kind %d", k)
	}
}
