package lockmgr

import (
	"context"
	"time"
)

// A trace holds what the events of a request report. A request has a trace, as the tag of its
// terms, only if there is an observer.
type trace struct {
	ctx      context.Context
	asked    time.Time
	granted  time.Time // zero before the grant
	unlocked time.Time // when Unlock was called
}
