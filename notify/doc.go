// Package notify wakes waiters when there is news on a pub/sub channel of Redis or
// Valkey, over one connection for any number of channels.
//
// It knows nothing of locks. A message is a hint that something may have
// changed, and a [Wake] means: look again. So hints may be merged, and a missed
// one does no harm if the watcher learns of the gap.
//
// # Contract
//
//  1. A [Watch] numbers its events from 1. [Watch.Next] is given the number of
//     the last one seen and settles as soon as there is a newer one. So there
//     is no moment between two wake-ups in which an event could slip through.
//  2. A wake-up merges all events since that number, and [Wake].Reason has a
//     bit for every kind among them: a message never hides a gap.
//  3. After a Confirmed, every published message reaches the watch until the
//     connection is lost. The loss is a Gap, the return of the subscription
//     another Confirmed. Look again on each Confirmed and each Message and you
//     cannot miss the last one; while Wake.Subscribed is false, poll.
//  4. A watch that joins a channel which is subscribed already gets a Confirmed
//     of its own, at once.
//  5. Nothing blocks but [Hub.Close]. A flood costs a watcher one wake-up each
//     time that it asks for one, and the hub no memory.
//
// The hub cannot notice a server that answers but no longer gets the messages,
// such as a master that does not know yet that it was replaced, or a cluster
// node that was cut off from the others. So a watcher must always have a timer
// as well. It may be a long one while Subscribed.
//
// # Goroutines
//
//	callers ──Watch, Close──▶ mailbox ─▶ ┌─ hub: ONE goroutine ────┐ ─subscribe─▶ ┌─ link ─────────┐
//	   ▲                                 │ channels · subscriptions│              │ blocking calls │
//	   │                                 │ backoff · deadlines     │ ◀─one event─ │ of the client  │
//	   └──── Future[Wake] ◀──────────────┴─────────────────────────┘    feed      └────────────────┘
//	                                                                     ▲ messages, confirmations,
//	                                                                     │ merged for each channel
//	                                                              reader goroutine
//
// The hub's goroutine owns all state: what is wanted, what the server has
// confirmed, when to try again. The client's calls block, so a second goroutine
// makes them, one after the other, as long as a connection lives; a third waits
// for the connection to break. The call that opens a connection has a goroutine
// of its own: it can't be interrupted, and it waits while the client's pool is
// empty. A hub that gives up waiting for it after DialTimeout is Down, and its
// next dial takes over the same call. There is at most one connection and one
// such call at a time, so there are no more goroutines than these.
//
// The client's reader goroutine must never wait: it also reads the replies to
// the client's pings. It only marks the channel in the connection's feed. The
// first mark sends one event to the hub's mailbox, which takes all marks in one
// go, so a mailbox grows by one event for each connection, not for each message.
//
// The hub's goroutine settles the futures. This hop costs about a microsecond
// (BenchmarkHop), compared with twenty and more for the network, and keeps
// events in order and their state right. Next does not send a message to the
// hub: it adds its request to the watch under a mutex. So no goroutine has to
// wake up, and an event that has happened already settles the request at once.
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
// An absent channel that nobody watches is forgotten. A live one that is
// watched again stays live; a leaving one is subscribed again after that. At
// most one command is in flight, and the server answers in order, so no
// confirmation can be taken for another's.
//
// A SUBSCRIBE names up to 512 channels and the server refuses it as a whole, so
// one forbidden channel would take 511 others with it. The channels of a
// refused group are tried again by halves, in turn with other commands. A
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
// The pause doubles from RetryMin to RetryMax and starts over only after a
// connection has lasted for RetryMax, so a server that breaks each connection
// is not dialled in a loop. While nobody watches, the hub does not dial.
//
// Each connection has a feed of its own, and the hub ignores messages and
// confirmations of all but the newest.
//
// # Failures
//
//	what                                    what a watch sees            what the hub does
//	connection breaks                       Gap, later Confirmed         reconnects, subscribes to everything again
//	server is gone                          Gap; Err tells why           tries until it is back
//	server hangs, connection stands         the same                     the client's pings notice it, or CommandTimeout
//	no connection: slow dial, empty pool    nothing; Err tells why       is down after DialTimeout, goes on waiting for it
//	SUBSCRIBE is not answered or confirmed  nothing, or Gap              gives the connection up after CommandTimeout
//	channel forbidden (NOPERM)              Refused, with the error      keeps the others, asks again now and then
//	right is taken away                     Gap, then Refused            the server cuts the connection: as above
//	UNSUBSCRIBE forbidden                   nothing                      ignores the messages
//	flood of messages                       one Wake, More set           merges them before its mailbox
//	forged or huge message                  a Wake; 64 bytes of it       nothing: a hint can do no harm
//	watcher's callback blocks               nobody sees anything         is held up: callbacks must not block
//
// # Cluster
//
// Messages of PUBLISH reach every node of a cluster, so one connection to any
// node serves, without a guarantee as to their order among nodes. Sharded
// pub/sub will need a connection for each master: a hub's state of one is the type
// connection in this package.
package notify
