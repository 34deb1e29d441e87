// Package holdfastotel gives OpenTelemetry the waits and holds of locks, as spans and metrics.
//
//	telemetry, err := holdfastotel.New(holdfastotel.Options{Class: classOf})
//	if err != nil {
//		return err
//	}
//	mgr, err := lockmgr.Dial(option, lockmgr.Options{Observer: telemetry.Observe})
//	if err != nil {
//		return err
//	}
//	stop, err := telemetry.Watch(mgr)
//
// # Spans
//
// A request whose context has a span gets two children of that span: "lock wait" from the request
// to its grant or failure, and "lock hold" from the grant to the call of Unlock or the loss. The
// context is that of Lock, TryLock and Do, or of lockmgr.TraceContext. A request without a span
// makes none, unless Options.Roots is set.
//
// A re-entry has no wait, and its hold ends with its own Unlock.
//
// A span is made when it ends, with the instants of the manager: its parent may have ended before.
// Attributes: db.system.name "redis", holdfast.lock.name unless Options.HideNames is set,
// holdfast.lock.holder as lockmgr.Lock.HolderID returns it, holdfast.lock.passed of a wait, and
// holdfast.lock.token of a fenced one. A failure or a loss sets the status Error and error.type,
// one of lockmgr.Reasons.
//
// # Metrics
//
// All times are in seconds.
//
//	holdfast.lock.wait.duration   histogram       from the request to its lock or its failure
//	holdfast.lock.hold.duration   histogram       from the grant to the unlock or the loss
//	holdfast.command.duration     histogram       from the send of a command to its answer
//	holdfast.lock.losses          counter         holds that ended without an unlock
//	holdfast.lock.reentries       counter         grants to an owner that held the lock already
//	holdfast.renewal.failures     counter         leases that a command failed to renew
//	holdfast.lock.held            up-down counter holds
//	holdfast.request.waiting      up-down counter requests in line
//	holdfast.renewal.count        counter         leases that were renewed
//	holdfast.release.abandoned    counter         releases that could not be confirmed in time
//	holdfast.event.dropped        counter         events that the metrics above miss
//
// The last five come from Manager.Stats, between Watch and the call of its stop function, without
// which the meter keeps the manager for ever. holdfast.lock.class is what Options.Class makes of a
// name; without it there is no such attribute. A name is never an attribute of a metric by itself.
// A wait that ended without a lock, a command that failed and a loss have error.type. A wait has
// holdfast.lock.passed if it got its lock in memory.
package holdfastotel
