package lockmgr

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/actor"
	"github.com/holdfast-go/holdfast/lockmgr/internal/cluster"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
	"github.com/holdfast-go/holdfast/notify"
)

// A shell surrounds the core of a manager. The manager's goroutine, locks and methods share the
// shell.
type shell struct {
	id      *identity
	options Options
	clock   *clock
	// clustered is set for the manager of a cluster.
	clustered bool
	// manyServers is set if replies come from several servers: the masters of a cluster, or the
	// successive masters of Sentinels.
	manyServers bool

	actor *actor.Actor[message]
	lanes *wire.Lanes
	hubs  *hubs
	nodes *cluster.Nodes // of a cluster; nil without one

	events *dispatcher[Event]   // to the observer; nil without one
	lines  *dispatcher[logLine] // to the log handler; nil without one
	log    *slog.Logger         // writes to lines

	callbacks *dispatcher[func()] // of the futures

	lastID  atomic.Uint64 // the last ID of an owner or a request
	pending atomic.Int64  // requests that have not ended

	unreleased core.Unconfirmed // the release that was given up last; written before closed is closed
	withdrawn  chan struct{}    // see announcer.withdraw; written before closed is closed
	closed     chan struct{}    // closed when the core has nothing left
}

// A message is for the manager's goroutine: see loop.step.
type message any

type (
	// wakeup is an event of a watch. The loop asks for the next event after handling a wakeup, so a
	// flood of messages makes a single wakeup at a time.
	wakeup struct {
		event core.Wake
		watch *notify.Watch
		seq   uint64
	}
	// layoutMoved says that slots of the cluster have moved to other masters.
	layoutMoved struct{}
	// masterLeft says that a master serves no slot any more.
	masterLeft struct{}
	// subscriptionState is news of the connection for messages.
	subscriptionState struct {
		at     time.Time
		state  notify.State
		master string // empty for a single server
	}
)

// now returns the present instant.
func (s *shell) now() time.Duration { return s.clock.now() }

// downErr returns the error for which a request for a name, made at asked, is unanswered at now, or
// nil. The error matches ErrUnavailable, ErrReadOnly if the server refuses writes, or ErrReplicas
// if replicas did not answer.
func (s *shell) downErr(name string, asked, now time.Duration) error {
	return serverError(s.lanes.Failing(name, asked, now))
}

// joinDown adds the failure of a server to an error. down may be nil.
func joinDown(down, err error) error {
	if down != nil {
		return fmt.Errorf("%w: %w", down, err)
	}
	return err
}

// observed reports whether there is an observer to make events for.
func (s *shell) observed() bool { return s.events != nil }

// observe queues an event for the observer. observe never blocks.
func (s *shell) observe(e Event) {
	if d := s.events; d != nil {
		d.put(e)
	}
}

// observeCommand reports a command of the lane.
func (s *shell) observeCommand(o *wire.Observed) {
	s.events.put(EventCommand{At: time.Now(), Command: o.Command, Names: o.Names, Took: o.Took, Err: serverError(o.Failure)})
}

// newTrace begins the trace of a request, or returns nil if nobody observes the manager.
func (s *shell) newTrace(ctx context.Context) *trace {
	if s.events == nil {
		return nil
	}
	return &trace{ctx: ctx, asked: time.Now()}
}

// onSharded reports whether the manager listens on sharded channels.
func (s *shell) onSharded() bool { return s.clustered && s.options.Channels != ClassicChannels }

// grantSecret returns the secret for grants by message, or "" if there are to be none: a script of
// another manager does not wait for replicas, or can't tell whether this manager hears the message.
func (s *shell) grantSecret() string {
	if s.options.Replicas.Acks > 0 || !s.countsAll() {
		return ""
	}
	return s.id.secret
}

// countsAll reports whether the subscribers that a script counts include the subscribers of all
// managers. A node of a cluster knows its own classic subscribers only.
func (s *shell) countsAll() bool { return !s.clustered || s.onSharded() }

// prefixed returns a name with Options.Prefix before it, unless the name begins with Prefix. An
// empty name stays empty, as it is invalid.
func (s *shell) prefixed(name string) string {
	if name == "" || strings.HasPrefix(name, s.options.Prefix) {
		return name
	}
	return s.options.Prefix + name
}
