package core

// Kind is the kind of a lock. A name keeps its kind while an entry of the name is not idle. Each
// kind has a file of its own, which defines the Kind and its rules.
type Kind uint8

// MostKinds is how many kinds there are.
const MostKinds = 5

// rulesOf has the rules of each kind.
var rulesOf = [MostKinds]rules{Exclusive: exclusive{}, ReadWrite: readWrite{}, Several: several{}, Permits: permits{}, Fair: fair{}}

// rules has the methods that differ between kinds. A kind is a type without state. The methods read
// the state of a name and change nothing.
type rules interface {
	// joins reports whether a request may share an entry with the entry's holds.
	joins(e *entry, r *Request) bool
	// passes reports whether an entry without a hold can become the entry of a request. If not, the
	// entry is released, and the request asks for a new entry.
	passes(e *entry, r *Request) bool
	// transfers reports whether there is a transfer. Without a transfer, an entry serves only the
	// request for which the entry was acquired. If that request has left, the entry serves the
	// first request, unless that needs more than the acquire has brought: see lacks.
	transfers() bool
	// again returns what a request gets if its owner has a hold of the name already. Only requests
	// of explicit owners are asked about, so not those for permits.
	again(h *Hold, r *Request) outcome
	// parts reports whether an entry consists of several records, of which a script may find or get
	// only some.
	parts(e *entry) bool
	// doubts reports whether a message may mean that somebody has removed an entry.
	doubts() bool
	// side returns the side that the holds of an entry need.
	side(e *entry) Side
	// newSpecial returns the special state of a name that has changed to the kind.
	newSpecial() special
	// ownDetails returns the details that makeDetails gives a name.
	ownDetails(n *name) *details
	// goneErr returns the error of a hold whose record is gone.
	goneErr() error
}

// usual has the rules of most kinds. A kind embeds usual and defines the rules that differ.
type usual struct{}

func (usual) joins(*entry, *Request) bool   { return false }
func (usual) passes(*entry, *Request) bool  { return true }
func (usual) transfers() bool               { return true }
func (usual) again(*Hold, *Request) outcome { return reenters }
func (usual) parts(*entry) bool             { return false }
func (usual) doubts() bool                  { return true }
func (usual) side(*entry) Side              { return Alone }
func (usual) newSpecial() special           { return noSpecial{} }
func (usual) goneErr() error                { return errGone }

func (usual) ownDetails(n *name) *details {
	d := *n.details
	return &d
}

// rules returns the rules of the name's kind.
func (n *name) rules() rules { return rulesOf[n.kind] }

// Side is the way in which a request wants a name, or in which an entry has the name. Some kinds
// know a single side only.
type Side uint8

// The sides.
const (
	Alone  Side = iota // nobody else has the name
	Shared             // others may share the name
	sides
)

// outcome is what a request gets if its owner has a hold of the name already.
type outcome uint8

const (
	reenters outcome = iota // that hold, once more
	besides                 // a second hold of the same entry, at once
	never                   // nothing: it would wait for its own owner
	upgrades                // the side Alone for its entry, if nobody else shares the name
)
