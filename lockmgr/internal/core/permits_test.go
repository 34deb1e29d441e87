package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However many callers a name has, some work for one of them does not grow with the permits that
// others have by more than a look at each.
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

// A manager has no more than so many entries of a name. A request that comes then waits until one
// of them is free.
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

// Who tries once does not wait for the answer about the last entry either, if that is for another
// request.
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

// While others wait, an entry is given back after its own turn, whatever others of its manager do.
func TestPermits_TurnsOfEntries(t *testing.T) {
	s := newScripted()
	s.m.cfg.PassTime, s.m.cfg.PassCount, s.subscribers = 100*time.Millisecond, 1000, 1
	lock, held := taken(t, s)
	for range 50 {
		lock()
	}
	given := func() (n int) {
		for _, op := range s.ops {
			if op.Verb == VerbRelease {
				n++
			}
		}
		return n
	}
	s.step(Unlock{Request: held[0]}) // a transfer tells of others
	s.now += 60 * time.Millisecond
	s.step(Unlock{Request: held[1]})
	require.Zero(t, given())
	s.now += 60 * time.Millisecond
	for _, r := range held[2:5] {
		s.step(Unlock{Request: r})
	}
	require.Equal(t, 3, given())
	require.Equal(t, uint64(3), s.m.Stats().StoodBack)
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
