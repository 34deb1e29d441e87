package core

// special is the state that only names of one kind have. A name keeps it for as long as it
// is of that kind. Other files than those of the kind do not ask which one a name has: they
// call its methods. plain has the methods for kinds without such a state.
type special interface {
	// dropped returns the details of the name while it has none of its own. It is called
	// when the name drops its own: all its entries are idle.
	dropped(n *name) *details
	// gathers returns the gathering of the name, or nil if the kind knows none.
	gathers() *gathering
	// indexed returns the index of the name, or nil if the rules allow one entry.
	indexed() *index
	// mostAsked returns how many entries may be asked for at a time. first is the first
	// request that waits.
	mostAsked(first *Request) int

	// fill sets what only operations of the kind have. op is about to be sent for an entry.
	// spare is nil or a Line that may be used again.
	fill(m *Machine, e *entry, op *Op, spare *Line)
	// leftovers reports whether a script must remove something of the name on the server,
	// beside its entries, although nobody here waits.
	leftovers() bool

	// The methods below note what has happened.

	// requested is called first when a request comes. limit is that of permits.
	requested(limit int64)
	// queued is called when a request has joined the queue of the name.
	queued(n *name)
	// left is called when a request has left the queue, for a grant or without one.
	left(m *Machine, r *Request)
	// granted is called after left if the request is granted.
	granted(r *Request)
	// trying is called when a try is about to be sent.
	trying()
	// answered is called first for each answer, of whatever outcome.
	answered(m *Machine, r *Reply)
	// acquired is called when a try has got an entry.
	acquired(n *name)
	// refused is called when others have what a try was for.
	refused(e *entry, r *Reply)
	// transferred is called last when a transfer was confirmed.
	transferred(m *Machine, n *name)
	// givenUp is called when a release is given up.
	givenUp()
	// hears is called for each event of a channel. It returns what the event means for the
	// name, and false if it is one of a channel to which the name no longer subscribes.
	hears(n *name, ev Wake) (Wake, bool)
	// signal is called for an event of a channel that comes while a try is in flight.
	signal(ev Wake)
	// unsubscribed is called when the subscription of the name ends.
	unsubscribed(m *Machine, n *name)
}

// plain is the special state of names that have none. Others embed it, for the methods
// in which they do not differ.
type plain struct{}

func (plain) dropped(*name) *details { return &noDetails }
func (plain) gathers() *gathering    { return nil }
func (plain) indexed() *index        { return nil }
func (plain) mostAsked(*Request) int { return 1 }

func (plain) fill(*Machine, *entry, *Op, *Line) {}
func (plain) leftovers() bool                   { return false }

func (plain) requested(int64)              {}
func (plain) queued(*name)                 {}
func (plain) left(*Machine, *Request)      {}
func (plain) granted(*Request)             {}
func (plain) trying()                      {}
func (plain) answered(*Machine, *Reply)    {}
func (plain) acquired(*name)               {}
func (plain) refused(*entry, *Reply)       {}
func (plain) transferred(*Machine, *name)  {}
func (plain) givenUp()                     {}
func (plain) signal(Wake)                  {}
func (plain) unsubscribed(*Machine, *name) {}

func (plain) hears(_ *name, ev Wake) (Wake, bool) { return ev, ev.Place == 0 }
