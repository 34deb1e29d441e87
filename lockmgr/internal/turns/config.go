package turns

import (
	"io"
	"time"
)

// A Config describes one case.
type Config struct {
	Seed    uint64
	Clients []Client
	// Hold is how long a caller holds the lock.
	Hold time.Duration
	// Time is how long the case runs. With Drain it is the most that it may take.
	Time time.Duration
	// Drain makes each caller take the lock once. All of them wait while a stranger holds the lock
	// for the first second; times count from its release. The case ends when the last caller has
	// unlocked.
	Drain bool
	// Hop is the extra time of each change of goroutine or thread, beside the few microseconds of
	// an idle machine. In a manager these are the ways from a reply or an event to its goroutine,
	// from there to the sender, and from a message to the watch of its channel. In a direct client
	// they are the ways from a reply or a message to the thread, and from there to the sender. Each
	// takes Hop/2 to Hop; one in four takes up to Hop more, one in four of these up to Hop more
	// again, and so on.
	Hop time.Duration
	// Trace, if not nil, gets a line for each event that concerns turns.
	Trace io.Writer
}

// A Client is one process that wants the lock.
type Client struct {
	// Name is its name in tables.
	Name string
	// Callers is how many of its goroutines or threads take turns.
	Callers int
	// Direct makes it a client without a handoff in memory. Without callers it only subscribes.
	Direct bool
	// Late is when the callers of a direct client begin.
	Late time.Duration
	// Distance is the time of one way between client and server, without jitter. Zero means nearby.
	Distance time.Duration
	// Deaf reports whether its SUBSCRIBE gets no answer.
	Deaf bool
}

// Delays. Of a pair, the first is the shortest and the second the longest.
const (
	nearby     = 25 * time.Microsecond // one way on one machine
	nearJitter = 15 * time.Microsecond // at most, on top of it

	scriptMin, scriptMax = 10 * time.Microsecond, 20 * time.Microsecond
	callerMin, callerMax = 3 * time.Microsecond, 10 * time.Microsecond // from an effect to the caller's next event
	loopMin, loopMax     = 1 * time.Microsecond, 3 * time.Microsecond  // from an event to the manager's goroutine
	// An idle Go process waits for timers by the millisecond.
	timerMin, timerMax = 50 * time.Microsecond, 1050 * time.Microsecond
)
