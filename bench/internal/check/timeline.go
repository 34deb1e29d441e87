package check

import (
	"fmt"
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

func (s span) String() string {
	return fmt.Sprintf("hold %x of process %d from %d to %d", s.hold, s.proc, s.from, s.to)
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
