package notify

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/clean"
)

// warnAgain is the least time between two warnings. So a connection that breaks again and again
// does not flood the log. The warning of an outage that begins in between waits for warnAgain to
// pass.
const warnAgain = 15 * time.Second

// An outage is the time in which there is no connection, though channels are wanted. The first
// failure is a warning, and the end is logged. The failures in between are at debug level. If no
// channel is wanted for a while, nobody tries, so the length of the outage is not known.
type outage struct {
	begin    time.Time // zero: there is none
	failures int
	warned   bool
	endDue   bool // a warning was logged, and no end since
	unwanted bool // no channel was wanted for a while
}

// logLoss logs that the connection was lost, or could not be opened. The next try is after retry.
func (c *connection) logLoss(err error, retry time.Duration) {
	o := &c.outage
	if o.begin.IsZero() || o.unwanted {
		*o = outage{begin: c.core.now, endDue: o.endDue}
	}
	o.failures++
	level := slog.LevelDebug
	if !o.warned && (c.warnedAt.IsZero() || c.core.now.Sub(c.warnedAt) >= warnAgain) {
		o.warned, o.endDue, c.warnedAt, level = true, true, c.core.now, slog.LevelWarn
	}
	c.core.opts.Logger.Log(context.Background(), level, "notify: connection lost", "connection", c.epoch, "up", c.up, "retry", retry, "error", clean.Error(err))
	c.noteUnwanted()
}

// noteUnwanted notes that no channel is wanted.
func (c *connection) noteUnwanted() { c.outage.unwanted = c.outage.unwanted || c.wanted == 0 }

// logConnected logs that a connection is up, and how long there was no connection.
func (c *connection) logConnected() {
	attrs, level := []any{"connection", c.epoch, "channels", c.wanted}, slog.LevelInfo
	o := c.outage
	if !o.begin.IsZero() && !o.unwanted {
		attrs = append(attrs, "after", c.core.now.Sub(o.begin).Round(time.Millisecond), "failures", o.failures)
	}
	if !o.begin.IsZero() && !o.endDue {
		level = slog.LevelDebug
	}
	c.outage = outage{}
	c.core.opts.Logger.Log(context.Background(), level, "notify: connected", attrs...)
}

// reported holds which warnings were logged for the connection.
type reported struct{ refused, unsubscribe bool }

// logRefused logs that the server refused a channel. The first refusal of a connection is a
// warning, and so is the first refusal after logAllowed has logged. Further refusals are at debug
// level, because a user whom the server refuses a channel is usually refused more channels.
func (c *connection) logRefused(channel string, err error) {
	level := slog.LevelDebug
	// The move of a slot is no trouble.
	if !c.reported.refused && !strings.HasPrefix(err.Error(), "MOVED") {
		c.reported.refused, level = true, slog.LevelWarn
	}
	c.core.opts.Logger.Log(context.Background(), level, "notify: subscribe refused", "channel", logName(channel), "error", clean.Error(err))
}

// logAllowed logs that the server has confirmed the last refused channel, if a refusal was logged
// as a warning.
func (c *connection) logAllowed(channel string) {
	if c.reported.refused {
		c.reported.refused = false
		c.core.opts.Logger.Info("notify: subscribe no longer refused", "channel", logName(channel))
	}
}

// logUnsubscribeRefused logs that the server refuses an UNSUBSCRIBE.
func (c *connection) logUnsubscribeRefused(channels int, err error) {
	level := slog.LevelDebug
	if !c.reported.unsubscribe {
		c.reported.unsubscribe, level = true, slog.LevelWarn
	}
	c.core.opts.Logger.Log(context.Background(), level, "notify: unsubscribe refused", "channels", channels, "error", clean.Error(err))
}

// logName returns a channel for a log line. logName leaves the channel unchanged, because the
// handler quotes where necessary. A channel with a character that could forge a line is quoted.
func logName(channel string) string {
	if !clean.Is(channel) {
		return strconv.Quote(channel)
	}
	return channel
}
