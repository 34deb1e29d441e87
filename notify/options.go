package notify

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrInvalidOption is the error of New for a negative option that has no meaning.
var ErrInvalidOption = errors.New("notify: invalid option")

// Defaults of [Options].
const (
	DefaultRetryMin       = 10 * time.Millisecond
	DefaultRetryMax       = time.Second
	DefaultDialTimeout    = 5 * time.Second
	DefaultCommandTimeout = 2 * time.Second
	DefaultIdleTimeout    = time.Minute
)

// Options tunes a [Hub]. Zero is the default of each field. New refuses a
// negative value with ErrInvalidOption, unless the field says what it means.
type Options struct {
	// Logger gets a line when the connection comes or goes and when the server
	// refuses a channel. Its handler runs on the hub's goroutine: it must not
	// block. Nil: silence.
	Logger *slog.Logger

	// RetryMin and RetryMax bound the pause before the next attempt to connect.
	// It doubles from one to the other and a random half of it is taken off, so
	// that many clients of one restarted server do not come back at once. Zero:
	// 10 ms and 1 s. A RetryMax below RetryMin counts as RetryMin.
	//
	// A channel that the server refuses is asked for again after RetryMax, and
	// ever more rarely, down to once in 32 RetryMax.
	RetryMin, RetryMax time.Duration

	// DialTimeout is how long it may take to get a connection that works: until
	// the client's pool has one to spare, it has been dialled, its handshake is
	// over and a PING is answered. That is several round trips. After it the
	// hub is down and tries again. A call of the client that has begun is not
	// repeated, the next attempt waits for the same one. Zero: 5 s.
	DialTimeout time.Duration

	// CommandTimeout is how long the server may take to confirm a SUBSCRIBE in
	// full, or to execute an UNSUBSCRIBE, which takes two round trips. After
	// that the connection counts as lost. Zero: 2 s.
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
	if o.RetryMin == 0 {
		o.RetryMin = DefaultRetryMin
	}
	if o.RetryMax == 0 {
		o.RetryMax = DefaultRetryMax
	}
	o.RetryMax = max(o.RetryMax, o.RetryMin)
	if o.DialTimeout == 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.CommandTimeout == 0 {
		o.CommandTimeout = DefaultCommandTimeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	return o
}

// check returns an error that matches ErrInvalidOption if a field is negative
// that must not be.
func (o *Options) check() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"RetryMin", o.RetryMin}, {"RetryMax", o.RetryMax}, {"DialTimeout", o.DialTimeout}, {"CommandTimeout", o.CommandTimeout},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: Options.%s is %v, want zero or more", ErrInvalidOption, f.name, f.value)
		}
	}
	return nil
}
