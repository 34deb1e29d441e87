package core

import (
	"slices"
	"time"
)

// An index has the entries of a name that may have many, by phase. So an event about an entry leads
// to no work for further held entries. The special state of a kind with several entries embeds an
// index.
type index struct {
	// The entries by phase. Entries that dropDetails has dropped are in no list.
	moving []*entry // neither idle nor held
	idle   []*entry
	held   int // how many are held

	// firstPass is upkeep.firstPass of all entries.
	firstPass time.Duration
}

// index returns the index of a name, or nil if the name has one entry.
func (n *name) index() *index { return n.details.special.indexed() }

// reset notes that a name has a single entry, which is idle.
func (x *index) reset(n *name) { x.moving, x.idle, x.held = nil, []*entry{&n.entry}, 0 }

// moved notes that an entry has changed its phase.
func (x *index) moved(e *entry, from, to phase) {
	if from == to {
		return
	}
	remove := func(list []*entry) []*entry {
		i := slices.Index(list, e)
		if i < 0 {
			return list // a new entry is in no list yet
		}
		last := len(list) - 1
		list[i] = list[last]
		list[last] = nil
		return list[:last]
	}
	switch from {
	case idle:
		x.idle = remove(x.idle)
	case held:
		x.held--
	default:
		if to != idle && to != held {
			return
		}
		x.moving = remove(x.moving)
	}
	switch to {
	case idle:
		x.idle = append(x.idle, e)
	case held:
		x.held++
	default:
		x.moving = append(x.moving, e)
	}
}

// allIdle reports whether all entries other than except are idle.
func (x *index) allIdle(except *entry) bool {
	others := len(x.moving) + x.held
	if except.phase != idle {
		others--
	}
	return others == 0
}
