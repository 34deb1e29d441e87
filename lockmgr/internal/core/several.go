package core

// Several is the kind of a lock on several names at once. A request for it names a set
// of items, and gets all of them or none. The key of a set is a text that no other set
// has; it is no key of the server. Sets and single names have keys of their own.
//
// A manager has one entry of a set, which stands for the records of all its items.
// They have one holder ID. The entry does not pass to another request in memory: it is
// released, and the next request asks for it.
//
// A set waits like a manager of another process: it holds nothing, hears the messages
// of all its items, and tries again when the item that refused its last try is
// released. A set that has waited for long gathers: see gather.go.
const Several Kind = 2

var _ = register(Several, several{})

// several are the rules of Several. overlap.go has the waits between sets and
// single names.
type several struct{ usual }

func (several) transfers() bool   { return false }
func (several) parts(*entry) bool { return true }
