// Package lockmgr takes and keeps locks on Redis or Valkey for any number of goroutines, and shares
// the locks with Redisson.
//
//	mgr, err := lockmgr.DialURL("redis://127.0.0.1:6379", lockmgr.Options{}) // one for the process
//	if err != nil {
//		return err
//	}
//	defer mgr.Close(context.Background())
//	return mgr.Do(ctx, "orders:42", func(ctx context.Context, lock *lockmgr.Lock) error {
//		return work(ctx) // ctx ends when the lock is lost
//	})
//
// [Manager.Do] runs a function under a lock, and [Manager.Lead] runs one while this process is the
// leader. [Manager.Lock] waits for a [Lock], [Manager.TryLock] tries once, and [Manager.LockAsync]
// returns a future and never blocks:
//
//	f := mgr.LockAsync("orders:42")
//	select {
//	case <-f.Done():
//		lock, err := f.Result() // then, as after Lock: lock.Do, or lock.Unlock
//		...
//	case <-time.After(time.Second):
//		f.Cancel() // a lock that nobody has taken from f is given back
//	}
//
// Without an option, a lock is plain. [Shared] and [Exclusive] ask for the sides of a read-write
// lock. [Fair] asks for a lock granted in the order in which requests arrive, over all processes.
// [Manager.LockAll] takes several locks at once, or none. [Manager.Permits] is a counting
// semaphore. docs/calls.md says what to write for which need.
//
// A waiter of the same manager gets the lock in memory, in the order of requests. A waiter of
// another process is granted the lock by a message of the release. Managers wait in a line on the
// server: after Options.PassCount grants or Options.PassTime the next manager has the lock. The
// number of goroutines and timers does not grow with locks or waiters.
//
// # What is promised
//
// At most one owner at a time has a valid handle ([Lock.Valid]) of a plain lock or of the write
// side of a read-write lock. The promise holds as long as the name's server keeps the data it
// acknowledged, the server's clock does not jump and runs within 1 % of ours, and only clients of
// the same protocol touch the keys. A paused holder may still write after losing the lock. Only the
// resource can refuse such a write, by [Lock.Token]. docs/guarantees.md has all promises, and what
// is not promised.
//
// # Deadlines
//
// A grant or a renewal is good for the lease less 1 % and Options.Margin, counted from before the
// command was sent, on the monotonic clock. A slow reply does not extend the lease. On Linux the
// time of a suspension of the host counts too: [Lock.Valid] is false at once, and [Lock.Lost] is
// closed within a second of the end of the suspension, since timers stood still.
//
// The watchdog renews about every third of Options.Lease, until [MaxHold] if set. A lock taken with
// [FixedLease] is not renewed and ends by itself, unless [Lock.Extend] prolongs the lock. If a
// fixed lease is longer than Options.Lease, a renewal after the grant sets the lease; until the
// renewal is confirmed, the lock is good for Options.Lease.
//
// [KeepFor] keeps the name locked after the hold. [MaxWait] bounds the wait. MaxWait(0),
// [OnlyIfFree] and [Manager.TryLock] try once.
//
// # Cancellation
//
// A method with a context returns when the context ends; the work goes on or is undone in the
// background. Only Do and DoAll wait for their function and the unlock. If the context has ended
// and the result is there, too, the method returns the result. No caller's context reaches the
// connection.
//
// A granted lock has a single keeper. The lock belongs to its future until somebody takes the lock:
// a Result or an Await that returns the lock, or a callback, as soon as the callback is queued.
// Cancel gives back a lock that nobody has taken. So do All and Any of package futures when they
// fail or are cancelled. A receive from Done does not take the lock. A caller that takes the lock
// must unlock the lock.
//
// # Callbacks
//
// Options.Observer and the handler of Options.Logger run on goroutines of their own, which exist
// while there is something to deliver. Events and log lines are queued in order. A slow Observer or
// handler delays nothing else: a full queue drops events and reports how many. Events carry the
// context of the request, for a tracer, and how long the request waited, how long a lock was held
// and how long each command took.
//
// The callbacks of futures (OnDone), and the drop functions given to All and Any of package
// futures, run on another goroutine of the same sort, in the order of the results and never
// concurrently. The queue of callbacks has no bound and drops nothing, because a callback may own a
// lock. A callback that blocks delays the callbacks behind it and their locks, but no renewal, no
// loss, and nobody who uses Await, Done or Result. A callback may call any method of the manager,
// but must not wait for a callback behind it. A callback must not panic. A callback registered
// after the result runs at once, on the goroutine that registers the callback. A future without
// callbacks costs nothing here.
//
// Close waits for these goroutines, 2 s at most and no longer than its context. Callbacks still in
// the queue run later.
//
// # Errors
//
// All errors match an Err variable of the package by errors.Is, or the error of the context that
// ended. An error about a single lock is a [LockError], which names the lock. An error reply of the
// server comes as a [ServerError] with a hint. Bad arguments fail at once and send nothing. While
// the server can't be reached, waiting requests fail within Options.RetryTime plus an
// Options.CommandTimeout, however many requests wait; TryLock fails when its command has failed. A
// hanging dial adds the dial time-out of the client. If the server was silent for most of a wait,
// and for 50 ms at least, the error matches ErrUnavailable and not ErrNotAcquired. [Temporary]
// reports whether another try may succeed.
//
// # Servers
//
// A manager works with a single server, with all masters of a Redis Cluster, or with the master of
// Sentinels. [Dial] finds out which, except with Options.ConnectLater. docs/clusters.md says what
// to set, and what happens at a failover. docs/redis.md has the keys, the channels and the
// permissions that a user needs.
package lockmgr

