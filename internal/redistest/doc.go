// Package redistest gives tests a Redis or Valkey server of their own.
//
// [Start] runs a child redis-server or valkey-server on a free loopback port, with nothing on disk.
// [Mini] runs miniredis inside the test binary: faster to start, no program needed, but not the
// real thing.
//
// # When there is no server
//
// Tests that need a real server are skipped where none is installed, and a skipped test must not
// pass for a passed one. So the reason is printed in capitals, and with HOLDFAST_REQUIRE_SERVER=1
// such a test fails instead; that is how the checks before a merge run. (Note that "go test" shows
// what a passing package printed only with -v, or when it runs just one folder's tests, so the
// variable is the only sure sign.)
//
//	HOLDFAST_SERVER          the server's binary, a name or a path;
//	                         else redis-server, then valkey-server from PATH
//	HOLDFAST_REQUIRE_SERVER  1: fail where there is no server
//
// # The least that a user needs
//
//	HOLDFAST_LEAST_PRIVILEGE 1: the default user of every child may do no more
//	                         than docs/redis.md grants to a user of locks
//
// So any test can be run as the user that we tell others to make, with no change to the test. Only
// two things differ from that page: all keys are allowed, as tests call their locks what they like,
// and there is no password where the test has none. The channels are those of locks.
//
// What a test does as an administrator goes through [Server.Do], which is another user then, and so
// are replicas. The rules are in force from a child's first moment and survive a [Server.Restart].
// A test whose own connections must do more, or that tests rules itself, calls
// [Server.Unrestricted]; args with users of their own (--user, --aclfile) are left alone.
//
// # Life of a child
//
// A child ends with its test, by its pid. It also ends when the test binary is killed, where the
// system has a way to say so (Linux): a test that timed out or crashed leaves no server behind.
//
// Neither kind of server can be used inside a synctest bubble: both talk over real sockets and live
// in real time.
package redistest
