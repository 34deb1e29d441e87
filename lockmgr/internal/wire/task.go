package wire

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// A task is something to be sent: an operation, or a command that does not concern the core.
type task struct {
	op   *core.Op
	call *call

	// at is the index of the task's command in the batch. index is the position of the operation in
	// a shared command, or alone.
	at, index int
}

const alone = -1

// A call is a command that does not concern the core.
type call struct {
	command Command
	done    func(Answer) // must not block; end calls it
	asked   time.Duration
	late    *time.Timer // calls Lane.overdue; Lane.mu guards it until a sender has the call
	taken   atomic.Bool // a sender has it
	ended   atomic.Bool
}

// end ends a call. The first answer counts.
func (c *call) end(a Answer) {
	if c.ended.CompareAndSwap(false, true) {
		c.done(a)
	}
}
