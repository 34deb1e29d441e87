package core

// Fair is the kind of an exclusive lock whose waiters are served in the order of their arrival,
// over all processes. The server keeps the order: each waiting request has a place in a queue on
// the server. See places.
//
// A manager has one entry of a name. The manager passes the entry on in memory while its own places
// are the first of the server's queue. Otherwise a transfer asks the server. The transfer records
// the next request if the next request is first. If not, the transfer gives the lock back, and
// grants the lock to who is first, or tells who is first. So there are no runs.
const Fair Kind = 4

var _ = register(Fair, fair{})

// fair are the rules of Fair: those of Exclusive. Only the special state differs.
type fair struct{ usual }
