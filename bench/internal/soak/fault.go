package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A kind of fault. Durations of a fault are given as shares of the lease.
type kind struct {
	name     string
	about    string
	weight   int // how often, in comparison
	breaking bool
	server   bool // its target is the server, or a node of the cluster; else one worker process
	only     where
	least    float64
	most     float64 // zero: it takes no time
}

// where says which servers have a fault.
type where uint8

const (
	anywhere where = iota
	single         // one server
	clusters
)

// concerns reports whether a fault is one of a cluster, or else of one server.
func (k kind) concerns(cluster bool) bool {
	return k.only == anywhere || (k.only == clusters) == cluster
}

// kinds are all faults, in the order in which they are listed.
var kinds = []kind{
	{name: "kill", about: "SIGKILL of a worker, and another in its place", weight: 2},
	{name: "stop", about: "SIGSTOP of a worker, mostly for longer than its leases", weight: 4, least: 0.2, most: 2.5},
	{name: "lost", about: "a reply is lost with its connection: the script has run", weight: 6, least: 0.3, most: 0.3},
	{name: "cut", about: "the connections of a worker break", weight: 4},
	{name: "before", about: "a connection breaks in place of a script", weight: 3, least: 0.3, most: 0.3},
	{name: "delay", about: "replies to a worker are slow", weight: 5, least: 0.2, most: 2},
	{name: "stall", about: "a worker's bytes are kept back, and arrive later", weight: 3, least: 0.1, most: 1.5},
	{name: "hole", about: "a worker's bytes vanish, half-open connections", weight: 2, least: 0.2, most: 1.5},
	{name: "refuse", about: "a worker's connections break, and new ones are refused", weight: 2, least: 0.1, most: 1.5},
	{name: "deaf", about: "the subscriptions of a worker break, and those to come", weight: 3, least: 0.2, most: 1},
	{name: "freeze", about: "SIGSTOP of the server", weight: 2, server: true, least: 0.01, most: 1.3},
	{name: "pause", about: "CLIENT PAUSE", weight: 2, server: true, least: 0.01, most: 0.8},
	{name: "restart", about: "SIGKILL of the server, and its restart with its data", weight: 1, server: true, only: single, least: 0.01, most: 0.3},
	{name: "killnormal", about: "CLIENT KILL of all connections that send commands", weight: 2, server: true},
	{name: "killpubsub", about: "CLIENT KILL of all connections that listen", weight: 4, server: true},
	{name: "scripts", about: "SCRIPT FLUSH, again and again", weight: 2, server: true, least: 0.05, most: 0.3},
	{name: "flood", about: "20,000 wake-ups for nothing, garbage among them", weight: 1, server: true, only: single},

	{name: "failover", about: "a replica takes over in good order (cluster)", weight: 2, server: true, only: clusters},
	{name: "migrate", about: "slots of locks move to another master (cluster)", weight: 6, server: true, only: clusters, least: 0.1, most: 0.5},

	{name: "crash", about: "SIGKILL of a master; its replica is promoted (cluster)", weight: 2, breaking: true, server: true, only: clusters},
	{name: "hang", about: "SIGSTOP of a master until its replica is promoted (cluster)", weight: 2, breaking: true, server: true, only: clusters},
	{name: "takeover", about: "a replica takes over without asking anybody (cluster)", weight: 2, breaking: true, server: true, only: clusters},
	{name: "flushall", about: "FLUSHALL", weight: 1, breaking: true, server: true, only: single},
	{name: "del", about: "DEL of a lock, or of a counter of permits, by hand", weight: 6, breaking: true, server: true, only: single},
	{name: "forget", about: "restart of the server without its data", weight: 1, breaking: true, server: true, only: single, least: 0.01, most: 0.3},
	{name: "evict", about: "the server evicts whatever it likes", weight: 1, breaking: true, server: true, only: single, least: 0.2, most: 0.5},
}

func kindOf(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Kinds describes the faults there are, a line each.
func Kinds() string {
	var b strings.Builder
	for _, k := range kinds {
		class := ""
		if k.breaking {
			class = " (breaking)"
		}
		fmt.Fprintf(&b, "  %-11s %s%s\n", k.name, k.about, class)
	}
	return b.String()
}

// ParseFaults reads a list of faults, separated by commas: names, "all" for all that may do no
// harm, "breaking" for those that void the promises, "none". cluster says for which servers.
func ParseFaults(text string, cluster bool) ([]string, error) {
	chosen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		switch part = strings.TrimSpace(part); part {
		case "none", "":
		case "all", "breaking":
			for _, k := range kinds {
				if k.breaking == (part == "breaking") && k.concerns(cluster) {
					chosen[k.name] = true
				}
			}
		default:
			if _, ok := kindOf(part); !ok {
				return nil, fmt.Errorf("no fault %q; there are all, breaking, none and:\n%s", part, Kinds())
			}
			chosen[part] = true
		}
	}
	var out []string
	for _, k := range kinds {
		if chosen[k.name] {
			out = append(out, k.name)
		}
	}
	return out, nil
}

// A Fault is one entry of a schedule.
type Fault struct {
	At   time.Duration // since the workers are ready
	Kind string
	Slot int // which worker process; -1: the server
	For  time.Duration
	Seed uint64 // of what is random in it
}

func (f Fault) String() string {
	target := "server"
	if f.Slot >= 0 {
		target = fmt.Sprintf("worker %d", f.Slot)
	}
	s := fmt.Sprintf("%9.3fs  %-11s %s", f.At.Seconds(), f.Kind, target)
	if f.For > 0 {
		s += fmt.Sprintf(" for %v", f.For)
	}
	return s
}
