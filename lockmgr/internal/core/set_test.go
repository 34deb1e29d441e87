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

// Requests of one set at the ends of the times at which it gathers.
func TestSet_Gather(t *testing.T) {
	ms := time.Millisecond
	m := New(Config{Lease: 30_000 * ms, GatherAfter: time.Hour, GatherTime: 640 * ms, PollMax: time.Hour, PlaceTime: 5 * time.Hour})
	s := &set{items: []Item{{Name: "a"}, {Name: "b", Side: Shared}, {Name: "c"}}}
	s.unmade = s.details()
	n := &name{kind: Several, details: &s.unmade}
	n.entry.of = n
	e := &n.entry
	gather := func(now time.Duration) time.Duration {
		m.now = now
		return m.gatherFor(e)
	}
	refused := func(got int) {
		m.gatherRefused(e, &Reply{Op: &Op{Number: uint64(got)}, Gathered: true, Got: got})
	}
	gaveBack := func(now time.Duration) {
		m.now = now
		m.gatherReleased(e)
	}
	n.queue.head = &Request{Asked: 1000 * ms}
	require.Zero(t, gather(1000*ms), "the first try")
	require.False(t, s.active())
	n.sub = subPending
	require.Equal(t, 10*ms, gather(1000*ms))
	require.Equal(t, 6*ms, gather(1004*ms))
	require.Zero(t, gather(1009*ms+1), "less than a millisecond")
	refused(1)
	require.Equal(t, 10*ms, gather(1009*ms+1), "one more item")
	refused(1)
	require.Equal(t, ms, gather(1018*ms), "no more items")
	require.Zero(t, gather(1020*ms), "the time is over")
	require.True(t, s.active(), "until it has given back what it has")
	gaveBack(1022 * ms)
	require.False(t, s.active())
	require.Zero(t, gather(1022*ms+11*ms-1), "a pause as long as an attempt would be, at least")
	require.Equal(t, 22*ms, gather(1022*ms+22*ms), "and twice as long at most; then half of what it has waited")
	gather(1060 * ms)
	refused(1)
	require.Equal(t, 30*ms, gather(1060*ms), "the same with each further item")
	gaveBack(31_000 * ms)
	require.Zero(t, gather(31_000*ms+15_000*ms-1))
	require.Equal(t, 30_000*ms, gather(121_000*ms), "no longer than the lease in one command")
	require.Equal(t, 181_000*ms, s.until)
	m.now = 122_000 * ms
	m.gatherAcquired(e)
	require.False(t, s.active())
	require.Equal(t, 10*ms, gather(122_010*ms), "time in which others were served does not count")
	gaveBack(123_000 * ms)
	gather(10_000_000 * ms)
	require.Equal(t, 10_000_000*ms+1024*640*ms, s.until, "the longest")
	gaveBack(11_000_000 * ms)
	m.cfg.GatherTime = 0
	require.Zero(t, gather(20_000_000*ms), "never")
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
		s := newScripted()
		s.m.cfg.SuspectTime, s.silent = time.Second, true
		request := &Request{Name: "a+b", ID: 1, Kind: Several, Ends: Forever}
		s.step(LockSet{Request: request, Items: itemsOf("a+b")})
		s.reply(Reply{Ran: Maybe, Err: errUnanswered, Split: split})
		s.step(Cancel{request})
		require.Equal(t, VerbRelease, s.unanswered[0].Verb)
		s.reply(Reply{Ran: Yes, OK: true, Partly: true, Split: split})
		n := s.m.known("a+b", true)
		strays := 0
		if n != nil {
			strays = n.entry.upkeep().unknown.strays()
		}
		require.Equal(t, looked, strays, "split %v", split)
	}
}
