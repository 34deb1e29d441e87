package core

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A name is what the manager knows of one key of the server: the waiting requests, and the entries
// of the manager.
type name struct {
	name  string
	queue queue

	// entry is the first entry of the name. Most names never have another. Further entries are in
	// details.extra.
	entry entry

	// details are the name's own, see makeDetails, or details that nobody writes: noDetails, or the
	// unmade details of a special state. A name that is taken and released without contention never
	// has details of its own.
	details *details

	pos int32 // position in the heap of alarms

	kind   Kind
	shard  uint8 // the shard that the name is on, or NoShard: see health
	sentTo uint8 // the shard to which the shell sent the last operation, before any redirection, or NoShard
	sub    subscription
}

type subscription uint8

const (
	subNone    subscription = iota
	subPending              // asked for, not confirmed: messages may be missed
	subOn                   // confirmed: messages are delivered
)

// details is the state that a name needs only if the name is contended, passed on, fenced, or has
// met a failure.
type details struct {
	made    bool // by makeDetails
	special special
	// These are parts of special, or nil if the kind has no such part.
	position  *position
	outsiders *outsiders
	grants    *grants
	gathering *gathering
	index     *index

	run run
	// restUntil is the instant until which an idle name is remembered.
	restUntil time.Duration

	upkeep upkeep   // that of the first entry
	extra  []*extra // the other entries

	forAlone int // requests in the queue that are for the side Alone
	once     int // requests in the queue that have Once set
}

// noDetails are the details of names that have none of their own, for kinds without a special
// state. noDetails are read like a name's own details, and never written.
var noDetails = details{special: noSpecial{}}

func (n *name) heapPos() *int32 { return &n.pos }

// hasDetails reports whether the name has details of its own. A name gets details when first
// contended, passed on or fenced, or after a failure.
func (n *name) hasDetails() bool { return n.details.made }

// makeDetails returns the name's details for writing. The first call makes the details.
func (n *name) makeDetails() *details {
	if !n.hasDetails() {
		n.details = n.rules().ownDetails(n)
		n.details.made = true
		for r := n.queue.head; r != nil; r = r.next {
			n.queued(r)
		}
	}
	return n.details
}

// dropDetails drops the name's details.
func (n *name) dropDetails() { n.details = n.details.special.dropped(n) }

// entries calls yield for each entry of the name.
func (n *name) entries(yield func(*entry) bool) {
	if !yield(&n.entry) {
		return
	}
	for _, e := range n.details.extra {
		if !yield(&e.entry) {
			return
		}
	}
}

// toLookAt calls yield for the entries that are neither idle nor held, or, for a name without an
// index, for the single entry in whatever phase. yield may change the phases of entries.
func (n *name) toLookAt(yield func(*entry) bool) {
	x := n.index()
	if x == nil {
		yield(&n.entry)
		return
	}
	var few [16]*entry // no allocation for so many
	for _, e := range append(few[:0], x.moving...) {
		if !yield(e) {
			return
		}
	}
}

// find returns an entry of toLookAt that passes a test, or nil.
func (n *name) find(pass func(*entry) bool) *entry {
	for e := range n.toLookAt {
		if pass(e) {
			return e
		}
	}
	return nil
}

// waiting returns an entry in phase waiting that has no script in flight, or nil.
func (n *name) waiting() *entry {
	return n.find(func(e *entry) bool { return e.phase == waiting && e.flight == 0 })
}

// held reports whether a hold of the name exists in this manager.
func (n *name) held() bool {
	if x := n.index(); x != nil {
		return x.held > 0
	}
	return n.entry.phase == held
}

// idle reports whether all entries of the name are idle.
func (n *name) idle() bool { return n.entry.phase == idle && n.othersIdle(&n.entry) }

// othersIdle reports whether all entries other than except are idle.
func (n *name) othersIdle(except *entry) bool {
	x := n.index()
	return x == nil || x.allIdle(except)
}

// known returns a name that the machine knows, or nil. isSet is set if key is the key of a set.
func (m *Machine) known(key string, isSet bool) *name {
	if isSet {
		return m.setNames[key]
	}
	return m.names[key]
}

// everyName returns all names, sorted.
func (m *Machine) everyName() []*name {
	return m.namesWhere(func(*name) bool { return true })
}

// namesWhere returns the names that pass a test, sorted, because the order of a map must not decide
// what happens.
func (m *Machine) namesWhere(pass func(*name) bool) []*name {
	var some []*name
	for _, names := range [...]map[string]*name{m.names, m.setNames} {
		for _, n := range names {
			if pass(n) {
				some = append(some, n)
			}
		}
	}
	slices.SortFunc(some, func(a, b *name) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	return some
}
