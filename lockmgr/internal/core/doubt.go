package core

// A doubt is open while an entry's record may be gone although no script has said so. A doubt ends
// when a script that was sent after the doubt arose finds the record.
type doubt struct {
	after uint64 // the newest script when the doubt was last raised; zero if there is no doubt
	n     int    // how often the doubt was raised again
}

// mostDoubts is how often an open doubt can be raised again. Each time, the handoff waits for one
// more script. A flood of messages must not keep the lock from its next holder.
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

// found notes that the script id has found the record. A doubt that arose before the script was
// sent ends.
func (d *doubt) found(id uint64) {
	if id > d.after {
		*d = doubt{}
	}
}
