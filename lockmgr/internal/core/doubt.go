package core

// A doubt is open while the record may be gone although no script has said so. It
// ends when a script that was sent after it arose finds the record.
type doubt struct {
	after uint64 // the last script before the doubt; zero if there is none
	n     int    // messages since then that raised it again
}

// mostDoubts is how often a handoff waits for a further script because of a
// message that came while it waited. A flood must not keep the lock from its
// next holder.
const mostDoubts = 2

// open reports whether there is a doubt.
func (d *doubt) open() bool { return d.after != 0 }

// raise notes a reason to doubt. last is the ID of the newest script.
func (d *doubt) raise(last uint64) {
	if d.after != 0 {
		d.n++
	}
	if d.n <= mostDoubts {
		d.after = last
	}
}

// found notes that a script has found the record.
func (d *doubt) found(id uint64) {
	if id > d.after {
		*d = doubt{}
	}
}
