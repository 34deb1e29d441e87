package core

// Fair is the kind of an exclusive lock whose waiters are served in the order in which they
// came, over all processes. The server keeps the order: each request that waits has a place
// in a queue there. See line.
//
// A manager has one entry of a name. It passes the entry on in memory while its own places
// are the first of the server's queue. Otherwise a transfer asks the server: it records the
// next request if that is first, and else gives the lock back and tells who is first. So
// managers take no turns, and nobody stands back.
const Fair Kind = 4

var _ = register(Fair, fair{})

// fair are the rules of Fair. Most are those of Exclusive: what differs is the line.
type fair struct{ exclusive }

func (fair) takesTurns() bool { return false }
