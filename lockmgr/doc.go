// Package lockmgr takes and keeps locks on Redis or Valkey for any number of
// goroutines, and shares them with Redisson.
//
//	mgr, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: addrs}, lockmgr.Options{})
//	f := mgr.LockAsync("orders:42") // never blocks
//	select {
//	case <-f.Done():
//		lock, err := f.Result()
//	case <-time.After(time.Second):
//		f.Cancel() // a grant that races the cancel is given back
//	}
//
// # The design
//
//	caller ──▶ mailbox ──▶ ┌── one goroutine ──┐ ── scripts ──▶ two senders ──▶ Redis
//	  ▲                    │ core: the rules   │ ◀── replies ──┘
//	  └── future ◀──────── │ locks · waiters · │ ◀── wake-ups ── notify ◀── pub/sub
//	                       │ renewals          │
//	                       └───────────────────┘
//
// One goroutine owns all lock state. Callers send it messages and hold
// futures; it answers by settling them. The rules themselves are a pure state
// machine (internal/core, whose documentation has the diagram and the failure
// table); this package is the shell that moves messages: loop.go carries out
// effects, executor.go and batch.go turn them into batches of scripts, redis.go
// is all that knows the client. Locks that are asked for, or given back, at about
// the same time share a script of up to 64 locks, which saves the server half of
// the work; a lock that fails in it fails alone. Goroutines and timers do not grow with locks or
// waiters.
//
// A waiter of the same manager gets the lock in memory, in the order of
// requests, and Redis is told in passing. A waiter of another process is woken
// by a message, and the first in line of each process tries.
//
// # What is promised
//
// At every instant at most one handle of a name is valid ([Lock.Valid]), and
// [Lock.Lost] is closed no later than the instant until which ownership could
// be vouched for, as long as: one server keeps the data it acknowledged; its
// clock does not jump, and runs within 1 % of ours; and only clients of this
// protocol touch the keys. A dead process's locks are free after their lease.
// No wait outlives its context, and nothing outlives Unlock, a cancel or
// Close.
//
// It is not promised that a holder who is paused, or whose write is already on
// its way, does no harm after it lost the lock: only the resource itself can
// refuse it, by [Lock.Token]. Nor is anything promised across a failover or a
// restart that loses data.
//
// # Deadlines
//
// A grant or a renewal is good for its lease less 1 % and Options.Margin,
// counted from before the command was sent, on the monotonic clock. A slow
// reply does not stretch it. On Linux the time that the host was suspended
// counts too: [Lock.Valid] knows of it at once, and [Lock.Lost] is closed within
// a second of the end of the suspension, since timers stood still. The watchdog renews every third of Options.Lease;
// a lock taken with [Lease] is not renewed and ends by itself.
//
// # Cancellation
//
// A method with a context returns when the context ends; what it had begun
// goes on or is undone in the background. A call that needs no waiting
// succeeds even if its context ends meanwhile. No caller's context reaches the
// connection.
//
// # Callbacks
//
// Options.Observer and the callbacks of futures (OnDone) run on the manager's
// goroutine. While one runs, nothing else does, renewals included: it must
// return quickly, use UnlockAsync and LockAsync rather than what waits, and
// not panic.
//
// # Errors
//
// All errors match one of the package's Err variables by errors.Is, or that of
// the context that ended. What the server said comes as a [ServerError] with a
// hint. Bad arguments fail at once
// and send nothing. While the server can't be reached, waiting requests are
// told after Options.RetryTime, TryLock at once.
//
// # In Redis
//
// The layout is Redisson's. The key is the name: a hash of one field
// "<manager uuid>:<number>" with value 1, and always a TTL. Waiters listen on
// "redisson_lock__channel:{name}" (without the braces if the name has one),
// where an unlock publishes "0". Tokens are counted at
// "redisson_lock_token:{name}".
package lockmgr
