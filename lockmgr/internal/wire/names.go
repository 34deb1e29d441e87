package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// The keys and channels beside the key of a lock, as Redisson composes them: a prefix and the name,
// or the name and a suffix. The key of the lock itself is its name. IsReserved knows all prefixes
// and suffixes.
const (
	ChannelPrefix   = "redisson_lock__channel"
	rwChannel       = "redisson_rwlock"
	permitsChannel  = "redisson_sc"
	TokenPrefix     = "redisson_lock_token"
	queuePrefix     = "redisson_lock_queue"   // the queue of a fair lock, and what is beside it
	deadlinePrefix  = "redisson_lock_timeout" // the deadlines of the waiters in the queue
	latchPrefix     = "redisson_unlock_latch" // the result of one unlock, of Redisson only
	takenSuffix     = ":timeout"              // the permits that are taken
	lineSuffix      = ":line"                 // the managers that wait for permits: see line.lua
	wantsSuffix     = ":wants"                // and how many each wants
	lockLineSuffix  = ":lock_line"            // the managers that wait for a plain or read-write lock: see plain.lua
	lockWantsSuffix = ":lock_wants"           // and what each wants
	tagLineSuffix   = ":tag_line"             // the same of a lock whose name has braces
	tagWantsSuffix  = ":tag_wants"
	readHoldSuffix  = ":rwlock_timeout:" // a number follows
	waitsSuffix     = ":waits"           // behind the key of a queue: see waitsKey
	absentSuffix    = ":absent"          // the same: see absentKey
	ProcessPrefix   = "holdfast:manager:"
)

var (
	prefixes = [...]string{ChannelPrefix, rwChannel, permitsChannel, TokenPrefix, queuePrefix, deadlinePrefix, latchPrefix}
	suffixes = [...]string{takenSuffix, lineSuffix, wantsSuffix, lockLineSuffix, lockWantsSuffix, tagLineSuffix, tagWantsSuffix, waitsSuffix, absentSuffix}
)

// IsReserved reports whether a name has the form of a key or a channel that is no lock: a prefix, a
// colon and a name with a brace; a name with a brace and a suffix; or the key of a process record.
// The queue of "{a}:waits" would be the key that waitsKey returns for "a".
func IsReserved(name string) bool {
	if strings.HasPrefix(name, ProcessPrefix) {
		return true
	}
	if !strings.Contains(name, "{") {
		return false
	}
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasPrefix(rest, ":") && strings.Contains(rest, "{") {
			return true
		}
	}
	for _, suffix := range suffixes {
		if before, ok := strings.CutSuffix(name, suffix); ok && strings.Contains(before, "{") {
			return true
		}
	}
	i := strings.LastIndex(name, readHoldSuffix)
	if i < 0 {
		return false
	}
	before, number := name[:i], name[i+len(readHoldSuffix):]
	return strings.Contains(before, "{") && number != "" && strings.Trim(number, "0123456789") == ""
}

// Channel returns the channel of a lock, which is in the slot of the lock's key.
func Channel(name string) string { return beside(ChannelPrefix, name) }

// TokenKey returns the key of a lock's token counter, which is in the slot of the lock's key.
func TokenKey(name string) string { return beside(TokenPrefix, name) }

// ownKey returns the key that belongs to a single reader of a read-write lock. For other holders
// ownKey returns the name, so that each lock of a command has the same number of keys.
func ownKey(kind core.Kind, side core.Side, name, holder string) string {
	if kind != core.ReadWrite || side != core.Shared {
		return name
	}
	return tagged(name) + ":" + holder + readHoldSuffix + "1"
}

// QueueKey returns the key of the queue of a fair lock, which is the list of the waiters.
func QueueKey(name string) string { return beside(queuePrefix, name) }

// DeadlinesKey returns the key of the deadlines of the waiters for a fair lock.
func DeadlinesKey(name string) string { return beside(deadlinePrefix, name) }

// waitsKey returns the key of a hash with the waits of Redisson's clients and the number of the
// newest script of each manager: see fair.lua.
func waitsKey(name string) string { return QueueKey(name) + waitsSuffix }

// absentKey returns a key that never exists, in the slot of the name: see fair.lua.
func absentKey(name string) string { return QueueKey(name) + absentSuffix }

// PlaceChannel returns the channel on which a client of Redisson wakes place n of a manager.
func PlaceChannel(manager, name string, n uint64) string {
	return Channel(name) + ":" + FairHolderID(manager, n)
}

// lineKey returns the key of the list of the managers that wait for permits of a name.
func lineKey(name string) string { return tagged(name) + lineSuffix }

// wantsKey returns the key of the hash that says how many permits each manager of the line wants.
func wantsKey(name string) string { return tagged(name) + wantsSuffix }

// TakenKey returns the key of the set of the permits of a name that are taken.
func TakenKey(name string) string { return tagged(name) + takenSuffix }

// TakenPattern matches all keys that TakenKey returns. With more text behind the star, a long key
// would cost the server the product of the two lengths.
const TakenPattern = "*" + takenSuffix

// NameOfTaken returns what comes before the suffix of TakenKey in key. ok is false if key does not
// end with the suffix.
func NameOfTaken(key string) (before string, ok bool) { return strings.CutSuffix(key, takenSuffix) }

// ProcessKey returns the key of the record that says which process a manager is part of. The key
// ends with the first 16 hexadecimal digits of the manager's UUID, because the ID of a permit has
// only the first 16.
func ProcessKey(manager string) string {
	return ProcessPrefix + hex.EncodeToString(permitOwner(manager))
}

// beside returns a key or a channel that is in the same cluster slot as the lock's key.
func beside(prefix, name string) string {
	before, after := around(name)
	return prefix + before + name + after
}

// around returns the text before and the text after a lock's name in the name of the channel or the
// token counter.
func around(name string) (before, after string) {
	if strings.Contains(name, "{") {
		return ":", ""
	}
	return ":{", "}"
}

// tagged returns the name in braces, or the name itself if the name has an opening brace. Keys that
// begin with the result are in the slot of the name.
func tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// HolderID returns the ID of hold n of a manager, which is a field in the record of a lock.
func HolderID(manager string, n uint64) string {
	b := make([]byte, 0, 64)
	b = append(b, manager...)
	b = append(b, ':')
	return string(strconv.AppendUint(b, n, 10))
}

// fairEnd is the end of the holder IDs of fair locks. By fairEnd the scripts recognize the places
// of this library in a queue.
const fairEnd = ":f"

// FairHolderID returns the ID of hold n of a manager of a fair lock. The place of the hold's
// request in the queue has the same ID.
func FairHolderID(manager string, n uint64) string { return HolderID(manager, n) + fairEnd }

// IsFair reports whether a holder ID is for a fair lock of this library.
func IsFair(id string) bool { return strings.HasSuffix(id, fairEnd) }

// permitOwner returns the first bytes of the IDs of a manager's permits.
func permitOwner(manager string) []byte {
	if b, err := hex.DecodeString(strings.ReplaceAll(manager, "-", "")); err == nil && len(b) == 16 {
		return b[:8]
	}
	sum := sha1.Sum([]byte(manager))
	return sum[:8]
}
