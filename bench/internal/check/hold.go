package check

// How a hold ended.
const (
	Open     uint8 = iota // not yet, or the process died
	Released              // unlock was called while valid, and was confirmed
	Unknown               // unlock was called while valid, and had no clear answer
	Lost                  // it was seen invalid before unlock was called
)

// A Hold is the account of one hold. Its fields have a fixed size, so that it can be sent as it is.
// All instants are those of the shared clock; zero means that it did not come to that.
type Hold struct {
	ID    uint64 // never used twice in a run
	Name  uint32
	Proc  uint32 // the process, each life of it has its own number
	Token int64  // 0: not fenced

	Asked int64 // before the request
	From  int64 // after the first call that said "valid"
	Seen  int64 // before the last call that said "valid"
	Claim int64 // the furthest claim, see the package's documentation

	Ending int64 // before unlock was called
	Ended  int64 // after it returned
	Wrote  int64 // after the first write that the register accepted
	How    uint8
	Early  bool // it was seen invalid before its claim was over, or without one
	Shared bool // others that are Shared may hold at the same time

	Permits uint16 // how many permits it is of; 0: it is of a lock
}

// Sample records that a call said "valid for left more": before and after are readings around it.
// With left of zero or less it records a loss, as [Hold.Lose] does. It reports whether the hold
// believes.
func (h *Hold) Sample(before, after, left int64) bool {
	if left <= 0 {
		h.Lose(before)
		return false
	}
	if h.How == Lost {
		// A hold that is valid again was never without its record: a renewal was confirmed late.
		// Its claim goes on.
		h.How, h.Early = Open, false
	}
	if h.From == 0 {
		h.From = after
	}
	h.Seen = max(h.Seen, before)
	h.Claim = max(h.Claim, before+left)
	return true
}

// Lose records that the hold was found lost by something that was known at the instant at: a call
// that said "invalid" and began then, or a signal that was received then.
func (h *Hold) Lose(at int64) {
	if h.How == Lost {
		return
	}
	h.How, h.Early = Lost, at < h.Claim
}

// Unlocking records the last call before unlock, like Sample: before and left are of a call of
// Remaining that was made directly before unlock.
func (h *Hold) Unlocking(before, after, left int64) bool {
	h.Ending = before
	return h.Sample(before, after, left)
}

// Finish records that unlock has returned, at an instant after that.
func (h *Hold) Finish(after int64, confirmed bool) {
	h.Ended = after
	if h.How == Lost {
		return
	}
	h.How = Unknown
	if confirmed {
		h.How = Released
	}
}

// Believed returns the interval in which the hold surely believed. It is empty (to <= from) if it
// was never seen valid.
func (h *Hold) Believed() (from, to int64) {
	if h.From == 0 {
		return 0, 0
	}
	to = h.Seen
	if h.How == Lost && !h.Early {
		to = max(to, h.Claim)
	}
	return h.From, to
}
