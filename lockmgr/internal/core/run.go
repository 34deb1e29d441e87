package core

import "time"

// A run is a row of grants of this manager, and what scripts have said of others meanwhile. If
// others want the name, a run ends after PassCount grants or PassTime: see runOver and outsiders.
type run struct {
	count int           // grants of this run, of all entries: upkeep.grants counts those of one
	start time.Duration // when the first of them was made

	others int64 // how many others may want the name, by the last reply that said so; at first zero
	fresh  bool  // others was reported by a transfer of this run
	// noOthers is set if the last transfer since the entry came to us reported no others. others is
	// also zero if no reply, or only the answer to a release, has said so.
	noOthers bool
}

// grant counts a grant.
func (r *run) grant(now time.Duration) {
	if r.count++; r.count == 1 {
		r.start = now
	}
}

// begin begins a new run.
func (r *run) begin(now time.Duration) { r.count, r.start, r.fresh = 0, now, false }

// ended reports whether the run has most grants, or has lasted for PassTime.
func (r *run) ended(most int, now time.Duration, cfg *Config) bool {
	return r.count >= most || r.count > 0 && now-r.start >= cfg.PassTime
}
