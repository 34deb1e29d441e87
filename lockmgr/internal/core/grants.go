package core

import "time"

// grants are the grants by message of a name.
//
// A script that finds the lock free may record a waiter of another manager as the holder, and
// publish a grant on the channel of that manager. The record lives for GrantLease at first. If the
// hold lasts, a renewal after an eighth of GrantLease gives the hold the lease that the hold wants.
//
// A message may be old, so the hold is trusted from an instant that is no later than the script:
//
//	since = Sent + 99 % of Elapsed
//	until = since + 99 % of GrantLease − margin
//
// Sent is the send of a script of this manager that ran before on the same server. Elapsed is the
// time between the two scripts by the clock of the server, which may be 1 % fast. Example: the
// script was sent at 10 s, and the grant says that 500 ms have passed: since is 10.495 s, even if
// the message comes at 11 s.
//
// The script compares no clocks of two servers: see fair.lua.
//
// Some grants are hints, like any message. After a hint an acquire asks the server, and finds the
// record. A grant is a hint if it
//
//   - has a number that no request of the manager can take
//   - counts from the future
//   - is older than a third of its lease
//   - counts from a script that is older than the newest script that has run: that script may have
//     removed the record
type grants struct {
	newest Grant         // the newest grant that was not used, or zero
	ran    time.Duration // the send of the newest script that has run, by the answers
}

// isHint reports whether a grant with the number of the next hold is a hint all the same. since is
// the instant from which the hold would be trusted.
func (g *grants) isHint(grant Grant, since, now time.Duration, cfg *Config) bool {
	return grant.Sent < g.ran || since > now || now-since > cfg.usable(grant.Lease)/3
}

// ranAt notes that a script has run that was sent at an instant.
func (g *grants) ranAt(sent time.Duration) { g.ran = max(g.ran, sent) }
