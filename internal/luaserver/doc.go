// Package luaserver runs Lua scripts on keys in memory, in place of a Redis server. Simulations use
// it: they move its clock, and a run can be repeated exactly.
//
//	Engine     runs a Script, by gopher-lua         engine.go
//	   │ redis.call, redis.pcall
//	   ▼
//	Server     channels, memory                     server.go
//	   │
//	   ▼
//	Keyspace   keys with an end, by a Clock         keys.go, commands.go
//
// Package internal/clientsim uses Engine, Keyspace and Memory, and has servers with connections of
// its own. The tests of lockmgr/internal/turns and lockmgr/internal/wire use Engine and Server.
// TestServer_LikeRedis of turns compares both with a real server, for every script of the library.
//
// # What it does as Redis does
//
//   - Time in milliseconds, as the server counts it: a key that gets a TTL of n ms in millisecond t
//     exists up to and including t+n. The clock also moves within a script, if the caller moves it.
//   - Types: a command on a key of another type fails with WRONGTYPE. A value without items is no key.
//   - A script ends at the first command that fails by redis.call, and keeps what it has written.
//   - The words of commands, and the conversion of replies to Lua and back. A number becomes an
//     integer.
//   - Hash fields in the order in which they were first set, members of a sorted set by score and name.
//   - Without memory (Memory), commands that grow data fail until the script has used a command
//     that writes.
//   - A message reaches each subscriber while the script runs.
//
// # What it does not
//
// There are no slots, users, databases, connections, replicas, persistence or eviction, and there
// is no check that a script names its keys. There is one namespace for classic and sharded
// channels. Scripts may set global variables. Lua has the parts base, table, string and math only.
// A command that is not in commands.go fails with an error that says so. Of those that scripts use,
// HSCAN and MEMORY are missing: the script inspect needs them for records that are not ours.
package luaserver
