package lockmgr

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A Holder is one entry of a record.
type Holder struct {
	// Owner is the ID that Lock.HolderID returns. That of a writer of a read-write lock ends with
	// ":write", and ":kept" follows the ID of a hold that has ended and that KeepFor keeps.
	Owner string
	// Count is always 1 if this library wrote the entry: it counts re-entries in memory.
	Count int64
	// Process is the process that has the hold. It is the zero Process if that is not known: the
	// manager has held nothing for a second yet, is Anonymous or may not write its record, has
	// died or not reached the server for up to 35 s, or the holder is a client of Redisson.
	Process Process
	// Since is when the hold was granted, by the clock of its host. It is zero if that is not
	// known. A manager knows it of its own holds at once. Other managers see it up to ten seconds late,
	// and only for holds that are older than a second. They see it for at most 512 holds of a manager,
	// of which at most 256 have no Note. Which ones is random if there are more.
	Since time.Time
	// Note is the text of the option Note of the request. Others are told as of Since. The readers
	// of one manager share an entry, which has the Note of one of them.
	Note string
}

// Kept reports whether nobody holds the lock any more, and KeepFor keeps it.
func (h Holder) Kept() bool {
	_, _, ours := holderOf(h.Owner)
	return ours && strings.HasSuffix(h.Owner, ":kept")
}

// String returns who has the hold, for how long and what for, as far as that is known. An example is
// "billing@web-3, pid 411, for 12s: invoice 42". Characters that can't be shown are U+FFFD in it.
func (h Holder) String() string {
	text := h.Process.String()
	if text == "" {
		text = h.Owner
	}
	if h.Kept() {
		text += " (kept by KeepFor)"
	}
	if !h.Since.IsZero() {
		text += fmt.Sprintf(", for %v", roundAge(time.Since(h.Since)))
	}
	if h.Note != "" {
		text += ": " + h.Note
	}
	return clean.Text(text, clean.Most)
}

// holderOf splits a holder ID. It returns the key of its manager's record, and the number of the
// hold. ok is false if owner is not the holder ID of a manager.
func holderOf(owner string) (key, number string, ok bool) {
	manager, rest, found := strings.Cut(owner, ":")
	if _, err := uuid.Parse(manager); err != nil || !found || len(manager) != 36 {
		return "", "", false
	}
	number, _, _ = strings.Cut(rest, ":")
	return wire.ProcessKey(manager), number, number != "" && strings.Trim(number, "0123456789") == ""
}

// heldBy returns a text for an error: who holds a lock.
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
	// Process, Since and Note say who has it, since when and what for: see Holder.
	Process Process
	Since   time.Time
	Note    string
}
