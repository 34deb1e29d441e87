package lockmgr

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// MaxNameBytes is the longest name a lock can have.
const MaxNameBytes = 64 << 10

// besidePrefixes are the prefixes of the keys and channels that Redisson's
// locks of any kind have beside the lock's own key.
var besidePrefixes = [...]string{
	wire.ChannelPrefix, wire.TokenPrefix,
	"redisson_lock_queue", "redisson_lock_timeout", // fair locks
	"redisson_rwlock",       // read-write locks: the channel
	"redisson_sc",           // permits: the channel
	"redisson_unlock_latch", // the result of one unlock
}

// besideSuffixes are the ends of the keys that permits and fair locks have beside their own
// key.
var besideSuffixes = [...]string{":timeout", ":gathers", ":waits"}

// readHold begins the last part of the key of one read hold of a read-write lock:
// "{name}:<owner>:rwlock_timeout:<number>".
const readHold = ":rwlock_timeout:"

// checkName refuses names whose channel would be in another slot than their key,
// and names that are another lock's own keys or channels. It runs before anything
// is sent. Its errors leave the name to LockError.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: %d bytes, more than %d", ErrInvalidName, len(name), MaxNameBytes)
	case !strings.ContainsAny(name, "{}"):
		return nil // other keys and channels of a lock have braces
	case isBeside(name):
		return fmt.Errorf("%w: it is a key or a channel of another lock", ErrInvalidName)
	case hashed(wire.Channel(name)) != hashed(name):
		return fmt.Errorf("%w: its braces would put its channel into another slot than its key", ErrInvalidName)
	}
	return nil
}

// isBeside reports whether a name has the form of a key or a channel beside some
// lock's key: a prefix, a colon, and a name in braces or with a brace in it, or such a
// name and a suffix.
func isBeside(name string) bool {
	for _, prefix := range besidePrefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasPrefix(rest, ":") && strings.Contains(rest, "{") {
			return true
		}
	}
	for _, suffix := range besideSuffixes {
		if before, ok := strings.CutSuffix(name, suffix); ok && strings.Contains(before, "{") {
			return true
		}
	}
	before, number, ok := cutLast(name, readHold)
	return ok && strings.Contains(before, "{") && number != "" && strings.Trim(number, "0123456789") == ""
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// hashed returns the part of a key that decides its slot in a cluster: the text
// between the first brace and the next closing one, or all if that is empty.
func hashed(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
