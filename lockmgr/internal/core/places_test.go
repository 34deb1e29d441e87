package core

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lineServer answers the scripts of a machine that has a fair lock, and keeps the places of its
// queue.
type lineServer struct {
	t       *testing.T
	m       *Machine
	now     time.Duration
	places  map[uint64]bool
	scripts int
	refuses bool // others have the lock
}

var errUnanswered = errors.New("timeout")

func newLineServer(t *testing.T) *lineServer {
	return &lineServer{t: t, places: map[uint64]bool{}, m: New(Config{
		Lease: 30 * time.Second, RetryTime: time.Second, SuspectTime: time.Second, PlaceTime: time.Minute, PollMax: time.Hour, MaxLocks: 1,
	})}
}

func (s *lineServer) step(ev Event) {
	for todo := s.m.Step(s.now, ev, nil); len(todo) > 0; todo = todo[1:] {
		run, is := todo[0].(Run)
		if !is {
			continue
		}
		op, x := run.Op, run.Op.PlaceOp
		s.scripts++
		require.Less(s.t, s.scripts, 2000, "scripts without an end")
		require.LessOrEqual(s.t, len(x.Join), mostMoved)
		require.LessOrEqual(s.t, len(x.Leave), mostMoved)
		for _, n := range x.Join {
			s.places[n] = true
		}
		for _, n := range x.Leave {
			delete(s.places, n)
		}
		refused := s.refuses && op.Verb == VerbAcquire
		if !refused {
			delete(s.places, op.Number)
		}
		missing := x.Refresh && len(s.places) < x.Count
		todo = append(todo, s.m.Step(s.now, &Replies{[]Reply{{Op: op, ID: op.ID, Ran: Yes, OK: !refused, Missing: missing, TTL: time.Minute}}}, nil)...)
	}
}

// crowd makes more requests than one script can give places to.
func (s *lineServer) crowd(many int) (all []*Request) {
	for i := range uint64(many) {
		r := &Request{Name: "f", Kind: Fair, ID: i + 1, Ends: Forever}
		all = append(all, r)
		s.step(Lock{r})
	}
	return all
}

// If more places are lost than one script can add, a few scripts add them again.
func TestLine_ManyPlacesAreLost(t *testing.T) {
	const many = 3 * mostMoved
	s := newLineServer(t)
	s.crowd(many)
	require.Len(t, s.places, many-1, "one has the lock")
	clear(s.places)
	s.now, s.scripts = time.Minute/4, 0
	s.step(Tick{}) // the places are due to be refreshed
	require.Len(t, s.places, many-1)
	require.Equal(t, 4, s.scripts, "the first one finds that the places are gone")
}

// If more requests leave than one script can remove places, a few scripts remove them, also if
// nobody waits any more.
func TestLine_ManyLeave(t *testing.T) {
	for _, left := range []int{0, 1} {
		s := newLineServer(t)
		s.refuses = true
		all := s.crowd(3 * mostMoved)
		require.Len(t, s.places, len(all))
		s.scripts = 0
		for _, r := range all[left:] {
			s.step(Cancel{r})
		}
		s.step(Wake{Name: "f", Message: true, Subscribed: true})
		require.Len(t, s.places, left)
		require.LessOrEqual(t, s.scripts, 4)
	}
}

// A transfer without an answer may run late and give the lock back. So nobody gets the lock in
// memory until an acquire has named the record's holder.
func TestLine_UnansweredTransferMayGiveWay(t *testing.T) {
	m := New(Config{Lease: 30 * time.Second, RetryTime: time.Minute, SuspectTime: time.Minute, PlaceTime: time.Minute, PollMax: time.Hour, MaxLocks: 1})
	var scripts []*Op
	granted, now := map[uint64]bool{}, time.Duration(0)
	step := func(ev Event) {
		for _, e := range m.Step(now, ev, nil) {
			switch e := e.(type) {
			case Run:
				scripts = append(scripts, e.Op)
			case Granted:
				granted[e.Request.ID] = true
			}
		}
	}
	answer := func(r Reply) {
		r.Op = scripts[len(scripts)-1]
		r.ID = r.Op.ID
		step(&Replies{[]Reply{r}})
	}
	var all []*Request
	for id := range uint64(4) {
		r := &Request{Name: "f", Kind: Fair, ID: id + 1, Ends: Forever}
		all = append(all, r)
		step(Lock{r})
	}
	answer(Reply{Ran: Yes, OK: true}) // the first has it
	answer(Reply{Ran: Yes, OK: true}) // the others have joined, and are not at the front
	require.True(t, granted[1])
	step(Unlock{Request: all[0]})
	require.True(t, scripts[len(scripts)-1].PlaceOp.Pass)
	m.names["f"].places().front = 4 // an earlier answer may have said so
	answer(Reply{Ran: Maybe, Err: errUnanswered})
	step(Cancel{all[1]})
	now = time.Second
	step(Tick{})
	require.Equal(t, VerbAcquire, scripts[len(scripts)-1].Verb)
	require.False(t, granted[3], "the transfer for the second may still give the lock back")
	answer(Reply{Ran: Yes, OK: true, Front: 4})
	require.True(t, granted[3], "the transfer would find the number of the acquire")
}

// A request that has no place yet comes behind all that have one, of whichever manager: it can't
// get the lock in memory, whatever the front is.
func TestLine_RequestWithoutAPlaceIsBehind(t *testing.T) {
	s := newLineServer(t)
	s.crowd(3)
	e := &s.m.names["f"].entry
	l := e.of.places()
	l.front, l.joined, l.frontUntil = 100, 100, Forever
	r := e.of.queue.head
	require.NotZero(t, r.own.Number)
	require.False(t, s.m.behind(e, r))
	r.own.Number = 0
	require.True(t, s.m.behind(e, r))
	r.own.Number = 101
	require.True(t, s.m.behind(e, r))
	r.own.Number, l.frontUntil = 50, s.m.now
	require.True(t, s.m.behind(e, r), "the places may have ended since")
}
