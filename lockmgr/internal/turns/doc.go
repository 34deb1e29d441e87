// Package turns measures how clients share one lock, in simulated time.
//
// The clients are managers (the core with the shell's configuration) and direct clients, which work
// as Redisson does: each thread sends its own commands, and a message lets one thread try. All of
// them take the lock, hold it, give it back and ask again. Nothing fails here: package
// internal/clientsim tests failures.
//
//	caller ──▶ manager ──▶ link ──▶ server (one script at a time)
//	   ▲          ▲                    │ │
//	   │          └──── link ──────────┘ │ reply
//	   └─────── messages, another link ──┘
//
// The meter reads the record after each script. For each client it adds up the time for which it
// had the record, its turns, its grants and its commands, and notes its longest wait between two
// grants.
//
// The scripts are those of the library, on the keys of package luaserver: server.go. The same
// Config gives the same Result on every machine. Delays of a real process (a goroutine's wake-up, a
// late timer, network jitter) are random numbers from Config.Seed.
package turns
