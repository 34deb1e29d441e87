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
	for id := range uint64(many) {
		held = append(held, s.lockPermit(many, id+1, false))
		require.Equal(t, reqGranted, held[id].state)
	}
	require.Equal(t, many, s.m.Stats().Watched, "each is renewed by itself")
	for i, r := range held {
		s.step(Unlock{Request: r})
		require.Equal(t, many-i-1, s.m.Stats().Held)
	}
	require.Zero(t, s.m.Stats().Names)
}

// A manager has no more than so many entries of a name. A request that comes then waits until an
// entry is free. Who tries once does not wait: not for an unlock, nor for the answer about the last
// entry, if that entry is for another request.
func TestPermits_MostEntries(t *testing.T) {
	s := newScripted()
	lock := func(id uint64, once bool) *Request { return s.lockPermit(2*mostEntries, id, once) }
	for id := range uint64(mostEntries - 2) {
		require.Equal(t, reqGranted, lock(id+1, false).state)
	}
	s.m.names["p"].pool().asks = 1 // as after a refusal
	s.silent = true
	last, once, again := lock(mostEntries-1, false), lock(mostEntries, true), lock(mostEntries+1, true)
	s.reply(Reply{Ran: Yes, OK: true})
	s.reply(Reply{Ran: Yes, OK: true})
	require.Equal(t, reqGranted, last.state)
	require.Equal(t, reqGranted, once.state)
	require.Equal(t, reqDone, again.state)
	require.Nil(t, again.Hold)
	s.silent = false
	require.Equal(t, reqDone, lock(mostEntries+2, true).state)
	waits := lock(mostEntries+3, false)
	require.Equal(t, reqQueued, waits.state)
	s.step(Unlock{Request: s.m.names["p"].entry.hold.Request})
	require.Equal(t, reqGranted, waits.state, "an entry passes on")
	s.step(Unlock{Request: once})
	s.silent = true
	require.Equal(t, reqQueued, lock(mostEntries+4, false).state, "the last entry is asked for")
	require.Equal(t, reqDone, lock(mostEntries+5, true).state)
}

// While others wait, an entry is given back after its own turn, whatever others of its manager do.
func TestPermits_TurnsOfEntries(t *testing.T) {
	s := newScripted()
	s.m.cfg.PassTime, s.m.cfg.PassCount, s.subscribers = 100*time.Millisecond, 1000, 1
	s.most = 10
	var held []*Request
	for id := range uint64(60) {
		held = append(held, s.lockPermit(10, id+1, false))
		require.Equal(t, id < 10, held[id].state == reqGranted)
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
