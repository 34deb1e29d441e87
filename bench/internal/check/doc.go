// Package check decides, from what processes saw, whether a lock was held by two at a time. It
// knows nothing of Redis or of any client: its input is instants and tokens.
//
// # Time
//
// All instants are nanoseconds of one clock that the processes of a host share (CLOCK_MONOTONIC).
// Nothing here compares instants of two hosts.
//
// An instant is never taken at the moment that matters, only before or after it. Each rule below
// says which of the two it uses, so that the error always makes an interval shorter: what is
// reported did happen.
//
// # Belief
//
// A hold is what one owner has of one name, from a grant to its end. The grant of several names at
// once begins a hold of each. A handle says that it is valid (Valid), or for how long it is at
// least (Remaining): it believes. The interval in which it surely did is
//
//	From  a reading AFTER the first call that said "valid"
//	To    the latest of these readings, none later than the call of unlock:
//	      BEFORE a call that said "valid"                       (it believed then)
//	      BEFORE a call that said "valid for r more", plus r    (the claim)
//
// The claim is what a handle promises without looking again: that it stays valid for r unless it is
// unlocked or the loss is told. So it counts even for a process that was stopped meanwhile, and it
// ends early in two cases: with the unlock, and when the handle was seen invalid before the claim
// was over. [Hold.Sample], [Hold.Unlocking] and [Hold.Lose] keep the account. If a process dies, To
// is what it had last reported as seen, without the claim: it may have unlocked in its last moment
// and not lived to tell.
//
// No two intervals of one name may intersect ([Beliefs]), unless both holds are
// Shared. The intervals are
// open: the end of one may be the begin of another. They may come in any order,
// hold after hold as they end; those of the last half minute are compared, and
// those that come even later are counted as unchecked.
//
// # The fenced register
//
// The register ([Register]) is the resource that a lock protects: a word in memory which all
// processes share and no fault of Redis reaches. It takes a write when the token is larger than the
// largest it has seen, or equal to it and from the same holder. All others it refuses: they are
// stale, and a refusal is what tokens are for.
//
// Two things must not happen:
//
//   - a holder whose write was refused is valid after the refusal. Somebody had
//     been granted a larger token, that is, the lock, while this one believed;
//   - an accepted overlap ([Writes]): a write is accepted of a holder while
//     another reigns. A hold reigns from the return of its first accepted
//     write to the end of its belief. It does not reign before that write: a
//     former holder whose write was under way when its lease ended may be
//     accepted as long as the resource has not seen the new token. No lock and
//     no token can prevent that, only the new holder, by writing first. The
//     write counts when its call and its return are both within the reign.
//
// # Histories
//
// The holds of one name are cut into chunks of 5,000, that is 10,000 operations, and each is given
// to porcupine with this model:
//
//	acquire(hold, token)   legal if nobody holds; a token is larger than all before
//	share(hold, token)     legal if all who hold share; a token is no smaller than all before
//	end(hold)              legal if this hold holds
//
//	acquire   within [asked, From]
//	end       unlocked, and the answer came: within [the call, its return]
//	          otherwise (lost, no answer, killed): within [To, for ever)
//
// A request that failed or of which nothing was heard is left out. That is sound, and so is
// cutting: holds of a legal history follow each other, so that the history without some of them is
// legal too. What is lost is power, not truth: a pair that is cut apart is not compared here, but
// its beliefs are. A failed try is not an operation as a try may fail for other reasons than a
// holder: others wait, or the server did not answer.
//
// A check has a time limit and may end without a result. That is counted by itself, and is no proof
// of anything.
//
// # Permits
//
// A hold of permits has one or more of them, all for the same time. At no instant may the holds of
// a name that believe have more permits than there are ([Beliefs], with a Limit).
//
// Such holds are in no history. An order of grants and ends is legal if no more permits are out
// than there are. A late grant and an early end can only help, and beliefs begin with the latest
// grant and end with the earliest end that are possible. So a history is legal exactly if the
// beliefs are within the limit.
package check
