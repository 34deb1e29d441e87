// Package redistest gives tests a Redis or Valkey server of their own.
//
// [Start] runs a child redis-server or valkey-server on a free loopback port,
// with nothing on disk. [Mini] runs miniredis inside the test binary: faster to
// start, no program needed, but not the real thing.
//
// # When there is no server
//
// Tests that need a real server are skipped where none is installed, and a
// skipped test must not pass for a passed one. So the reason is printed in
// capitals, and with HOLDFAST_REQUIRE_SERVER=1 such a test fails instead; that
// is how the checks before a merge run. (Note that "go test" shows what a
// passing package printed only with -v, or when it runs just one folder's
// tests, so the variable is the only sure sign.)
//
//	HOLDFAST_SERVER          the server's binary, a name or a path;
//	                         else redis-server, then valkey-server from PATH
//	HOLDFAST_REQUIRE_SERVER  1: fail where there is no server
//
// # Life of a child
//
// A child ends with its test, by its pid. It also ends when the test binary is
// killed, where the system has a way to say so (Linux): a test that timed out
// or crashed leaves no server behind.
//
// Neither kind of server can be used inside a synctest bubble: both talk over
// real sockets and live in real time.
package redistest
