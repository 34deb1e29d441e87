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
			s.step(&Replies{Replies: []Reply{{Op: run.Op, ID: run.Op.ID, Ran: Yes, OK: s.grants(run.Op), TTL: time.Hour, Subscribers: s.subscribers}}})
		}
	}
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

// pair is a kind that two owners have at a time, each with an entry of its own.
type pair struct{ usual }

const pairKind Kind = MostKinds - 1

var _ = register(pairKind, pair{})

func (pair) entries() int                  { return 2 }
func (pair) waitsFor(*Request, *Hold) bool { return false }
func (pair) details(n *name) *details      { return new(pairs).dropped(n) }

// pairs is the special state of a name of the kind: a name with several entries has an index.
type pairs struct {
	plain
	index
	noDetails details
}

func (p *pairs) dropped(n *name) *details {
	p.reset(n)
	p.asks = 1
	p.noDetails = details{special: p, index: &p.index}
	return &p.noDetails
}

// A kind may have several entries of a name. They serve one queue, in order.
func TestName_WithSeveralEntries(t *testing.T) {
	s := newScripted()
	var requests []*Request
	for id := range uint64(4) {
		requests = append(requests, s.lock(&Request{Kind: pairKind, ID: id + 1}))
	}
	states := func() (out []requestState) {
		for _, r := range requests {
			out = append(out, r.state)
		}
		return out
	}
	require.Equal(t, []requestState{reqGranted, reqGranted, reqQueued, reqQueued}, states())
	require.NotEqual(t, requests[0].Hold.Number, requests[1].Hold.Number)
	require.Equal(t, 2, s.m.Stats().Watched, "each entry is renewed by itself")
	s.step(Unlock{Request: requests[1]})
	require.Equal(t, []requestState{reqGranted, reqDone, reqGranted, reqQueued}, states(), "an entry passes on")
	s.step(Cancel{requests[3]})
	s.step(Unlock{Request: requests[0]})
	require.Equal(t, 1, s.m.Stats().Held, "the other entry stays")
	require.Equal(t, VerbRelease, s.ops[len(s.ops)-1].Verb)
	s.step(Unlock{Request: requests[2]})
	require.Zero(t, s.m.Stats().Names)
	var acquired []uint64
	for _, op := range s.ops {
		if op.Verb == VerbAcquire {
			acquired = append(acquired, op.Number)
		}
	}
	require.Len(t, acquired, 2)
}
