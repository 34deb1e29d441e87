// Package notify wakes waiters when there is news on a pub/sub channel of Redis or
// Valkey, over one connection for any number of channels.
//
// The package knows nothing of locks. A message is a hint that something may have
// changed. A [Wake] tells a watcher to check again. So several hints may be merged
// into one wake-up, and a missed message does no harm if the watcher learns that
// messages may have been missed.
//
// # Contract
//
//  1. A [Watch] numbers its events from 1. The caller passes the number of the
//     last event that it has seen to [Watch.Next]. The future settles as soon as
//     there is a newer event. So no event is lost between two calls of Next.
//  2. A wake-up merges all events since that number. [Wake].Reason has a bit for
//     every kind of event among them, so a message never hides a gap.
//  3. After a Confirmed, every published message reaches the watch until the
//     connection is lost. The loss of the connection is a Gap. When the channel
//     is subscribed again, that is another Confirmed. A watcher that checks again
//     on each Confirmed and each Message cannot miss the last message. While
//     Wake.Subscribed is false, it must poll.
//  4. A new watch of a channel that is already subscribed gets its own Confirmed
//     at once.
//  5. No call blocks except [Hub.Close]. In a flood of messages a watcher gets one
//     wake-up per call of Next, and the hub's memory does not grow.
//
// The hub cannot notice a server that answers but no longer gets the messages.
// Examples are a master that does not know yet that it was replaced, and a cluster
// node that was cut off from the others. So a watcher always needs a timer as well.
// The timer may be long while Subscribed is true.
//
// # Goroutines
//
//	callers ──Watch, Close──▶ ┌─ hub: ONE goroutine ────┐ ─subscribe─▶ ┌─ link ───┐
//	   ▲                      │ channels · subscriptions│              │ blocking │
//	   │                      │ backoff · deadlines     │ ◀─one event─ │ calls    │
//	   └──── Future[Wake] ◀───┴─────────────────────────┘    feed      └──────────┘
//	                                                          ▲ messages and
//	                                                          │ confirmations
//	                                                   reader goroutine
//
// Callers and the feed post events to the hub's mailbox. The hub's goroutine owns
// all state: which channels are wanted, which the server has confirmed, and when to
// try again. The client's calls block, so a second goroutine makes them, one after
// the other, as long as the connection lives. A third goroutine waits for the
// connection to break. The call that opens a connection has its own goroutine,
// because it cannot be interrupted, and it waits while the client's pool is empty.
// If it takes longer than DialTimeout, the hub is Down, and the next dial waits for
// the same call. There is at most one connection and one such call at a time, so
// there are no other goroutines.
//
// The client's reader goroutine must never wait, because it also reads the replies
// to the client's pings. It only marks the channel in the connection's feed. The
// first mark posts one event to the hub's mailbox. The hub then takes all marks at
// once. So the mailbox grows by one event per connection, not per message.
//
// The hub's goroutine settles the futures, so events stay in order and agree with
// the hub's state. This hop takes about a microsecond (BenchmarkHop), compared
// with twenty or more for the network. Next does not post a message to the hub:
// it adds its request to the watch under a mutex. So no goroutine has to wake up,
// and an event that has already happened settles the request at once.
//
// # A channel's subscription
//
//	          sent              confirmed: Confirmed
//	absent ─────────▶ asking ────────────────────────▶ live
//	▲  ▲  ▲              │                              │
//	│  │  └──────────────┤ refused with others          │ last watch closed,
//	│  │                 │ refused alone: Refused       │ sent
//	│  │  next round     ▼                              ▼
//	│  └───────────── refused                        leaving
//	│                                                   │ answered
//	└───────────────────────────────────────────────────┘
//
// When the connection is lost, every channel becomes absent, and the watches of
// live channels get a Gap.
//
// The hub forgets an absent channel that nobody watches. A live channel that is
// watched again stays live. A leaving channel that is watched again is subscribed
// again once the UNSUBSCRIBE is answered. At most one command is in flight, and the
// server answers in order. So the hub always knows to which command a confirmation
// belongs.
//
// A SUBSCRIBE names up to 512 channels. The server refuses it as a whole, so one
// forbidden channel would keep 511 others from being subscribed. The hub tries the
// channels of a refused command again by halves, in turn with other commands. A
// channel that was refused alone is tried alone from then on, ever more rarely.
//
// # The connection
//
//	       first watch               answers a PING
//	Idle ───────────────▶ Connecting ───────────────▶ Connected
//	 ▲                      ▲    │                     │     │
//	 │                pause │    │ failed, or          │lost │ no watch for
//	 │                      │    ▼ not in time         │     │ IdleTimeout
//	 │                      └── Down ◀─────────────────┘     │
//	 │                           │ no watch                  │
//	 └───────────────────────────┴───────────────────────────┘
//
// The pause doubles from RetryMin to RetryMax. It starts over only after a
// connection has lasted for RetryMax, so the hub does not dial in a loop if the
// server breaks each connection. While nobody watches, the hub does not dial.
//
// Each connection has its own feed. The hub ignores the messages and confirmations
// of all feeds but the newest.
//
// # Failures
//
//	connection breaks
//	    watch: Gap, later Confirmed
//	    hub:   reconnects, and subscribes to all channels again
//	server is gone
//	    watch: Gap; Hub.Err returns the reason
//	    hub:   tries until the server is back
//	server hangs, connection stays open
//	    watch: as if the server were gone
//	    hub:   a ping of the client or CommandTimeout notices it
//	no connection, as the dial is slow or the pool is empty
//	    watch: nothing; Hub.Err returns the reason
//	    hub:   is Down after DialTimeout, and goes on waiting for the connection
//	SUBSCRIBE is not answered or not confirmed
//	    watch: nothing, or Gap
//	    hub:   closes the connection after CommandTimeout
//	channel is forbidden (NOPERM)
//	    watch: Refused, with the error
//	    hub:   keeps the other channels, and tries this one again now and then
//	permission is taken away
//	    watch: Gap, then Refused
//	    hub:   the server cuts the connection: as above
//	UNSUBSCRIBE is forbidden
//	    watch: nothing
//	    hub:   ignores the channel's messages
//	flood of messages
//	    watch: one Wake with More set
//	    hub:   the feed merges the messages before the mailbox
//	forged or huge message
//	    watch: a Wake, without what the message says
//	    hub:   nothing; a hint does no harm
//	callback of a watcher blocks
//	    watch: no watch gets anything
//	    hub:   blocks; callbacks must not block
//
// # Cluster
//
// A hub has one connection, to the node that Options.Node names. A PUBLISH reaches every node
// of a cluster, so one hub on any node is enough for classic channels. Sharded channels
// need a hub for each master. When a slot moves to another one, the server ends the
// subscriptions to its channels:
//
//	slot moves away
//	    watch: Gap with ErrMoved, then Refused
//	    hub:   tries again now and then: the slot may come back
//
// The owner of the hubs learns where the slot is, closes the watch, and opens one at the hub
// of the new master.
package notify
