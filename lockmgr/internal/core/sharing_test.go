package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A scripted machine has a server that grants whatever is asked, up to a number.
type scripted struct {
	m   *Machine
	now time.Duration
	ops []Op // all operations so far

	most, taken int   // how many entries it grants, unless that is zero
	subscribers int64 // what its answers say
	silent      bool  // the test answers: see reply
	unanswered  []*Op
}

func newScripted() *scripted {
	return &scripted{m: New(Config{
		Lease: time.Hour, RetryTime: time.Hour, PassCount: 1 << 20, PassTime: time.Hour, PollMax: time.Hour, PollBlind: time.Hour, PlaceTime: time.Hour,
		TrustSubscribers: true, MaxLocks: 10,
	})}
}

func (s *scripted) step(ev Event) {
	for _, e := range s.m.Step(s.now, ev, nil) {
		if run, ok := e.(Run); ok {
			s.ops = append(s.ops, *run.Op)
			if s.silent {
				s.unanswered = append(s.unanswered, run.Op)
				continue
			}
			s.step(&Replies{Replies: []Reply{{Op: run.Op, ID: run.Op.ID, Ran: Yes, OK: s.grants(run.Op), TTL: time.Hour, Subscribers: s.subscribers}}})
		}
	}
}

// reply answers the oldest command that a silent server has got.
func (s *scripted) reply(r Reply) {
	r.Op = s.unanswered[0]
	r.ID, s.unanswered = r.Op.ID, s.unanswered[1:]
	s.step(&Replies{Replies: []Reply{r}})
}

// grants reports whether the server does what it is asked to.
func (s *scripted) grants(op *Op) bool {
	switch op.Verb {
	case VerbAcquire:
		if s.most > 0 && s.taken == s.most {
			return false
		}
		s.taken++
	case VerbRelease:
		s.taken--
	}
	return true
}

func (s *scripted) lock(r *Request) *Request {
	r.Name, r.Ends = "a", Forever
	s.step(Lock{r})
	return r
}

// lockPermit asks for one of many permits.
func (s *scripted) lockPermit(many int64, id uint64, once bool) *Request {
	r := &Request{Name: "p", Kind: Permits, ID: id, Ends: Forever, Once: once}
	s.step(LockPermits{r, 1, many})
	return r
}

// Joining, leaving and entering again cost the same however many share an entry.
func TestReader_CostDoesNotGrowWithOthers(t *testing.T) {
	life := func(n int) time.Duration {
		s := newScripted()
		var readers []*Request
		begin := time.Now()
		for i := range uint64(n) {
			first := &Request{Kind: ReadWrite, Side: Shared, ID: 2*i + 1}
			first.As(i + 1)
			readers = append(readers, s.lock(first))
			again := &Request{Kind: ReadWrite, Side: Shared, ID: 2*i + 2}
			again.As(i + 1)
			s.lock(again)
			require.Same(t, readers[i].Hold, again.Hold)
			s.step(Unlock{Request: again})
		}
		for _, r := range readers {
			require.Equal(t, reqGranted, r.state)
			s.step(Unlock{Request: r})
		}
		took := time.Since(begin)
		require.Zero(t, s.m.Stats().Held)
		return took
	}
	const few, times = 2000, 10
	ratio := 0.0
	for range 3 {
		one, ten := life(few), life(times*few)
		t.Logf("%d readers: %v, %d: %v", few, one, times*few, ten)
		if ratio = float64(ten) / float64(one); ratio < 4*times {
			return
		}
	}
	require.Less(t, ratio, 4.0*times, "as many times as long, for %d times as many readers", times)
}

// A token is that of one hold with side Alone. Otherwise a later holder could have the token of an
// earlier one.
func TestTokens_EachIsTakenOnce(t *testing.T) {
	var k tokens
	k.got(6, 2)
	require.EqualValues(t, 5, k.take(Alone))
	require.EqualValues(t, 6, k.take(Alone))
	require.False(t, k.left(Alone))
	require.True(t, k.left(Shared), "readers share the last one")
}
