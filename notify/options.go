package notify

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ErrInvalidOption is the error of New for a nil client, and for a negative value of an option that
// must not be negative.
var ErrInvalidOption = errors.New("notify: invalid option")

// Defaults of [Options].
const (
	DefaultRetryMin       = 10 * time.Millisecond
	DefaultRetryMax       = time.Second
	DefaultDialTimeout    = 5 * time.Second
	DefaultCommandTimeout = 2 * time.Second
	DefaultIdleTimeout    = time.Minute
)

// longest is what a longer time of Options counts as. Multiples of it do not overflow.
const longest = 365 * 24 * time.Hour

// Options are the settings of a [Hub]. Zero is the default of each field. New refuses a negative
// value with ErrInvalidOption, unless the field's comment gives it a meaning.
type Options struct {
	// Logger gets a line when the connection is opened or lost, and when the server refuses
	// channels. Further tries and further channels are at debug level. Its handler runs on the
	// hub's goroutine and must not block. Nil: nothing is logged.
	Logger *slog.Logger

	// RetryMin and RetryMax bound the pause before the next attempt to connect. The pause doubles
	// from RetryMin to RetryMax. Up to half the pause is subtracted at random, so that the clients
	// of a restarted server do not all come back at once. Zero: 10 ms and 1 s. A RetryMax below
	// RetryMin counts as RetryMin.
	//
	// The hub tries a refused channel again after RetryMax, and then ever more rarely, down to once
	// in 32 times RetryMax.
	RetryMin, RetryMax time.Duration

	// DialTimeout bounds the time to get a connection that works. The hub waits for the client's
	// pool, dials, does the handshake and waits for an answer to a PING, which takes several round
	// trips. After DialTimeout the hub is Down, and tries again. If the client's call still runs,
	// the next attempt waits for the same call. Zero: 5 s.
	DialTimeout time.Duration

	// CommandTimeout is the time within which the server must confirm all channels of a SUBSCRIBE,
	// or execute an UNSUBSCRIBE, which takes two round trips. After it the connection counts as
	// lost. Zero: 2 s.
	CommandTimeout time.Duration

	// IdleTimeout is how long the hub keeps the connection when no channel is watched any more. The
	// next Watch opens a new one. Zero: 1 min. Negative: the connection is kept until Close.
	IdleTimeout time.Duration

	// Node is the address of a node of a cluster: a key of the client's Nodes. The hub subscribes
	// there. While the client knows no such node, the hub is Down. If the client has a method
	// Node(addr string) (rueidis.Client, error), the hub calls the method instead of Nodes. The
	// method may block for DialTimeout. While the method returns an error, the hub is Down. Empty:
	// the client chooses.
	Node string

	// Sharded makes the hub use sharded channels (SSUBSCRIBE). All channels must be in slots that
	// Node serves. When a slot moves, the server ends the subscription: watchers get a ReasonGap,
	// and then a ReasonRefused, as the node refuses the channel from then on.
	Sharded bool

	// OnState, if set, is called when the connection's state has changed. OnState runs on the hub's
	// goroutine. OnState must not block and must not call [Hub.Close]. OnState may call [Hub.Stop].
	OnState func(State)
}

// withDefaults returns o with every unset field filled in.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, f := range []struct {
		p         *time.Duration
		byDefault time.Duration
	}{
		{&o.RetryMin, DefaultRetryMin}, {&o.RetryMax, DefaultRetryMax}, {&o.DialTimeout, DefaultDialTimeout},
		{&o.CommandTimeout, DefaultCommandTimeout}, {&o.IdleTimeout, DefaultIdleTimeout},
	} {
		*f.p = min(cmp.Or(*f.p, f.byDefault), longest)
	}
	o.RetryMax = max(o.RetryMax, o.RetryMin)
	return o
}

// check returns an error that matches ErrInvalidOption if a field must not be negative and is.
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
