package core

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// isSet reports whether a story's name is that of a set.
func isSet(name string) bool { return strings.Contains(name, "+") }

// itemsOf returns the items of a story's set.
func itemsOf(name string) (items []Item) {
	for word := range strings.SplitSeq(name, "+") {
		it := Item{}
		var side string
		if it.Name, side, _ = strings.Cut(word, ":"); side != "" {
			it.Kind = ReadWrite
		}
		if side == "read" {
			it.Side = Shared
		}
		items = append(items, it)
	}
	return items
}

// The sets and single names of a manager wait for each other. They have one connection,
// so the server counts one subscriber for all of them.
func TestSet_Rivals(t *testing.T) {
	m := New(Config{TrustSubscribers: true, MaxLocks: 100})
	others := func(key string, subscribers int64) int64 {
		return m.othersOf(m.known(key, isSet(key)), subscribers)
	}
	add := func(key string, p phase, waits bool, sub subscription) {
		var n *name
		if isSet(key) {
			n = m.lookup(key, itemsOf(key))
		} else {
			n = m.lookup(key, nil)
		}
		if n.entry.phase, n.sub = p, sub; waits {
			n.queue.push(&Request{Name: key, entry: &n.entry})
		}
	}
	add("a", held, false, subNone)
	require.EqualValues(t, 2, others("a", 2), "two others, none of them ours")
	add("x+y", waiting, true, subOn)
	require.EqualValues(t, 2, others("a", 2), "a set without this item")
	add("a+b", idle, false, subNone)
	require.EqualValues(t, 2, others("a", 2), "nobody waits for this set")
	add("a+c", held, true, subNone)
	require.EqualValues(t, 2, others("a", 2), "the set is held: both read")
	add("a+d", waiting, true, subPending)
	require.EqualValues(t, 2+1, others("a", 2), "a set waits, and does not hear yet")
	add("a+e", waiting, true, subOn)
	require.EqualValues(t, 1+2, others("a", 2), "two sets wait, and one of the subscribers is this manager")
	m.names["a"].sub = subOn
	require.EqualValues(t, 2+2, others("a", 2), "this manager may stand in the line, and is not counted")

	add("q+x", held, false, subNone)
	require.EqualValues(t, 1, others("q+x", 1), "x+y waits, and is the subscriber")
	add("x", waiting, true, subNone)
	require.EqualValues(t, 2, others("q+x", 1), "so does x")
	for i := range 2 * mostRivals {
		add("x+"+strings.Repeat("z", i+1), waiting, true, subOn)
	}
	require.EqualValues(t, mostRivals, others("x", 0), "they are not all counted")
	m.cfg.TrustSubscribers = false
	require.EqualValues(t, 1, others("x", 0))
}

