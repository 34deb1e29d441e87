package core

// special is the state that only names of one kind have. A name keeps the state while the name is
// of the kind. The file of a kind has its special state. Code elsewhere calls the methods of
// special, and functions of places.go, permits.go and set.go that do nothing for names of other
// kinds. noSpecial has the methods for kinds without a special state.
type special interface {
	// dropped returns the details that a name has until makeDetails: after dropDetails, or after a
	// change of its kind. All entries of the name are idle.
	dropped(n *name) *details
	// take gives the first request the number that a message has granted, and reports whether the
	// request may have the lock under the number.
	take(n *name, number uint64) bool
	// fill sets the fields of op that only the kind has. op is about to be sent for an entry. spare
	// is nil or a PlaceOp that may be used again.
	fill(m *Machine, e *entry, op *Op, spare *PlaceOp)
	// leftovers reports whether a script must remove something of the name on the server, beside
	// its entries, because nobody here waits.
	leftovers(n *name) bool

	// The methods below note what has happened.

	// answered is called first for each answer, of whatever outcome.
	answered(m *Machine, r *Reply)
	// acquired is called when a try has got an entry.
	acquired(n *name)
	// refused is called when others have what a try was for.
	refused(m *Machine, e *entry, r *Reply)
	// givenUp is called when a release is given up.
	givenUp()
	// means is called for each event of a channel, and returns what the event means for the name.
	// means returns false if the name no longer subscribes to the event's channel.
	means(n *name, ev Wake) (Wake, bool)
	// told is called for each event that means has returned. The server may have told this manager
	// of something for which no entry waits.
	told(m *Machine, n *name, ev Wake)
	// hear is called when a request has to wait for others. The name is subscribed, unless the
	// manager is closing.
	hear(m *Machine, n *name)
	// unsubscribed is called when the subscription of the name ends.
	unsubscribed(m *Machine, n *name)
}

// specialOf returns the special state of a name if the state is a T, or else nil.
func specialOf[T special](n *name) T {
	s, _ := n.details.special.(T)
	return s
}

// noSpecial is the special state of names that need none. Special states embed noSpecial, for the
// methods in which they do not differ.
type noSpecial struct{}

func (noSpecial) dropped(*name) *details               { return &noDetails }
func (noSpecial) take(*name, uint64) bool              { return false }
func (noSpecial) fill(*Machine, *entry, *Op, *PlaceOp) {}
func (noSpecial) leftovers(*name) bool                 { return false }

func (noSpecial) acquired(*name)                   {}
func (noSpecial) refused(*Machine, *entry, *Reply) {}
func (noSpecial) givenUp()                         {}
func (noSpecial) told(*Machine, *name, Wake)       {}
func (noSpecial) hear(*Machine, *name)             {}
func (noSpecial) unsubscribed(*Machine, *name)     {}

// answered gives a name details of its own if its release has left subscribers. Clients that stand
// in no line may wait, though this manager was never refused.
func (noSpecial) answered(m *Machine, r *Reply) {
	if n := r.Op.entry.of; r.Op.Verb == VerbRelease && r.OK && r.Subscribers > 0 && !n.hasDetails() {
		n.makeDetails().special.answered(m, r) // no longer noSpecial
	}
}

func (noSpecial) means(_ *name, ev Wake) (Wake, bool) { return ev, ev.Place == 0 }
