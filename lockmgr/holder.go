package lockmgr

import (
	"fmt"
	"strings"
	"time"
)

// A Holder is one entry of a record.
type Holder struct {
	Owner string // as Lock.HolderID returns it; a writer of a read-write lock has ":write" added
	Count int64  // this library always writes 1, and counts re-entries in memory
	// Process is which process has the hold. It is the zero Process if that is not known: the
	// manager has held nothing for a second yet, is Anonymous, may not write its record or is a
	// client of Redisson.
	Process Process
	// Since is when the hold was granted, by the clock of its host. It is zero if that is not
	// known. A manager tells it of at most 512 holds of at least a second, up to ten seconds late,
	// and first of all of those that have a Note. Of its own holds it knows it at once.
	Since time.Time
	// Note is what the request was given by the option Note, told as Since is. Of readers of one
	// manager, which share an entry, it is that of one of them.
	Note string
}

// String returns who has the hold, as far as is known, for how long and what for, as in
// "billing@web-3, pid 411, for 12s: invoice 42". It quotes nothing: a Process and a Note are read
// without what a terminal would obey.
func (h Holder) String() string {
	text := h.Process.String()
	if text == "" {
		text = h.Owner
	}
	if !h.Since.IsZero() {
		text += fmt.Sprintf(", for %v", roundAge(time.Since(h.Since)))
	}
	if h.Note != "" {
		text += ": " + h.Note
	}
	return text
}

// heldBy says who holds a lock, in the text of an error.
func heldBy(holders []Holder) string {
	const most = 3
	var texts []string
	for _, h := range holders[:min(most, len(holders))] {
		texts = append(texts, h.String())
	}
	if more := len(holders) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return "held by " + strings.Join(texts, "; ")
}

// A TakenPermit is a permit that is taken.
type TakenPermit struct {
	ID string // as Lock.PermitIDs returns it
	// TTL is its remaining life; negative if it does not expire.
	TTL time.Duration
	// Ours reports whether a hold of this manager has it.
	Ours bool
	// Process, Since and Note tell who has it, since when and what for, as far as is known: see
	// Holder.
	Process Process
	Since   time.Time
	Note    string
}
