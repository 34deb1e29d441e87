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
}

// plain is the special state of names that have none. Others embed it, for the methods
// in which they do not differ.
type plain struct{}

func (plain) dropped(*name) *details { return &noDetails }
func (plain) gathers() *gathering    { return nil }
func (plain) indexed() *index        { return nil }
func (plain) mostAsked(*Request) int { return 1 }
