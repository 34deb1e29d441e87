package lockmgr

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// A Holder is an entry of a record.
type Holder struct {
	// Owner is the ID that Lock.HolderID returns. The ID of a writer of a read-write lock ends with
	// ":write". The ID of an ended hold that KeepFor keeps ends with ":kept".
	Owner string
	// Count is always 1 if holdfast wrote the entry: holdfast counts re-entries in memory.
	Count int64
	// Process is the process of the holder. Process is known of an ended hold that KeepFor keeps,
	// unless its manager is Anonymous. Of other holds, Process is zero if the process is not known:
	// the manager has written no record yet, is Anonymous or may not write its record, has been
	// dead or cut off from the server for 35 s, or the holder is a client of Redisson. A manager
	// writes its first record a second after a grant, if it holds something then.
	Process Process
	// Since is when the hold was granted, by the clock of its host. Since is zero if the time is
	// not known. A manager knows Since of its own holds at once. Other managers see Since up to ten
	// seconds late, and only for holds older than a second. Other managers see Since for at most
	// 512 holds of a manager, of which at most 256 have no Note. If a manager has more holds, the
	// choice is random. Since is known of an ended hold when Process is.
	Since time.Time
	// Ended is when a hold that KeepFor keeps ended, by the clock of its host. Ended is zero for a
	// hold that goes on, or if Process is not known.
	Ended time.Time
	// Note is the text of the option Note of the request. Other managers see Note for the same
	// holds as Since, and as late. The readers of a manager share an entry, with the Note of one
	// reader.
	Note string
}

// Kept reports whether nobody holds the lock any more, and KeepFor keeps the name.
func (h Holder) Kept() bool {
	_, _, ours := holderOf(h.Owner)
	return ours && strings.HasSuffix(h.Owner, wire.KeptSuffix)
}

// String returns the known facts of the holder: process, time of the hold, and note. An example is
// "billing@web-3, pid 411, for 12s: invoice 42". U+FFFD stands for characters that can't be shown.
func (h Holder) String() string {
	text := h.Process.String()
	if text == "" {
		text = h.Owner
	}
	held := time.Since(h.Since)
	switch {
	case !h.Ended.IsZero():
		text += fmt.Sprintf(" (kept by KeepFor, ended %v ago)", roundAge(time.Since(h.Ended)))
		held = h.Ended.Sub(h.Since)
	case h.Kept():
		text += " (kept by KeepFor)"
	}
	if !h.Since.IsZero() {
		text += fmt.Sprintf(", for %v", roundAge(held))
	}
	if h.Note != "" {
		text += ": " + h.Note
	}
	return clean.Text(text, clean.Most)
}

// holderOf splits a holder ID. holderOf returns the key of the record of the holder's manager, and
// the number of the hold. ok is false if owner is not the holder ID of a manager.
func holderOf(owner string) (key, number string, ok bool) {
	manager, rest, found := strings.Cut(owner, ":")
	if _, err := uuid.Parse(manager); err != nil || !found || len(manager) != 36 {
		return "", "", false
	}
	number, _, _ = strings.Cut(rest, ":")
	return wire.ProcessKey(manager), number, number != "" && strings.Trim(number, "0123456789") == ""
}

// processKey returns the key of the record of the holder's manager, or "" if there is no need to
// look: the holder is no manager's, or the record of the lock has told of the process.
func (h Holder) processKey() string {
	key, _, ok := holderOf(h.Owner)
	if !ok || !h.Ended.IsZero() {
		return ""
	}
	return key
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

// A TakenPermit is a taken permit.
type TakenPermit struct {
	ID string // as Lock.PermitIDs returns it
	// TTL is the remaining life; negative if the permit does not expire.
	TTL time.Duration
	// Ours reports whether a hold of the manager that asked has the permit.
	Ours bool
	// Process, Since and Note say who has the permit, since when and what for: see Holder.
	Process Process
	Since   time.Time
	Note    string
}
