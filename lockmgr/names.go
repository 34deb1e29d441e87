package lockmgr

import (
	"fmt"
	"strings"
)

// MaxNameBytes is the longest name a lock can have.
const MaxNameBytes = 512

// The keys and channels of a lock, as Redisson composes them. The key of the
// lock itself is its name.
const (
	channelPrefix = "redisson_lock__channel"
	tokenPrefix   = "redisson_lock_token"
	reserved      = "redisson_"
)

func channelOf(name string) string  { return beside(channelPrefix, name) }
func tokenKeyOf(name string) string { return beside(tokenPrefix, name) }

// beside composes a name that a cluster keeps in the slot of the lock's key.
func beside(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// checkName refuses names that could not be unlocked or that another lock's
// keys could collide with. It runs before anything is sent.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: %d bytes, more than %d", ErrInvalidName, len(name), MaxNameBytes)
	case strings.HasPrefix(name, reserved):
		return fmt.Errorf("%w: %q begins with %q, as the keys beside a lock do", ErrInvalidName, name, reserved)
	case strings.ContainsAny(name, "{}") && hashed(channelOf(name)) != hashed(name):
		return fmt.Errorf("%w: the braces in %q would put its channel into another slot than its key", ErrInvalidName, name)
	}
	return nil
}

// hashed is the part of a key that decides its slot in a cluster: what stands
// between the first brace and the next closing one, if that is not empty.
func hashed(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
