// Package holdfastprom gives the figures of a lock manager to Prometheus.
//
//	metrics, err := holdfastprom.New(holdfastprom.Options{Class: holdfastprom.BeforeColon})
//	if err != nil {
//		return err
//	}
//	mgr, err := lockmgr.DialURL(url, lockmgr.Options{Observer: metrics.Observe})
//	if err != nil {
//		return err
//	}
//	metrics.Watch(mgr)
//	return prometheus.Register(metrics)
//
// # Metrics
//
// All times are in seconds. Each metric has the label manager.
//
//	holdfast_wait_seconds                 histogram  class, result   from the request to its lock or its failure
//	holdfast_hold_seconds                 histogram  class           from the grant to the unlock or the loss
//	holdfast_grants_total                 counter    class, via      requests that got their lock
//	holdfast_failures_total               counter    class, reason   requests that ended without a lock
//	holdfast_losses_total                 counter    class, reason   holds that ended without an unlock
//	holdfast_command_seconds              histogram  result          from the send of a command to its answer
//	holdfast_renewal_failures_total       counter                    leases that a command failed to renew
//	holdfast_subscription_failures_total  counter                    connections for messages that broke
//
// The first use of a script on a server counts as one command with the result error, because the
// server does not know the script yet. Manager.Check causes one more. So do not alert on a single
// one.
//
// The metrics above come from events. The ones below come from Manager.Stats. They are there as
// soon as Watch was called.
//
//	holdfast_locks_held                   gauge      holds
//	holdfast_requests_waiting             gauge      requests in line
//	holdfast_renewals_total               counter    leases that were renewed
//	holdfast_releases_abandoned_total     counter    releases that could not be confirmed in time
//	holdfast_events_dropped_total         counter    events that the metrics above miss
//
// The values of the labels are:
//
//   - manager: Options.Manager.
//   - class: what Options.Class makes of the name of the lock.
//   - result of a wait: granted or failed. Of a command: ok, unavailable (no
//     answer) or error (another failure of the whole command).
//   - via: server, memory (from one owner of this manager to the next, without
//     the server) or reentry.
//   - reason of a failure: one of [Reasons]. Of a loss: lease, or closed if
//     Manager.Close ended the hold.
//
// A loss with the reason lease may be a fixed lease that ran out as planned: the events do not tell
// the two apart.
//
// A re-entry has no wait. Each handle of an owner counts in holdfast_hold_seconds when it is
// unlocked, those of re-entries too. A hold that is lost counts once, and so does one of several
// permits or of a set.
//
// The gauges have no class. Manager.Stats does not know classes, and gauges that are counted from
// events would be wrong for ever after an event was dropped.
//
// # How many series there are
//
// A name of a lock never becomes the value of a label, unless Options.Class returns it. The number
// of classes is bounded by Options.MaxClasses: further ones count as [OtherClass]. A class has 66
// series with the default buckets: three histograms of 17 and 15 counters. All of them exist from
// the first event of their class on, so that a rate sees the first loss.
//
// # Cost
//
// Observe runs on the goroutine that the manager has for its observer. It allocates nothing, except
// for the first event of a class and for failures.
package holdfastprom
