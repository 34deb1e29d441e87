// Package rediscluster makes a Redis Cluster of servers that run, and changes it. Tests use it
// through internal/redistest. The bench and the examples have no test and use it directly.
package rediscluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Node is a server in cluster mode.
type Node interface {
	comparable
	Addr() string
	Port() int
	// Do sends a command and returns the reply as text, an array's elements on lines of their own.
	Do(words ...string) (string, error)
}

// A Cluster is some servers that form a Redis Cluster.
type Cluster[N Node] struct {
	// Nodes are the masters, which divide the slots evenly, and then the replicas: replica i is one
	// of master i modulo the number of masters. Failovers change these roles.
	Nodes   []N
	Masters int
}

// slots is how many slots a cluster has.
const slots = 1 << 14

// formTimeout bounds the time until a cluster serves all slots.
const formTimeout = 20 * time.Second

// Args are the arguments of a node's command line. A master that does not answer for a second is
// failed over to its replica.
func Args() []string {
	return []string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--cluster-allow-replica-migration", "no",
	}
}

// Form makes the nodes a cluster, and returns when all agree on it. The nodes must be empty, and
// run with [Args].
func (c *Cluster[N]) Form() error {
	ids := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		id, err := n.Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = id
		if i < c.Masters {
			first, last := i*slots/c.Masters, (i+1)*slots/c.Masters-1
			if _, err := n.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
				return err
			}
		}
		// Without different epochs the nodes would take seconds to agree.
		if _, err := n.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		for _, other := range c.Nodes[:i] { // each with each: gossip would take seconds
			if _, err := n.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port())); err != nil {
				return err
			}
		}
	}
	deadline := time.Now().Add(formTimeout)
	for i := c.Masters; i < len(c.Nodes); i++ {
		// Refused until the replica has heard of its master.
		if err := Until(deadline, func() error {
			_, err := c.Nodes[i].Do("CLUSTER", "REPLICATE", ids[i%c.Masters])
			return err
		}); err != nil {
			return err
		}
	}
	return c.Agree(deadline)
}

// Agree returns when all nodes agree who is a master and serves. After a failover a message from
// before may make a node believe for a moment that the new master is a replica and has no slots. If
// the new master dies then, the slots are lost.
func (c *Cluster[N]) Agree(deadline time.Time) error {
	for _, n := range c.Nodes {
		if err := Until(deadline, func() error { return c.agrees(n) }); err != nil {
			return err
		}
	}
	return nil
}

// agrees returns nil if a node knows all others and serves, and if, as a replica, it has its
// master's data.
func (c *Cluster[N]) agrees(n N) error {
	info, err := n.Do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	nodes, err := n.Do("CLUSTER", "NODES")
	if err != nil {
		return err
	}
	role, err := n.Do("INFO", "replication")
	switch {
	case err != nil:
		return err
	case !strings.Contains(info, "cluster_state:ok"):
		return fmt.Errorf("%s does not serve", n.Addr())
	case strings.Count(nodes, "connected") != len(c.Nodes) || strings.Contains(nodes, "handshake") || strings.Count(nodes, " slave ")+strings.Count(nodes, "myself,slave") != len(c.Nodes)-c.Masters:
		return fmt.Errorf("%s does not know all nodes:\n%s", n.Addr(), nodes)
	case strings.Contains(role, "role:slave") && !strings.Contains(role, "master_link_status:up"):
		return fmt.Errorf("%s has no data yet", n.Addr())
	}
	return nil
}

// Addrs returns the addresses of all nodes.
func (c *Cluster[N]) Addrs() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Addr())
	}
	return all
}

// Owner returns the node that serves a key's slot, as the first node that knows says. It is the
// zero N while a failover is going on.
func (c *Cluster[N]) Owner(key string) (owner N) {
	for _, n := range c.Nodes {
		slot, err := n.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			continue
		}
		nodes, err := n.Do("CLUSTER", "NODES")
		if err != nil {
			continue
		}
		if addr := ownerOf(nodes, slot); addr != "" {
			for _, o := range c.Nodes {
				if o.Addr() == addr {
					return o
				}
			}
		}
	}
	return owner
}

// claimant returns the node that says itself that it serves a key's slot: of several the newest.
// What nodes say of others is old for a while after a failover.
func (c *Cluster[N]) claimant(key string) (owner N) {
	newest := -1
	for _, n := range c.Nodes {
		slot, err := n.Do("CLUSTER", "KEYSLOT", key)
		if err != nil {
			continue
		}
		nodes, err := n.Do("CLUSTER", "NODES")
		if err != nil {
			continue
		}
		for line := range strings.Lines(nodes) {
			if strings.Contains(line, "myself,master") && ownerOf(line, slot) != "" {
				if epoch, _ := strconv.Atoi(strings.Fields(line)[6]); epoch > newest {
					owner, newest = n, epoch
				}
			}
		}
	}
	return owner
}

// ownerOf returns the address of the master of a slot, by the reply of CLUSTER NODES.
func ownerOf(nodes, slot string) string {
	want, _ := strconv.Atoi(slot)
	for line := range strings.Lines(nodes) {
		f := strings.Fields(line) // id addr@bus flags master ping pong epoch link slot…
		if len(f) < 9 || strings.Contains(f[2], "fail") {
			continue
		}
		for _, r := range f[8:] {
			if strings.HasPrefix(r, "[") {
				continue // a slot that is being moved
			}
			from, to, several := strings.Cut(r, "-")
			if !several {
				to = from
			}
			first, _ := strconv.Atoi(from)
			last, _ := strconv.Atoi(to)
			if first <= want && want <= last {
				addr, _, _ := strings.Cut(f[1], "@")
				return addr
			}
		}
	}
	return ""
}

// Move moves the slot of a key to another master, with all its keys. Nobody else may move it
// meanwhile.
func (c *Cluster[N]) Move(key string, to N) error {
	from := c.claimant(key)
	var none N
	if from == none {
		return fmt.Errorf("nobody serves the slot of %q", key)
	}
	var failed error
	do := func(n N, words ...string) string {
		if failed != nil {
			return ""
		}
		out, err := n.Do(words...)
		if err != nil {
			failed = fmt.Errorf("%v at %s: %w", words, n.Addr(), err)
		}
		return out
	}
	slot, source, target := do(from, "CLUSTER", "KEYSLOT", key), do(from, "CLUSTER", "MYID"), do(to, "CLUSTER", "MYID")
	if failed != nil || from == to {
		return failed
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	for failed == nil {
		keys := strings.Fields(do(from, "CLUSTER", "GETKEYSINSLOT", slot, "100"))
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			do(from, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), k, "0", "2000")
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "NODE", target)
	for _, n := range c.Nodes {
		if n != to && failed == nil {
			_, _ = n.Do("CLUSTER", "SETSLOT", slot, "NODE", target) // a replica refuses
		}
	}
	return failed
}

// Until calls f every 20 ms until it returns nil. After the deadline it returns f's last error.
func Until(deadline time.Time, f func() error) error {
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
