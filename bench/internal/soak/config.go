package soak

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says what a run is like.
type Config struct {
	Server   string        // path of the server's binary
	Cluster  bool          // six nodes instead of one server
	Acks     int           // Options.Replicas.Acks of the managers; for a cluster
	Duration time.Duration // of the load
	Procs    int           // worker processes
	Workers  int           // goroutines of each
	Names    int           // locks, of which a third are held for long
	Lease    time.Duration // Options.Lease of the managers
	Every    time.Duration // mean time between two faults
	Faults   []string      // as ParseFaults returns them
	Seed     uint64        // of the faults' schedule and of the load
	Client   string        // "": holdfast. Else a broken client, see the package documentation

	// Status is called some times a second with how it goes, from one goroutine. It may be nil.
	Status func(Status)
}

// The limits of a Config. The register's numbers and the histories' memory are made for these.
const (
	maxProcs   = 64
	maxWorkers = 4096
	maxNames   = 4096
	minLease   = 300 * time.Millisecond // so that CommandTimeout is not absurd
	maxLease   = 5 * time.Second        // well below what package check looks back
)

// check returns an error if there is no such run.
func (c Config) check() error {
	within := func(what string, n, least, most int) error {
		if n < least || n > most {
			return fmt.Errorf("soak: %s is %d, want %d to %d", what, n, least, most)
		}
		return nil
	}
	err := errors.Join(
		within("the number of processes", c.Procs, 1, maxProcs),
		within("the number of workers", c.Workers, 1, maxWorkers),
		within("the number of names", c.Names, 1, maxNames))
	if c.Duration < 0 || c.Every < 0 || c.Lease < minLease || c.Lease > maxLease {
		err = errors.Join(err, fmt.Errorf("soak: want times that are not negative, and a lease of %v to %v", minLease, maxLease))
	}
	for _, f := range c.Faults {
		if k, ok := kindOf(f); !ok || !k.concerns(c.Cluster) {
			err = errors.Join(err, fmt.Errorf("soak: no fault %q of such servers", f))
		}
	}
	if c.Acks != 0 && !c.Cluster {
		err = errors.Join(err, errors.New("soak: one server has no replicas that could acknowledge"))
	}
	if !slices.Contains(clients, c.Client) {
		err = errors.Join(err, fmt.Errorf("soak: no client %q, there are %q", c.Client, clients[1:]))
	}
	return err
}

// breaking tells whether a fault of the run voids what is promised.
func (c *Config) breaking() bool {
	return slices.ContainsFunc(c.Faults, func(f string) bool { k, _ := kindOf(f); return k.breaking })
}

// slow tells whether a lock is one of those that are held for long.
func slow(name, names int) bool { return names > 1 && name >= names-(names+1)/3 }

// tryOnly tells whether nobody waits for a lock: all only try, often. A waiter in another process
// asks some time after a lease has ended; somebody who tries finds out how long before its end the
// holder stopped believing.
func tryOnly(name, names int) bool { return name == names-1 && slow(names-2, names) }

// readWrite reports whether a lock is a read-write lock. Those with odd numbers are, except one
// that is only tried for.
func readWrite(name, names int) bool { return name%2 == 1 && !tryOnly(name, names) }

// fair reports whether a lock is a fair one: every fourth is, except one that is only tried for.
func fair(name, names int) bool { return name%4 == 2 && !tryOnly(name, names) }

// There are permits of permitNames names, permitLimit of each. Their numbers follow those of the
// locks. A request is for permitMost at most. Those of the last name are held for long.
const (
	permitNames = 3
	permitLimit = 4
	permitMost  = 3
)

// A group is groupSize names that share a slot of a cluster.
const groupSize = 8

func group(name int) int { return name / groupSize }

// lockName is the name of a lock, or of permits.
func lockName(i int) string { return fmt.Sprintf("soak:{%d}:%d", group(i), i) }
