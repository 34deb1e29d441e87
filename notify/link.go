package notify

// The hub uses these two interfaces instead of a Redis client. Tests implement them
// by a scripted connection. Sharded pub/sub, with one link per master, would
// implement them too.

// A dialer opens connections. The hub has at most one at a time: it dials again
// only after the link before has reported its end.
type dialer interface {
	// dial begins to connect and returns at once. The link reports to f.
	dial(f *feed) link
}

// A link is one connection, from the dial to its end. No method blocks. It
// reports to its feed, from any goroutine:
//
//	up         once, when the connection is known to work; commands follow only then
//	confirmed  a channel of a subscribe is subscribed on the server
//	message    something was published on a channel
//	answered   once per command, when the server has executed or refused it
//	ended      once, always, and last: the connection is closed, or will be once open
//
// The confirmed and the answered of a subscribe may come in any order. If a channel
// was confirmed before an unsubscribe reached the server, that is reported before
// the unsubscribe is answered.
type link interface {
	// subscribe and unsubscribe send one command. The hub waits for the answer
	// to one before it sends the next, and sends none after hangUp. The link
	// must not change names and must not keep them past the answer.
	subscribe(names []string)
	unsubscribe(names []string)
	// hangUp closes the connection, or gives up opening it. It is called once
	// at most, possibly when the link has already ended.
	hangUp()
}
