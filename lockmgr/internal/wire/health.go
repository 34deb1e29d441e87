package wire

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// health records whether the server answers. health chooses the error of a wait that has ended.
// Which waits end is decided by the health in package core. Any goroutine may call the methods.
type health struct {
	quiet time.Duration // silence that counts as failing, if a command is under way

	mu         sync.Mutex
	unanswered int           // commands under way
	since      time.Duration // the newest answer, or the first send after a time with no command under way
	failure    *Failure      // of the newest batch to end, if it got no answer
	failedAt   time.Duration // when that was
	usual      time.Duration // a moving average of how long answers took; zero before the first
	lately     shortest      // of the last half minute
}

const (
	// leastQuiet is the shortest silence that can count as failing.
	leastQuiet = 50 * time.Millisecond
	// rememberFailure is how long a failure counts for later waits while no command is under way.
	// rememberFailure is longer than any pause between two tries.
	rememberFailure = 2 * time.Second
	// unusual is how many times as long as usual a silence must last to count as failing. A script
	// unknown to the server takes two round trips.
	unusual = 3
)

func newHealth(commandTimeout time.Duration) health {
	return health{quiet: max(commandTimeout/4, leastQuiet)}
}

// sent notes that n commands are under way from now on.
func (h *health) sent(n int, now time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unanswered == 0 {
		h.since = now
	}
	h.unanswered += n
}

// ended notes that n commands have ended. f is nil if the server answered any of the commands, even
// with an error.
func (h *health) ended(n int, now time.Duration, f *Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unanswered -= n
	if f != nil && now < h.since {
		return // another batch has been answered since
	}
	h.failure = f
	if f == nil {
		h.since = max(h.since, now)
	} else {
		h.failedAt = now
	}
}

// failed reports whether the newest batch to end got no answer.
func (h *health) failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure != nil
}

// took notes at now how long an answer took from the send of its command. renews is set for a
// renewal. A batch of many renewals may take long, so leastTrip counts a renewal only as the first
// answer. usual counts all answers.
func (h *health) took(d, now time.Duration, renews bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !renews || h.usual == 0 {
		h.lately.note(d, now)
	}
	if h.usual == 0 {
		h.usual = d
		return
	}
	h.usual += (d - h.usual) / 4
}

// leastTrip returns the shortest round trip of the last half minute, or zero before the first
// answer. Renewals after the first answer do not count. Load that does not last for half a minute
// makes no server look far away.
func (h *health) leastTrip() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lately.least()
}

// shortest is the shortest of the times that were noted in a period and in the period before.
type shortest struct {
	begun        time.Duration // when the period began
	this, before time.Duration // zero: none was noted
}

// period is half of the time for which a noted time counts.
const period = 15 * time.Second

func (s *shortest) note(d, now time.Duration) {
	if now-s.begun >= period {
		s.begun, s.before, s.this = now, s.this, 0
	}
	if s.this == 0 || d < s.this {
		s.this = d
	}
}

func (s *shortest) least() time.Duration {
	if s.this == 0 || s.before != 0 && s.before < s.this {
		return s.before
	}
	return s.this
}

// failing returns the failure for which a request that was made at asked is unanswered at now, or
// nil. The failure is of the kind Unavailable. There are two reasons:
//
//   - The newest batch to end got no answer, and one of three holds: the batch ended during
//     the wait, it ended within rememberFailure, or commands are under way, the first of them
//     sent no later than rememberFailure after that end.
//   - A command is under way, and nothing was answered for quiet, or for three quarters of the
//     wait (not for all of it: the command was sent a moment after the caller asked). A silence
//     below leastQuiet, or below three times what answers usually take, does not count.
func (h *health) failing(asked, now time.Duration) *Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	silence := now - h.since
	goesOn := h.unanswered > 0 && h.since-h.failedAt <= rememberFailure
	switch {
	case h.failure != nil && (goesOn || h.failedAt >= asked || now-h.failedAt <= rememberFailure):
		return h.failure
	case h.unanswered > 0 && silence >= max(leastQuiet, unusual*h.usual, min(h.quiet, (now-asked)*3/4)):
		return &Failure{Kind: Unavailable, Ran: core.Maybe, Hint: hintSilent, Err: fmt.Errorf("no answer for %v", silence.Round(10*time.Millisecond))}
	}
	return nil
}
