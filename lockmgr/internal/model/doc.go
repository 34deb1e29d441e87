// Package model implements the lock scripts and the server that runs them in
// plain Go: one map of keys, and a clock that the caller moves.
//
// The simulation of the core runs against it, so it has to be exact where the
// core could tell the difference. Random traces compare it with real servers:
// each script here takes the KEYS and ARGV of the Lua script of the same name,
// in the same order, and returns the same.
//
//	   Acquire  Transfer  Renew  Release  Force  Inspect     scripts.go
//	   those of read-write locks, sets, permits and fair     readwrite.go, several.go,
//	   locks, and what Redisson does about a fair lock       permits.go, fair.go
//	       │        │        │       │       │       │
//	       ▼        ▼        ▼       ▼       ▼       ▼
//	EXISTS HSET HDEL HEXISTS PTTL PEXPIRE DEL INCRBY PUBLISH …  server.go
//	       │                                    │
//	 keys with an end, on Server.Now      subscribers of channels
//
// # What is modelled
//
//   - Time in whole milliseconds, as the server counts it: a key that gets a
//     TTL of n ms in millisecond t exists up to and including t+n.
//   - Types: a lock is a hash, a token counter a string; a command on a key
//     of another type fails with WRONGTYPE, and a script ends at the first
//     command that fails, keeping what it has written, as in Lua.
//   - Hash fields in the order in which they were first set.
//   - Subscribers are numbers. A message goes to each of them, in the order in
//     which they subscribed, through Server.Deliver, while the script runs.
//   - Refusals: Server.OOM makes commands that need memory fail;
//     Server.PublishErr and Server.NumSubErr stand for a user who may not
//     publish or may not count.
//
// # What is not
//
// Eviction, persistence and replication. The methods Del, Flush, Persist, SetHash
// and SetString change the data as these would, or as an administrator would.
// There is one server, and there are no slots.
package model
