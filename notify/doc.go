// Package notify wakes waiters when there is news on a pub/sub channel of Redis or Valkey. A single
// connection serves any number of channels.
//
// The package knows nothing of locks. A message is a hint that something may have changed. A [Wake]
// tells a watcher to check again. So a wake-up may merge several hints, and has only the text of
// the newest one. A missed message does no harm if the watcher learns of the gap.
//
// # Contract
//
//  1. A [Watch] numbers its events from 1. The caller passes the number of the last event seen to
//     [Watch.Next]. The future settles as soon as there is a newer event. So no event is lost
//     between two calls of Next.
//  2. A wake-up merges all events since the number. [Wake].Reason has a bit for every kind of
//     event, so a message never hides a gap.
//  3. After a Confirmed, every published message reaches the watch until the connection is lost.
//     The loss of the connection is a Gap. A new subscription of the channel is another Confirmed.
//     A watcher that checks again on each Confirmed and each Message cannot miss the last message.
//     While Wake.Subscribed is false, the watcher must poll.
//  4. A new watch of a subscribed channel gets its own Confirmed at once.
//  5. No call blocks except [Hub.Close]. In a flood of messages a watcher gets a single wake-up per
//     call of Next, and the hub's memory does not grow.
//
// The hub cannot notice a server that answers but no longer gets the messages: a replaced master
// that does not know of the replacement yet, or a cluster node without a connection to the rest of
// the cluster. So a watcher always needs a timer as well. The timer may be long while Subscribed is
// true.
//
// # Goroutines
//
//	callers ──Watch, Close──▶ ┌─ hub: ONE goroutine ────┐ ─subscribe─▶ ┌─ link ───┐
//	   ▲                      │ channels · subscriptions│              │ blocking │
//	   │                      │ backoff · deadlines     │ ◀─one input─ │ calls    │
//	   └──── Future[Wake] ◀───┴─────────────────────────┘    feed      └──────────┘
//	                                                          ▲ messages and
//	                                                          │ confirmations
//	                                                   reader goroutine
//
// Callers and the feed post inputs to the hub's mailbox. The hub's goroutine owns all state: which
// channels are wanted, which the server has confirmed, and when to try again. The client's calls
// block, so a second goroutine makes the calls in sequence, as long as the connection lives. A
// third goroutine waits for the connection to break. The call that opens a connection has its own
// goroutine, because the call cannot be interrupted and waits while the client's pool is empty. If
// the call takes longer than DialTimeout, the hub is Down, and the next dial waits for the same
// call.
//
// The client's reader goroutine must never wait, because the reader also reads the replies to the
// client's pings. The reader only leaves the news in the connection's feed. The first news posts
// the feed to the hub's mailbox. The hub takes all news at once. So the mailbox grows by an input
// per connection, not per message.
//
// The hub's goroutine settles the futures, so events stay in order and agree with the hub's state.
// This takes about a microsecond (BenchmarkHop), compared with twenty or more for the network. Next
// posts nothing to the hub, but adds a request to the watch under a mutex. So no goroutine has to
// wake up, and an earlier event settles the request at once.
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
// When the connection is lost, every channel becomes absent, and the watches of live channels get a
// Gap.
//
// The hub forgets an absent channel without a watch. A live channel with a new watch stays live. A
// leaving channel with a new watch is subscribed again once the UNSUBSCRIBE is answered. At most
// one command is in flight, and the server answers in order. So the hub always knows the command of
// a confirmation.
//
// A SUBSCRIBE names up to 512 channels. The server refuses a SUBSCRIBE as a whole, so a single
// forbidden channel would keep 511 channels from being subscribed. The hub tries the channels of a
// refused command again by halves, in turn with other commands. After a refusal of a single
// channel, the hub tries the channel alone, ever more rarely.
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
// The pause doubles from RetryMin to RetryMax. The pause starts over only after a connection has
// lasted for RetryMax, so the hub does not dial in a loop if the server breaks each connection.
// While nobody watches, the hub does not dial.
//
// Each connection has its own feed. The hub ignores the messages and confirmations of all feeds but
// the newest.
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
//	    hub:   a ping of the client or CommandTimeout notices the hang
//	no connection, as the dial is slow or the pool is empty
//	    watch: nothing; Hub.Err returns the reason
//	    hub:   is Down after DialTimeout, and goes on waiting for the connection
//	SUBSCRIBE is not answered or not confirmed
//	    watch: nothing, or Gap
//	    hub:   closes the connection after CommandTimeout
//	channel is forbidden (NOPERM)
//	    watch: Refused, with the error
//	    hub:   keeps the other channels, and tries the forbidden channel again now and then
//	permission is taken away
//	    watch: Gap, then Refused
//	    hub:   the server cuts the connection: as above
//	UNSUBSCRIBE is forbidden
//	    watch: nothing
//	    hub:   ignores the channel's messages
//	flood of messages
//	    watch: one Wake with More set
//	    hub:   the feed merges the messages before the mailbox
//	huge message
//	    watch: a Wake, without the text
//	    hub:   nothing; a hint does no harm
//	callback of a watcher blocks
//	    watch: no watch gets anything
//	    hub:   blocks; callbacks must not block
//
// # Cluster
//
// A hub has a single connection, to the node that Options.Node names. A PUBLISH reaches every node
// of a cluster, so a single hub on any node is enough for classic channels. Sharded channels need a
// hub for each master. When a slot moves to another master, the server ends the subscriptions to
// the slot's channels:
//
//	slot moves away
//	    watch: Gap with ErrMoved, then Refused
//	    hub:   tries again now and then: the slot may come back
//
// The owner of the hubs learns of the new place of the slot, closes the watch, and opens a watch at
// the hub of the new master.
package notify
