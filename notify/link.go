package notify

// The hub uses dialer and link instead of a Redis client. Tests implement the two interfaces by a
// scripted connection.

// A dialer opens connections. The hub has at most one connection at a time: the hub dials again
// only after the last link has reported its end.
type dialer interface {
	// dial begins to connect and returns at once. The link reports to f.
	dial(f *feed) link
}

// A link is a connection, from the dial to the end. No method blocks. A link reports to its feed,
// from any goroutine:
//
//	up         once, when the connection is known to work; commands follow only then
//	confirmed  a channel of a subscribe is subscribed on the server
//	message    something was published on a channel
//	answered   once per command, when the server has executed or refused the command
//	ended      exactly once, and last: the connection is closed, or will be closed once open
//
// The confirmed and the answered of a subscribe may come in any order. If a channel was confirmed
// before an unsubscribe reached the server, the link reports the confirmation before the
// unsubscribe is answered.
type link interface {
	// subscribe and unsubscribe send a command. The hub waits for the answer to a command before
	// sending the next, and sends nothing after hangUp. The link must not change names and must not
	// keep names past the answer.
	subscribe(names []string)
	unsubscribe(names []string)
	// hangUp closes the connection, or gives up opening the connection. hangUp is called once at
	// most, possibly when the link has already ended.
	hangUp()
}
