// Package resp reads and writes RESP, the protocol of Redis, for tests and for the bench. It does
// so by itself, so that tests can send and answer what no client library would.
//
// A [Conn] is a client: one blocking connection, no goroutine, no pool. [Do] sends a single
// command. [Serve], [Greet] and [CutCommand] are for servers that tests write, and [Append] writes
// their replies.
//
// A value is one of nil, int64, string, [Status], [Error], [Push] and []any, whose elements are
// values. Replies are read as RESP2 and written as RESP3.
//
// internal/faultproxy has a reader of its own. It passes on each byte as it came, also of what is
// not RESP, and it knows all types of RESP3.
package resp