// # The shell
//
// This comment is for those who change the package.
//
// A single goroutine owns all lock state. Callers send messages to the goroutine and hold futures;
// the goroutine settles the futures. The rules are a pure state machine (internal/core, whose
// documentation has the diagram and the failure table). Package lockmgr is the shell that moves
// messages, and loop.go carries out effects. Package internal/wire sends the operations. Operations
// that come at about the same time share a script: acquires and releases of up to 64 plain locks
// without tokens, renewals of up to 128 locks of the same kind. Shared scripts halve the server's
// work. A lock that fails in a shared script fails alone.
//
// # Files
//
// Each file uses only files below its own line here. A test in internal/archtest checks the order.
//
//	redis.go        Dial and New, the only file that uses the client library
//	demoted.go      leaves a server that has become a replica
//	conns.go        the open connections of a client
//	scan.go         Scan, which finds locks on the server
//	check.go        Check, which rehearses the life of a lock
//	permissions.go  tries each command that locks need, and reads INFO
//	report.go       what Check reports
//	topology.go     what kind of server it is: alone, a replica, of a cluster or of Sentinels
//	inspect.go      Inspect, Explain and ForceUnlock
//	permits.go      counting semaphores
//	set.go          several locks at once
//	lead.go         one leader among several processes
//	do.go           Do, which calls a function under a lock
//	locks.go        Locks, which lists what this manager holds
//	known.go        the processes of holders, read from the server
//	call.go         commands that do not concern the core
//	manager.go      the Manager: requests, Stats and Close
//	loop.go         the goroutine that moves messages to the core and effects from it
//	announce.go     the record that says which process a manager is part of
//	survey.go       asks the manager's goroutine for its holds and requests
//	logbook.go      few log lines about many failures
//	lock.go         the Lock, and the ticket of its request
//	hold.go         the part of a hold that its Locks share
//	shell.go        the fields that the loop, the locks and the Manager share
//	hubs.go         the connections for messages
//	trace.go        the times and the context that events report
//	lockerror.go    LockError
//	holder.go       Holder and TakenPermit
//	deadlock.go     DeadlockError
//	reason.go       one word for an error
//	names.go        the rules for names
//	url.go          which URLs DialURL refuses
//	options.go      Options, and the options of one request
//	owner.go        Owner
//	process.go      the process that a manager is part of
//	observer.go     the events
//	errors.go       the Err variables, and ServerError
//	dispatcher.go   calls the observer, the log handler and the callbacks of futures
//	clock.go        the time since the start, with suspensions of the host
//	clock_linux.go  the clocks of Linux
//	clock_other.go  the clocks of other systems
