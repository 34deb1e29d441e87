package explore

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

const ms = time.Millisecond

// A Scene says what to explore: the requests, and the bounds on faults.
type Scene struct {
	Name string
	// Wants are the requests of each manager. Each is made once, at any time.
	// Equal requests of a manager are made in their order.
	Wants  [2][]Want
	Bounds Bounds
	// PassCount is Config.PassCount.
	PassCount int

	// plant, if not nil, changes the server's answers: the explorer's own tests
	// plant bugs with it.
	plant func(*world, *command, *answer)
}

// A Want is the kind of a request.
type Want struct {
	// Owner is the number of a named owner, or zero.
	Owner  uint64
	Fenced bool
	// Once asks for one try.
	Once bool
	// Lease is a fixed lease, or zero for a watched hold.
	Lease time.Duration
}

// Bounds say how far the explorer goes.
type Bounds struct {
	// Depth is the most choices in a path, States the most states. Zero means
	// no bound.
	Depth, States int
	// Detours is the most choices in a path that are not what the fair schedule
	// does next: something arrives out of order, a holder keeps the lock for a
	// time, a fault. A request is made at any time and is no detour. Zero means
	// no bound.
	Detours int
	// Faults is the most faults in a path, Each the most of one kind.
	Faults int
	Each   [faults]int
}

func (b *Bounds) String() string {
	var each []string
	for f, n := range b.Each {
		if n > 0 {
			each = append(each, fmt.Sprintf("%v %d", Fault(f), min(n, b.Faults)))
		}
	}
	s := fmt.Sprintf("faults %d in all (%s)", b.Faults, strings.Join(each, ", "))
	if b.Detours > 0 {
		s += fmt.Sprintf(", detours %d", b.Detours)
	}
	if b.Depth > 0 {
		s += fmt.Sprintf(", depth %d", b.Depth)
	}
	if b.States > 0 {
		s += fmt.Sprintf(", states %d", b.States)
	}
	return s
}

// A Fault is a kind of choice whose number is bounded.
type Fault uint8

// The faults. Cancel and Close are no faults, but bounded like them.
const (
	// Break: the manager is told that a command may have run. If it has not run
	// yet, it runs at any later time, or never. If it has, its reply is lost.
	Break Fault = iota
	// Refuse: the server refuses a command for now.
	Refuse
	// Forbid: the server refuses a command for good.
	Forbid
	// ReplyTwice: a copy of a reply comes at any later time.
	ReplyTwice
	MessageLost
	MessageTwice
	// Gap: the connection for messages is lost with everything on it, and is
	// connected again.
	Gap
	// Slow: time passes while a command or a message is under way.
	Slow
	// Pause: time passes although a Tick of a manager is due.
	Pause
	// Force: an administrator removes the record and publishes a message.
	Force
	// Cancel: a caller cancels its request.
	Cancel
	// Close: a manager is closed.
	Close

	faults = iota
)

func (f Fault) String() string {
	return [...]string{"break", "refuse", "forbid", "reply twice", "message lost", "message twice", "gap", "slow", "pause", "force", "cancel",
		"close"}[f]
}

// timeout is the longest that a manager waits for an answer.
const timeout = 1000 * ms

func (s *Scene) config() core.Config {
	return core.Config{
		Lease:       9000 * ms,
		Margin:      2 * ms,
		RetryTime:   5000 * ms,
		SuspectTime: 2000 * ms,

		PassCount:        max(1, s.PassCount),
		PassTime:         100 * ms,
		BackTime:         10 * ms,
		BlindPause:       20 * ms,
		FarPause:         120 * ms,
		RecordEvery:      5 * ms,
		TrustSubscribers: true,

		Linger: 50 * ms,
		// Polls are far off, so that none hides a lost wake-up.
		PollMax: time.Minute, PollBlind: time.Minute, PollSoon: time.Minute,

		MaxLocks: 4,
	}
}
