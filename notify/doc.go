// Package notify wakes waiters when there is news on a pub/sub channel of Redis or
// Valkey, over one connection for any number of channels.
//
// It knows nothing of locks. A message is a hint that something may have
// changed, and a [Wake] means: look again. That makes the rest simple, for
// hints may be merged, and it is enough that none is missed unnoticed.
//
// # Contract
//
//  1. A [Watch] numbers its events from 1. [Watch.Next] is given the number of
//     the last one seen and settles as soon as there is a newer one. So there
//     is no moment between two wake-ups in which an event could slip through.
//  2. A wake-up merges all events since that number, and [Wake].Reason has a
//     bit for every kind among them: a message never hides a gap.
//  3. From a Confirmed on, every message that is published reaches the watch,
//     until the connection is lost. The loss is a Gap, the return of the
//     subscription another Confirmed. Look again on each Confirmed and each
//     Message and you cannot miss the last one; while Wake.Subscribed is false,
//     poll.
//  4. A watch that joins a channel which is subscribed already gets a Confirmed
//     of its own, at once.
//  5. Nothing blocks but [Hub.Close]. A flood costs a watcher one wake-up each
//     time that it asks for one, and the hub no memory.
//
// What cannot be noticed: a server that is alive and answers, but no longer
// gets the messages, such as a master that was replaced without being told yet,
// or a cluster node that was cut off from the others. A watcher must always
// have a timer as well. It may be a long one while Subscribed.
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
// for the connection to break. The call that opens a connection can't be cut off,
// and it waits while others keep the client's pool empty, so it has a goroutine of
// its own. A hub that gives it up after DialTimeout is Down, and its next dial
// takes the same call over. There is at most one connection and one such call at
// a time, so that is all of them.
//
// The client's reader goroutine must never wait: it also reads the replies to
// the client's pings. It only marks the channel in the connection's feed. The
// first mark sends one event to the hub's mailbox, which takes all marks in one
// go, so a mailbox grows by one event for each connection, not for each message.
//
// Futures are settled by the hub's goroutine. The way over it costs about a
// microsecond (BenchmarkHop), against twenty and more for the network, and it
// means that the order of events and the state that they are told with are
// always right. A request made by Next is put into its watch under a mutex
// instead of sent: that needs no goroutine to wake up, and an event that has
// happened already settles it at once.
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
// When the connection is lost, every channel is absent, and those that were live
// tell a Gap.
//
// An absent channel that nobody watches is forgotten. One that is watched again
// while it is live goes on as if nothing had been; while it is leaving, it is
// subscribed again after that. As at most one command is in flight, and the
// server answers in order, no confirmation can be taken for another's.
//
// A SUBSCRIBE names up to 512 channels and the server refuses it as a whole, so
// one forbidden channel would take 511 others with it. Those of a refused group
// are tried again by halves, in turn with everything else; a channel that was
// refused alone is asked for alone from then on, in rounds that become rarer.
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
// connection has lasted for RetryMax, so one that comes up just to break again
// is not tried in a loop. While nobody watches, nothing is tried.
//
// Each connection has a feed of its own, and the hub listens to that of the
// newest: messages and confirmations of an old one count for nothing.
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
// pub/sub will need a connection for each master: see link in this package.
package notify
