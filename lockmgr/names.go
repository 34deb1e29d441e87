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
	case wire.Tag(wire.Channel(name)) != wire.Tag(name):
		return fmt.Errorf("%w: its braces would put its channel into another slot than its key", ErrInvalidName)
	}
	return nil
}