// Requests of one set at the ends of the times at which it gathers.
func TestSet_Gather(t *testing.T) {
	ms := time.Millisecond
	m := New(Config{Lease: 2100 * ms, GatherAfter: time.Second, GatherTime: 100 * ms})
	newSet := func(items ...Item) *entry {
		s := &set{items: items}
		s.noDetails = details{special: s}
		n := &name{kind: Several, details: &s.noDetails}
		n.entry.of = n
		return &n.entry
	}
	e := newSet(Item{Name: "a"}, Item{Name: "b", Side: Shared})
	s := e.of.set()
	gather := func(now, asked time.Duration) time.Duration {
		m.now = now
		e.of.queue.head = &Request{Asked: asked}
		return m.gatherFor(e)
	}
	gaveBack := func(now time.Duration) {
		m.now = now
		m.gatherReleased(e)
	}
	require.Zero(t, gather(10*ms+time.Second-1, 10*ms), "too early")
	require.False(t, s.active())
	require.Equal(t, 100*ms, gather(1010*ms, 10*ms))
	require.Equal(t, 60*ms, gather(1050*ms, 1050*ms), "also for a new request, if the old one has left")
	require.Equal(t, ms, gather(1109*ms, 10*ms))
	require.Zero(t, gather(1109*ms+1, 10*ms), "less than a millisecond")
	require.Zero(t, gather(1200*ms, 10*ms), "the time is over")
	require.True(t, s.active(), "until it has given back what it has")
	gaveBack(1200 * ms)
	require.False(t, s.active())
	require.Zero(t, gather(1400*ms-1, 10*ms), "a pause of twice GatherTime at least")
	require.Equal(t, 200*ms, gather(1600*ms, 10*ms), "and of four times as long at most; twice as long as the first time")
	gaveBack(1800 * ms)
	require.Zero(t, gather(2200*ms-1, 10*ms))
	require.Equal(t, 400*ms, gather(2600*ms, 10*ms))
	gaveBack(3000 * ms)
	require.Equal(t, 700*ms, gather(9000*ms, 10*ms), "a third of the lease at most")
	gaveBack(9700 * ms)

	// Of two sets that exclude each other one gathers.
	beside := func(items ...Item) time.Duration {
		o := newSet(items...)
		o.of.queue.head = &Request{}
		defer m.stopGathering(o)
		m.now = time.Hour
		return m.gatherFor(o)
	}
	require.NotZero(t, gather(time.Hour, 0))
	require.Zero(t, beside(Item{Name: "0"}, Item{Name: "a"}))
	require.Zero(t, beside(Item{Name: "b"}))
	require.NotZero(t, beside(Item{Name: "aa"}, Item{Name: "b", Side: Shared}, Item{Name: "c"}))
	gaveBack(time.Hour)
	require.NotZero(t, beside(Item{Name: "a"}))
	require.Empty(t, m.gatheringSets)

	m.cfg.GatherTime = 0
	require.Zero(t, gather(2*time.Hour, 0), "never")
}

// What is known of the holds of sets ends with them.
func TestSet_HeldSets(t *testing.T) {
	s := newScripted()
	items := []Item{{Name: "a"}, {Name: "b", Kind: ReadWrite, Side: Shared}}
	for id := range uint64(3) {
		r := &Request{Name: "a+b", Kind: Several, ID: id + 1, Ends: Forever}
		s.step(LockSet{r, items})
		require.Equal(t, reqGranted, r.state)
		require.Len(t, s.m.heldSets["b"], 1)
		again := &Request{Name: "a+b", Kind: Several, ID: id + 10, Ends: Forever}
		again.As(id + 1)
		s.step(LockSet{again, items})
		require.Same(t, r.Hold, again.Hold)
		require.Len(t, s.m.heldSets["b"], 1)
		s.step(Unlock{Request: again})
		if id == 2 {
			s.step(Close{})
		} else {
			s.step(Unlock{Request: r})
		}
		require.Empty(t, s.m.heldSets)
		require.Empty(t, s.m.sets)
		require.Empty(t, s.m.setNames)
	}
}

// An acquire that was several commands may have left one record that was seen, while another
// command still runs late. So its number is looked for after a release that has removed a record.
func TestSet_SplitAcquire(t *testing.T) {
	for split, looked := range map[bool]int{false: 0, true: 1} {
		m := New(Config{Lease: time.Second, RetryTime: time.Second, SuspectTime: time.Second, MaxLocks: 10})
		var sent *Op
		step := func(ev Event) {
			for _, e := range m.Step(0, ev, nil) {
				if run, ok := e.(Run); ok {
					sent = run.Op
				}
			}
		}
		answer := func(r Reply) {
			r.Op, r.ID, r.Split = sent, sent.ID, split
			step(&Replies{Replies: []Reply{r}})
		}
		request := &Request{Name: "a+b", ID: 1, Kind: Several, Ends: Forever}
		step(LockSet{Request: request, Items: itemsOf("a+b")})
		answer(Reply{Ran: Maybe, Err: errUnanswered})
		step(Cancel{request})
		require.Equal(t, VerbRelease, sent.Verb)
		answer(Reply{Ran: Yes, OK: true, Partly: true})
		n := m.known("a+b", true)
		strays := 0
		if n != nil {
			strays = n.entry.upkeep().unknown.strays()
		}
		require.Equal(t, looked, strays, "split %v", split)
	}
}
