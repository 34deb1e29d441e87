package core

// Fair is the kind of an exclusive lock whose waiters are served in the order of their arrival,
// over all processes. The server keeps the order: each waiting request has a place in a queue on
// the server. A manager has one entry of a name. See Fair locks in doc.go, and places.
const Fair Kind = 4

// fair are the rules of Fair: those of Exclusive. Only the special state differs.
type fair struct{ usual }
