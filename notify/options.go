package notify

import (
	"log/slog"
	"time"
)

// Defaults of [Options].
const (
	DefaultRetryMin       = 10 * time.Millisecond
	DefaultRetryMax       = time.Second
	DefaultCommandTimeout = 2 * time.Second
	DefaultIdleTimeout    = time.Minute
)

// Options tunes a [Hub]. The zero value is a good default.
type Options struct {
	// Logger gets a line when the connection comes or goes and when the server
	// refuses a channel. Nil: silence.
	Logger *slog.Logger

	// RetryMin and RetryMax bound the pause before the next attempt to connect.
	// It doubles from one to the other and a random half of it is taken off, so
	// that many clients of one restarted server do not come back at once. Zero
	// or less: 10 ms and 1 s.
	//
	// A channel that the server refuses is asked for again after RetryMax, and
	// ever more rarely, down to once in 32 RetryMax.
	RetryMin, RetryMax time.Duration

	// CommandTimeout is how long the server may take to accept a connection, or
	// to confirm a SUBSCRIBE in full. After that the connection counts as lost.
	// Zero or less: 2 s.
	CommandTimeout time.Duration

	// IdleTimeout is how long the connection is kept when no channel is watched
	// any more. The next Watch opens a new one. Zero: 1 min. Negative: it is
	// kept until Close.
	IdleTimeout time.Duration

	// OnState, if set, is called when the connection's state has changed. It
	// runs on the hub's goroutine: it must not block, and must not call
	// [Hub.Close] (Stop is fine).
	OnState func(State)
}

// withDefaults returns o with every unset field filled in.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RetryMin <= 0 {
		o.RetryMin = DefaultRetryMin
	}
	if o.RetryMax <= 0 {
		o.RetryMax = DefaultRetryMax
	}
	o.RetryMax = max(o.RetryMax, o.RetryMin)
	if o.CommandTimeout <= 0 {
		o.CommandTimeout = DefaultCommandTimeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	return o
}
