package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
)

// A Cluster is some child servers that form a Redis Cluster.
type Cluster struct {
	rediscluster.Cluster[*Server]
}

// clusterTimeout bounds the time until replicas and Sentinels know their master.
const clusterTimeout = 20 * time.Second

// StartCluster runs a cluster of some masters, each with some replicas, and returns when all nodes
// agree on it. A master that does not answer for a second is failed over to its replica. Its nodes
// are killed when t ends. Where there is no server to run, t is skipped: see [Start]. args come
// last on the command line of each node.
func StartCluster(t testing.TB, masters, replicas int, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{}
	c.Masters = masters
	for range masters * (1 + replicas) {
		c.Nodes = append(c.Nodes, startNode(t, args))
	}
	if err := c.Form(); err != nil {
		t.Fatalf("redistest: cluster: %v", err)
	}
	return c
}

// startNode starts a server that is in cluster mode. It has no access rules: cluster nodes have too
// many commands of their own.
func startNode(t testing.TB, args []string) *Server {
	t.Helper()
	return startPlain(t, "", append(rediscluster.Args(), args...))
}

// Move moves the slot of a key to another master, with all its keys.
func (c *Cluster) Move(t testing.TB, key string, to *Server) {
	t.Helper()
	if err := c.Cluster.Move(key, to); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// A Moving is a slot on its way from one master to another.
type Moving struct {
	From, To *Server

	t       testing.TB
	cluster *Cluster
	key     string // one of the slot
	slot    string
}

// Movable returns a name of a form, with a number in it, whose slot belongs to the first master at
// the start. All moves that [Cluster.BeginMove] begins go from there to the second one: if one soon
// follows another in the opposite direction, a slot may fall back.
func (c *Cluster) Movable(t testing.TB, form string) string {
	t.Helper()
	for i := 0; ; i++ {
		name := fmt.Sprintf(form, i)
		slot, err := c.Nodes[0].Do("CLUSTER", "KEYSLOT", name)
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		if n, _ := strconv.Atoi(slot); n < 1<<14/c.Masters {
			return name
		}
	}
}

// BeginMove begins to move the slot of a key that is movable. Its keys stay until Migrate or Finish
// is called.
func (c *Cluster) BeginMove(t testing.TB, key string) *Moving {
	t.Helper()
	m := &Moving{From: c.Nodes[0], To: c.Nodes[1], t: t, cluster: c, key: key}
	m.slot = m.do(m.From, "CLUSTER", "KEYSLOT", key)
	m.do(m.To, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.do(m.From, "CLUSTER", "MYID"))
	m.do(m.From, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.do(m.To, "CLUSTER", "MYID"))
	return m
}

func (m *Moving) do(s *Server, words ...string) string {
	m.t.Helper()
	reply, err := s.Do(words...)
	if err != nil {
		m.t.Fatalf("redistest: %v: %v", words, err)
	}
	return reply
}

// Migrate takes keys to the new master. The slot stays.
func (m *Moving) Migrate(keys ...string) {
	m.t.Helper()
	for _, key := range keys {
		if reply := m.do(m.From, "MIGRATE", "127.0.0.1", strconv.Itoa(m.To.Port()), key, "0", "2000"); reply != "OK" {
			m.t.Fatalf("redistest: MIGRATE %s: %s", key, reply)
		}
	}
}

// Keys returns the keys of the slot that a master has.
func (m *Moving) Keys(at *Server) []string {
	m.t.Helper()
	return strings.Fields(m.do(at, "CLUSTER", "GETKEYSINSLOT", m.slot, "100"))
}

// Finish takes the remaining keys to the new master, and then the slot.
func (m *Moving) Finish() {
	m.t.Helper()
	m.cluster.Move(m.t, m.key, m.To)
}
