package wire

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// The keys and channels of a lock, as Redisson composes them. The key of the
// lock itself is its name.
const (
	ChannelPrefix = "redisson_lock__channel"
	TokenPrefix   = "redisson_lock_token"
)

// Channel returns the channel of a lock. It is in the slot of the lock's key.
func Channel(name string) string { return beside(ChannelPrefix, name) }

// ChannelOf returns the channel of a lock of some kind.
func ChannelOf(k core.Kind, name string) string { return beside(formats[k].channel, name) }

// KindName returns the name of a kind of lock.
func KindName(k core.Kind) string { return formats[k].name }

// TokenKey returns the key of a lock's token counter. It is in the slot of the
// lock's key.
func TokenKey(name string) string { return beside(TokenPrefix, name) }

// beside composes a key or channel in the same cluster slot as the lock's key.
func beside(prefix, name string) string {
	before, after := around(name)
	return prefix + before + name + after
}

// around returns what stands before and after a lock's name in the name of its
// channel or token counter.
func around(name string) (before, after string) {
	if strings.Contains(name, "{") {
		return ":", ""
	}
	return ":{", "}"
}

// tagged returns the name in braces, unless it has some, so that keys which begin with it are
// in the slot of the name.
func tagged(name string) string {
	if strings.Contains(name, "{") {
		return name
	}
	return "{" + name + "}"
}

// HolderID returns the field of hold n of a manager in the record of a lock.
func HolderID(manager string, n uint64) string {
	b := make([]byte, 0, 64)
	b = append(b, manager...)
	b = append(b, ':')
	return string(strconv.AppendUint(b, n, 10))
}
