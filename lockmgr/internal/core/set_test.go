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
	require.EqualValues(t, 1+2, others("a", 2), "the same one")

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
	cfg := &Config{GatherAfter: time.Second, GatherTime: 100 * time.Millisecond}
	var j jitter
	ms := time.Millisecond
	s := &set{}
	require.Zero(t, s.gather(10*ms+time.Second-1, 10*ms, cfg), "too early")
	require.False(t, s.gathering())
	require.Equal(t, 100*ms, s.gather(1010*ms, 10*ms, cfg))
	require.Equal(t, 60*ms, s.gather(1050*ms, 1050*ms, cfg), "also for a new request, if the old one has left")
	require.Equal(t, ms, s.gather(1109*ms, 10*ms, cfg))
	require.Zero(t, s.gather(1109*ms+1, 10*ms, cfg), "less than a millisecond")
	require.Zero(t, s.gather(1200*ms, 10*ms, cfg), "the time is over")
	require.True(t, s.gathering(), "until it has given back what it has")
	s.gaveBack(1200*ms, cfg, &j)
	require.False(t, s.gathering())
	require.Zero(t, s.gather(1300*ms-1, 10*ms, cfg), "a pause of GatherTime at least")
	require.Equal(t, 100*ms, s.gather(1600*ms, 10*ms, cfg), "and of four times as long at most")
	s.gaveBack(1610*ms, cfg, &j)
	s.nextTime = 0
	cfg.GatherTime = 0
	require.Zero(t, s.gather(time.Hour, 0, cfg), "never")
}
