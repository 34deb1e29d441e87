package core

// Several is the kind of a lock on several names at once. A request names a set of items, and gets
// all items or none. The key of a set is a text that no other set has. The key is no key of the
// server. Sets and single names have keys of their own.
//
// A manager has one entry of a set, which stands for the records of all items. The records have one
// holder ID. The entry does not pass to another request in memory: the entry is released, and the
// next request asks anew. While a set waits it gathers: see gather.go.
const Several Kind = 2

// several are the rules of Several. overlap.go has the waits between sets and single names.
type several struct{ usual }

func (several) transfers() bool   { return false }
func (several) parts(*entry) bool { return true }
