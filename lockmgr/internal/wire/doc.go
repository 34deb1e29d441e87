// Package wire takes the operations of a lock manager to a server and brings back the replies. The
// package knows the operations of package core, but no managers, locks or futures.
//
//	core.Op ──▶ Lanes ──▶ Lane: queue ──▶ batch: commands ──▶ client ──▶ server
//	                                        ▲ codec                        │
//	core.Reply ◀───────── Lane ◀─── batch: answers ◀───────────── client ◀─┘
//
// # Lanes
//
// Lanes are one lane to a single server, or one to each master of a cluster. Lanes keep the layout
// of the cluster, which says which master serves which slot, and put each operation on the lane of
// its name's slot. A lane sends to its master only, so a master that hangs delays no operation for
// other masters. Lanes ask for the layout every ten seconds, and twice a second for a while after a
// command has failed. The layout may be old. An operation that a master refuses with MOVED or ASK
// goes to a detour lane. Each master that a refusal names has a detour lane of its own, so a named
// master that hangs delays nothing for other masters. A detour lane follows further redirections,
// and sends each command by itself, because the slot may move on meanwhile.
//
// Another node, perhaps of another cluster, may get the address of a master. Each script carries
// the ID of the intended node, and does nothing at another node: see package cluster.
//
// The client of Sentinel knows one master at a time. When Sentinels replace the master, the new
// master gets a new lane.
//
// A reply says which lane it came from, because each server has a health of its own.
//
// # Lane
//
// A Lane is the way to one server. A Lane has queues, senders, and the health of the server. One
// sender sends renewals only. So no burst of requests delays a renewal past its lease, and nothing
// waits for the answers to many renewals. The other senders send everything else. A task
// does not wait while fewer than eight tasks are under way, or fewer than one for each 16 µs of the
// round trip to a far server. While more are under way, the next batch has as many tasks as there
// are more, or 256. So each of a few callers has its own round trip, and many share large batches.
// At most sixteen batches are under way. Handoffs and releases go before acquires.
//
// Submit notes at which master an operation waits, and Cluster.Queued reports another master. So
// the core knows whether the master of a queued operation answers.
//
// Each operation that Submit took gets exactly one reply. A batch takes one round trip, one more if
// a script is not loaded, and as many again if a command is split. After a connection has ended, a
// greeting comes before the first round trip: see Greeter. Before that, a batch may wait for
// earlier batches. All replies of a batch are posted in one event. Close answers queued tasks
// without sending them.
//
// If the server does not answer, a call that does not concern the core fails after the time-out,
// even if thousands of operations wait before the call.
//
// # Route
//
// All senders share the connection of the client, which pipelines what the senders send. Only Dial
// for one server sets Config.Dedicate. With Config.Dedicate, after 32 batches in quick succession,
// a sender opens a connection of its own, on which the sender's goroutine writes and reads itself:
// with one caller a pair of lock and unlock takes a quarter less time. Renewals take the shared
// connection. At the first failure, after a pause of 250 ms and after a minute the sender goes back
// to the shared connection, which stays open, so that no command waits for a dial.
//
// # Sizes
//
// A batch has at most 256 tasks. A quarter of the tasks is reserved for acquires while any wait. A
// batch of renewals has 128 tasks and 128 more for each 0.4 ms of a round trip, or an eighth of the
// queued renewals if that is more, up to 4,096. So the renewals occupy the server for about a round
// trip, and a far server gets many renewals in few batches.
//
// # Batch
//
// Only the batch decides which operations share a command: operations of the same kind, verb and
// lease, if their format calls them sharable. Receiving a command costs a server more than a lock
// does, so a shared command halves the server's work. A command that the server refused as a whole,
// before it ran, is split, because the name of a single lock may be the reason. Once a server has
// refused a command because the keys are in several slots, no two locks share a command. In a
// cluster, operations of the same slot share a command, and the commands of a batch travel
// together. While a slot is being moved, a command for several locks of the slot may be refused.
// The refused command is split, too.
//
// An operation on a set of names is a command of its own, with all names of the set. Only if the
// names are in several slots of a cluster, the operation has a command for each slot: see
// spread.go.
//
// # Slots that are being moved
//
// The keys of a moving slot are at two masters. A master refuses a script if the master has some of
// the KEYS but not all. So channels, and keys that seldom exist, are no KEYS. A script names
// further keys itself, in the slot of its KEYS:
//
//	line    acquire acquire_many release release_many transfer
//	        readwrite_acquire readwrite_transfer readwrite_release several_acquire several_release
//	        permits_acquire permits_transfer permits_release permits_return permits_inspect inspect
//	token   acquire acquire_many release release_many readwrite_acquire readwrite_release
//	        several_acquire several_release
//	reader  readwrite_acquire readwrite_transfer readwrite_release several_acquire several_release
//	queue   inspect
//
// line is the line of the waiters, with its hash, token the counter of a lock that is granted by
// message, reader the own key of a reader, and queue the queue of a fair lock. A server that
// refuses such keys still serves plain and fair locks, whose scripts go on without line and token.
// All scripts give their keys to functions. So a proxy that wants each key written as KEYS[n]
// refuses the scripts.
//
// If a further key is missing, the key may have expired, or may be at the other master. A script
// that must tell the two apart asks for the record and the missing key in one command. In the
// second case the server refuses that command, and so the script, before the script writes: see
// readwrite_acquire.lua. So nobody was recorded. The failure concerns only the locks of the
// command: the server is not in trouble.
//
// While the old master has the record of a lock, the old master runs the scripts of the lock. After
// that, the old master answers with ASK, and the scripts run at the new master. Waiters still
// listen at the old master. A message from the new master does not reach the waiters, so the client
// publishes the message again: see listeners.go. The scripts of fair locks have a KEY that never
// exists, and run when the slot has moved: see fair.lua.
//
// # Replicas
//
// With Config.Replicas a confirmer holds back the replies of successful acquires, transfers and
// renewals, until WAIT has counted enough replicas. If there are too few, the reply says that the
// operation may have run. As after any lost reply, the core fails the request and looks for the
// record to release the record, or tries again and trusts the record until the old deadline.
//
// # Codec
//
// A format says how the operations of a verb are written as calls of scripts and how the answers
// are read. The formats of one kind of lock are a table in a file of the kind, which registers the
// table: exclusive.go, readwrite.go, several.go, permits.go, fair.go. The scripts are in the folder
// script. The headers of the scripts say which keys and arguments a script takes and what the
// script returns.
//
// # Failures
//
// A Failure says why a command has no usable answer, and whether the command ran: no, or maybe.
// Only Config.Error turns a Failure into an error of the manager. A reply of an unexpected shape is
// a Failure of a command that may have run, never a grant.
//
// # Files
//
// Each file uses only files below its own line. A test in internal/archtest checks the order.
//
//	lanes.go      the lanes of a manager, which follow the layout of the cluster
//	spread.go     operations on names in several slots
//	lane.go       the queues and senders of one server
//	replicas.go   waits for replicas
//	route.go      the connection of a sender
//	batch.go      which operations share a command
//	connector.go  greets a server before the next command
//	client.go     runs commands through the client
//	server.go     Server, Connection, and the Config of a lane
//	task.go       the tasks of a queue
//	several.go    the formats of sets
//	readwrite.go  the formats of read-write locks
//	permits.go    the formats of permits
//	fair.go       the formats of fair locks
//	exclusive.go  the formats of plain locks
//	process.go    commands that are no scripts
//	listeners.go  messages that a script could not publish
//	slot.go       the slots of keys
//	codec.go      scripts, commands, formats and replies
//	answer.go     the answer to a command
//	troubles.go   failures that concern one slot
//	health.go     whether the server answers
//	failure.go    the reasons why a command has no usable answer
//	deadline.go   the time-out of a round trip
//	names.go      the names of keys, channels and holders
//
// Only client.go and connector.go use the client library, rueidis.
package wire
