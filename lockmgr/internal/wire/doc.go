// Package wire takes the operations of a lock manager to a server and brings
// back the replies. It knows the operations of package core, and nothing of
// managers, locks and futures.
//
//	core.Op ──▶ Lane: queue ──▶ batch: commands ──▶ client ──▶ server
//	                              ▲ codec                        │
//	core.Reply ◀── Lane ◀── batch: answers ◀──────────── client ◀┘
//
// # Lane
//
// A Lane is the way to one server. It has a queue, two senders, and the health
// of the server. Two senders keep one connection busy: one batch is on its way
// while the next one is filled. Renewals, handoffs and releases go before
// acquires, so that a burst of requests delays no renewal past its lease.
//
// Each operation that Submit took gets exactly one reply. A batch takes two round
// trips at most, and two more if a command is split; the wait for the batches before
// it comes on top. All replies of a batch are posted in one event. Close answers what
// is queued without sending it.
//
// A batch has 256 tasks at most, of which a quarter is for acquires if any wait. It
// has 4,096 renewals besides, as these share few commands.
//
// # Batch
//
// What travels together is decided here and nowhere else: operations of one
// verb share a command if they are plain, and have the same lease. A server
// spends more time on taking in a command than on a lock, so one call for many
// locks costs it half. A command that the server refused as a whole, before it
// ran, is split: one lock's name may be the reason. Once a server has refused a
// command because its keys are in several slots, no two locks share one.
//
// # Codec
//
// A format says how the operations of one verb are written as calls of scripts
// and how the answers are read. The formats of one kind of lock are a table in a
// file of their own: exclusive.go. Their scripts are in the folder script; the
// headers there say what keys and arguments they take and what they return.
//
// # Failures
//
// A Failure is why a command got no answer that can be used. It says whether the
// command ran: no, or maybe. A manager makes an error of it with Config.Error,
// the only place where the two meet. A reply of an unexpected shape is a
// Failure that may have run: nobody may take it for a grant.
//
// # Files
//
//	client.go ───▶ answer.go ───▶ failure.go
//	   ▲                             ▲
//	lane.go ───▶ batch.go ───▶ exclusive.go ───▶ codec.go ───▶ names.go
//	   ├───────▶ health.go
//	   └───────▶ deadline.go
//
// Only client.go uses the client library.
package wire
