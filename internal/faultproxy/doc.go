// Package faultproxy puts a bad network between a client and a Redis or Valkey server, in a test.
// It reads the protocol that passes through it, so a fault can be aimed: at the reply to the third
// EVALSHA, at whatever connection subscribes, at every command on one connection.
//
//	p := faultproxy.Start(t, server.Addr())
//	r := p.On(faultproxy.Command("EVALSHA").Nth(3)).LoseReplyAndCut()
//	... a client of p.Addr() ...
//	<-r.Fired()
//
// # Contract
//
//  1. Without a fault the proxy is transparent: every byte goes on, unchanged
//     and in order, each way. It never reorders; what a fault delays, it delays
//     together with everything behind it on that connection.
//  2. A rule counts the commands that match it, over all connections, in the
//     order in which the proxy reads them. The first rule that applies to a
//     command gets it, in the order in which they were made; the others have
//     counted it.
//  3. A rule that fires does so for the whole of a command or a reply, never
//     within.
//  4. Everything ends with the test: connections, goroutines, held replies.
//
// All methods are safe for concurrent use and none of them blocks.
//
// # Which reply belongs to which command
//
// Replies come in the order of commands, so each belongs to the oldest command that has none. What
// is no reply is told apart by its frame: a push (">") is never counted, unless it is the
// confirmation that a SUBSCRIBE or one of its kin waits for, of which there is one for each
// channel. In RESP2 an array that begins with such a word ("message", "subscribe") counts as a
// push, once the connection has subscribed. An attribute frame ("|") is a part of the value after
// it. Nested values are one frame with what contains them.
//
// The proxy does not follow CLIENT REPLY OFF and SKIP, or MONITOR. UNSUBSCRIBE without names counts
// as answered by its first confirmation. Bytes that are no RESP are passed on as they are; from
// there on that direction of the connection has no frames, and rules do not see it.
//
// # Faults of one command
//
//	CutBefore          the connection breaks, the server never sees the command
//	CutAfterCommand    it breaks once the command is sent; the command does run,
//	                   its reply is dropped
//	LoseReplyAndCut    it breaks when the reply comes: the command has run
//	HoldReply          the reply waits until the rule is released
//	DelayCommand       the command waits for a time, or until the rule is released
//	HoldBack           the command and all that follow are kept until the client
//	                   has given the connection up, and run after that
//	DelayReply         the reply waits for a time
//	BlackHole          the command and all that follows vanish, both ways
//	BlackHoleReply     the command runs, its reply and all that follows vanish
//	RepeatCommand      the server gets it twice, the client gets one reply
//	Refuse             the server never sees the command, an error comes back
//	EditReply          another reply comes in its place, or none
//	Observe            nothing happens, but it is counted
//
// # Faults of connections
//
// [Conn.Cut] breaks one as a dying peer would. The client sees its end at once. The server gets all
// that was passed on before, and then the end; its replies are dropped.
//
// [Conn.BlackHole] is the half-open connection: from here on bytes vanish both ways, and so do the
// ends. The client may hang up, and the server's side stays open; the server may, and the client
// waits. Neither gets a FIN or an RST until [Proxy.Heal], which resets such connections, as a host
// does that hears of a connection it does not know. [Proxy.BlackHole] does it to all, and to those
// to come: these are accepted, as the kernel does that on its own, and then hear nothing.
//
// [Conn.Stall] is a network that is away for less long than TCP is patient: no byte gets through,
// but none is lost. Heal delivers them, even to a server whose client has hung up long ago. That is
// how a command can run late.
//
// [Fault.HoldBack] is a relay that does the same to one connection, and to no other: the client
// gives that connection up, tries again on another, and what the relay kept runs after the retry.
// [Rule.GivenUp] tells when the client has closed the connection, [Rule.Release] sends what was
// kept, and [Rule.Delivered] tells when the server has run it.
//
// [Proxy.Refuse] resets new connections as soon as they are there (the port stays taken, or another
// process might get it meanwhile).
//
// A client that hangs up has its end passed on behind its last command, and the server's replies to
// these are dropped. A server that hangs up has its end passed on behind its last reply.
//
// # TLS
//
// With [WithTLS] clients speak TLS to the proxy, which speaks plain text to the server.
// [Proxy.StallHandshakes] accepts connections and then says nothing.
package faultproxy
