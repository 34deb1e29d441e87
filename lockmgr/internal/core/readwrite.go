package core

// ReadWrite is the kind of a lock that many readers have at a time, or one writer. Readers ask for
// the side Shared, writers for Alone.
//
// A manager has one entry of a name, which all readers share. So the first reader and the last need
// a script, and many readers in between need none. A writer's entry passes to writers and to
// readers. A transfer to a reader also lets other processes read. A reader's entry does not pass to
// a writer, because others may be reading.
//
// The waiters of a manager are served in order, so a waiting writer keeps out the readers behind
// it. An owner that writes may read as well, and goes on reading after writing. An owner that only
// reads can't wait to write, because the owner would wait for itself. A single try to write
// succeeds if nobody else reads.
const ReadWrite Kind = 1

// readWrite are the rules of ReadWrite.
type readWrite struct{ usual }

func (readWrite) ownDetails(*name) *details { return withPosition(new(position)) }

func (k readWrite) joins(e *entry, r *Request) bool {
	return r.Side == Shared && k.side(e) == Shared
}

func (readWrite) passes(e *entry, r *Request) bool { return r.Side == Shared || !e.mayBeShared }

func (readWrite) again(h *Hold, r *Request) outcome {
	switch {
	case h.Request.Side == r.Side:
		return reenters
	case r.Side == Shared:
		return besides
	case r.Once:
		return upgrades
	}
	return never
}

func (readWrite) side(e *entry) Side {
	if e.aloneHold() != nil {
		return Alone
	}
	return Shared
}
