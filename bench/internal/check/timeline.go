package check

import (
	"slices"
	"sort"
)

// horizon is how far back intervals are kept, in nanoseconds. It has to exceed the longest hold and
// the longest time that a process is stopped.
const horizon = 30e9

// A span is an interval of one hold.
type span struct {
	from, to int64
	hold     uint64
	proc     uint32
}

// A timeline keeps the spans of the last half minute, by their begin.
type timeline struct {
	spans []span
	gone  int   // spans[:gone] are too old
	floor int64 // what is older than this can't be checked any more
}

// live returns the spans that count.
func (t *timeline) live() []span { return t.spans[t.gone:] }

// add puts a span in its place and returns the index in live, or -1 if it is too old.
func (t *timeline) add(s span) int {
	if s.from < t.floor {
		return -1
	}
	live := t.live()
	i := sort.Search(len(live), func(i int) bool { return live[i].from > s.from })
	t.spans = slices.Insert(t.spans, t.gone+i, s)
	return i
}

// join adds a span and makes one of all that intersect it, so that the spans of a timeline stay
// apart. It returns the index in live, or -1 if the span is too old.
func (t *timeline) join(s span) int {
	i := t.add(s)
	if i < 0 {
		return i
	}
	live := t.live()
	first, last := i, i
	for first > 0 && live[first-1].to > s.from {
		first--
	}
	for last+1 < len(live) && live[last+1].from < s.to {
		last++
	}
	whole := live[first]
	for _, other := range live[first : last+1] {
		whole.to = max(whole.to, other.to)
	}
	t.spans = slices.Replace(t.spans, t.gone+first, t.gone+last+1, whole)
	return first
}

// beside returns a span of the timeline that intersects s, or nil. The spans of the timeline must
// be apart. own is the index of s in live, or -1 if s is in another timeline.
func (t *timeline) beside(s span, own int) *span {
	live := t.live()
	i := own
	if own < 0 {
		i = sort.Search(len(live), func(i int) bool { return live[i].from > s.from })
		if i < len(live) && live[i].from < s.to {
			return &live[i]
		}
	} else if i+1 < len(live) && live[i+1].from < s.to {
		return &live[i+1]
	}
	if i > 0 && live[i-1].to > s.from {
		return &live[i-1]
	}
	return nil
}

// prune forgets what is too old, at little cost for each span.
func (t *timeline) prune() {
	live := t.live()
	if len(live) == 0 {
		return
	}
	limit := live[len(live)-1].from - horizon
	for len(live) > 0 && live[0].from < limit {
		live = live[1:]
		t.gone++
	}
	t.floor = max(t.floor, limit)
	if t.gone > len(t.spans)/2 && t.gone > 1024 {
		t.spans = slices.Delete(t.spans, 0, t.gone)
		t.gone = 0
	}
}
