// Package model is what the lock scripts do to a server, written a second
// time: plain Go, one map of keys, a clock that the caller moves.
//
// The simulation of the core runs against it, so it has to be exact where the
// core could tell the difference. What keeps it so is a comparison with real
// servers by random traces: each script here takes the KEYS and ARGV of the
// Lua script of the same name, in the same order, and returns what that one
// returns.
//
//	   Acquire  Transfer  Renew  Release  Force  Inspect     scripts.go
//	       │        │        │       │       │       │
//	       ▼        ▼        ▼       ▼       ▼       ▼
//	EXISTS HSET HDEL HEXISTS PTTL PEXPIRE DEL INCRBY PUBLISH …  server.go
//	       │                                    │
//	 keys with an end, on Server.Now      subscribers of channels
//
// # What is modelled
//
//   - Time in whole milliseconds, as the server counts it: a key that was
//     given n ms at millisecond t is there until t+n inclusive.
//   - Types: a lock is a hash, a token counter a string; a command on a key
//     of another type fails with WRONGTYPE, and a script ends at the first
//     command that fails, keeping what it has written, as in Lua.
//   - Hash fields in the order in which they were first set.
//   - Subscribers are numbers. A message goes to each in the order of their
//     subscriptions, through Server.Deliver, within the script that sends it.
//   - Refusals: Server.OOM makes commands that need memory fail;
//     Server.PublishErr and Server.NumSubErr stand for a user who may not
//     publish or may not count.
//
// # What is not
//
// Eviction policy, persistence and replication: an administrator's hand (Del,
// Flush, Persist, SetHash, SetString) does to the data what they would. There
// is one server; which slot a key is in is none of its business.
package model
