// Package locker has all that is compared: holdfast, its peers as their documentation uses them,
// ways of waking waiters that differ in nothing but the waking, and ceilings that no lock client
// can pass.
//
// An adapter adds as little as it can between the load and the client. Where a client's default
// does not wait as long as it takes, as some retry a fixed number of times, the adapter asks again.
package locker

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/redisson"
)

// A Locker is one client. Its methods are safe for concurrent use.
type Locker interface {
	// Lock blocks until it holds name, or ctx ends.
	Lock(ctx context.Context, name string) (Held, error)
	// Close ends the client and all that it started.
	Close()
}

// Held is a lock that is held.
type Held interface {
	// Unlock blocks until the lock is given back.
	Unlock(ctx context.Context) error
}

// A Sided locker has two sides: many may read, or one may write.
type Sided interface {
	Locker
	// Read and Write block until they hold the side of name, or ctx ends.
	Read(ctx context.Context, name string) (Held, error)
	Write(ctx context.Context, name string) (Held, error)
}

// A SetLocker can lock several names as one.
type SetLocker interface {
	Locker
	// LockSet blocks until it holds all names, or ctx ends. They are sorted.
	LockSet(ctx context.Context, names []string) (Held, error)
}

// A Limiter lets several callers have a name at a time, each with one permit.
type Limiter interface {
	Locker
	// Acquire blocks until it has one of the permits of name, or ctx ends. limit is how many there
	// are, the same for all.
	Acquire(ctx context.Context, name string, limit int) (Held, error)
}

// A FairLocker serves the callers of all clients in the order in which they have come to the
// server, unless its candidate says otherwise.
type FairLocker interface {
	Locker
	// LockFair blocks until it holds name, or ctx ends.
	LockFair(ctx context.Context, name string) (Held, error)
}

// A Pairer drives pairs of lock and unlock its own way, which is faster than one goroutine a name
// can. It drives until stop returns true, and calls pair with how long each pair took and the time
// that it began.
type Pairer interface {
	Pairs(ctx context.Context, names []string, stop func() bool, pair func(worker int, began time.Time)) error
	Workers(names int) int
}

// Kind is the side on which a candidate stands.
type Kind string

// The kinds.
const (
	Holdfast Kind = "holdfast"
	Waker    Kind = "waker"   // the same scripts, another way of waking
	Peer     Kind = "peer"    // another library
	Ceiling  Kind = "ceiling" // what it would be without locks, or without Redis
	// Neighbour: another client that takes the same locks as holdfast.
	Neighbour Kind = "neighbour"
	// ReadWrite: a way for many to read and one to write. Its lockers are Sided, and so are those
	// of holdfast.
	ReadWrite Kind = "read-write"
	// Several: a way to lock several names. Its lockers are SetLockers, and so are those of some
	// libraries.
	Several Kind = "several"
	// Permit: a way to take one of several permits. Its lockers are Limiters, and so are those of
	// holdfast.
	Permit Kind = "permit"
	// Fair: a way to serve the waiters of several clients. Its lockers are FairLockers, and so are
	// those of holdfast.
	Fair Kind = "fair"
)

// Config is what an adapter is told.
type Config struct {
	Addr  string
	Lease time.Duration // zero: the client's own default
	Seed  uint64        // of whatever is random
	Renew bool          // keep held locks alive, where the client leaves that to its users
	User  string        // of the server, and its password; empty: the default user. For holdfast
}

// A Candidate is a way to lock that can be measured.
type Candidate struct {
	Name  string
	Kind  Kind
	About string // one line
	Open  func(ctx context.Context, c Config) (Locker, error)
	// Extra are commands that it sends beside scripts and subscriptions.
	Extra []string
	// NeedsServer is false for what runs without Redis.
	NeedsServer bool
	// Poll is the longest time between two tries of one that polls. A release must meet it at a
	// random moment of that time.
	Poll time.Duration
	// Java is set if it is measured in a JVM. Then there is no Open.
	Java bool
}

// Redisson is measured only if it was built. It is not among those of All.
var Redisson = Candidate{
	Name: "Redisson " + redisson.Version, Kind: Peer, NeedsServer: true, Java: true,
	About: "Redisson with its default options in a JVM of its own, which has done the same work for 6 to 30 s before. Each caller is a thread",
}

// All returns every candidate but Redisson, in the order of the tables.
func All() []Candidate {
	return slices.Concat([]Candidate{holdfast}, wakers, peers, neighbours, sided, several, counters, ordered, ceilings)
}

// ByName returns a candidate.
func ByName(name string) (Candidate, bool) {
	for _, c := range append(All(), Redisson) {
		if c.Name == name {
			return c, true
		}
	}
	return Candidate{}, false
}

// Names returns the names of all candidates of the given kinds.
func Names(kinds ...Kind) []string {
	var names []string
	for _, c := range All() {
		if slices.Contains(kinds, c.Kind) {
			names = append(names, c.Name)
		}
	}
	return names
}
