package lockmgr

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// MaxNameBytes is the longest name a lock can have.
const MaxNameBytes = 64 << 10

// checkName refuses names whose channel would be in another slot than their key, and names of keys
// or channels that holdfast keeps beside locks. checkName runs before anything is sent. The errors
// leave the name to LockError.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%w: %d bytes, more than %d", ErrInvalidName, len(name), MaxNameBytes)
	case wire.IsReserved(name):
		return fmt.Errorf("%w: it is a key or a channel beside another lock", ErrInvalidName)
	case !strings.ContainsAny(name, "{}"):
		return nil
	case hashed(wire.Channel(name)) != hashed(name):
		return fmt.Errorf("%w: its braces would put its channel into another slot than its key", ErrInvalidName)
	}
	return nil
}

// hashed returns the part of a key that decides its slot in a cluster: the text between the first
// brace and the next closing brace, or the whole key if the text is empty.
func hashed(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
