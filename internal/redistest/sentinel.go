package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// MasterSet is the name by which Sentinels know the master.
const MasterSet = "main"

// A Watched is a master and its replicas, with Sentinels that replace the master.
type Watched struct {
	Servers   []*Server // the first one is the master at the start
	Sentinels []*Server
}

// StartSentinel runs a master with some replicas and three Sentinels, and returns when all know
// each other. A master that does not answer for a second is replaced. All are killed when t ends.
// Where there is no server to run, t is skipped: see [Start]. args come last on the command lines
// of master and replicas.
func StartSentinel(t testing.TB, replicas int, args ...string) *Watched {
	t.Helper()
	return watch(t, StartReplicas(t, replicas, args...))
}

// watch runs three Sentinels for a master, which is the first server, and its replicas.
func watch(t testing.TB, servers []*Server) *Watched {
	t.Helper()
	w, master := &Watched{Servers: servers}, servers[0]
	deadline := time.Now().Add(clusterTimeout)
	for range 3 {
		config := filepath.Join(t.TempDir(), "sentinel.conf")
		text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 2000\nsentinel failover-timeout %[1]s 3000\n", MasterSet, master.Port())
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.Sentinels = append(w.Sentinels, startPlain(t, config, []string{"--sentinel"}))
	}
	for _, s := range w.Sentinels {
		if err := rediscluster.Until(deadline, func() error { return w.knowsAll(s) }); err != nil {
			t.Fatalf("redistest: sentinel: %v", err)
		}
	}
	return w
}

// StartReplicas runs a master, the first server, with some replicas, and returns when these have
// its data and WAIT counts them. All are killed when t ends. Where there is no server to run, t is
// skipped: see [Start]. args come last on the command lines.
func StartReplicas(t testing.TB, replicas int, args ...string) []*Server {
	t.Helper()
	return startReplicas(t, replicas, args)
}

// startReplicas is StartReplicas. The replicas have env in their environment.
func startReplicas(t testing.TB, replicas int, args []string, env ...string) []*Server {
	t.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)
	all := []*Server{startPlain(t, "", args)}
	for range replicas {
		all = append(all, startPlain(t, "", append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(all[0].Port())}, args...), env...))
	}
	deadline := time.Now().Add(clusterTimeout)
	for _, s := range all[1:] {
		if err := rediscluster.Until(deadline, func() error { return synced(s) }); err != nil {
			t.Fatalf("redistest: replica: %v", err)
		}
	}
	if err := rediscluster.Until(deadline, func() error { return counted(all[0], replicas) }); err != nil {
		t.Fatalf("redistest: replica: %v", err)
	}
	return all
}

// startPlain starts a server without access rules, with env added to its environment.
func startPlain(t testing.TB, config string, args []string, env ...string) *Server {
	t.Helper()
	s := &Server{t: t, args: args}
	s.server = &redisserver.Server{Binary: find(t), Dir: t.TempDir(), Config: config, Env: env}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("redistest: last lines of the server at %s:\n%s", s.Addr(), s.server.Log())
		}
	})
	if err := s.launch(s.server.Start); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// synced returns nil if a replica has its master's data.
func synced(s *Server) error {
	info, err := s.Do("INFO", "replication")
	if err == nil && !strings.Contains(info, "master_link_status:up") {
		err = fmt.Errorf("%s has no data yet", s.Addr())
	}
	return err
}

// counted returns nil if a master has heard of its replicas that they have what it wrote last. A
// replica that has all data may be silent for a second, and the master sends it nothing until then.
func counted(master *Server, replicas int) error {
	c, err := resp.Dial(master.Addr(), roundTripTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.DoText("PUBLISH", "redistest", ""); err != nil {
		return err
	}
	n, err := c.DoText("WAIT", strconv.Itoa(replicas), "1000")
	if err == nil && n != strconv.Itoa(replicas) {
		err = fmt.Errorf("%s counts %s replicas of %d", master.Addr(), n, replicas)
	}
	return err
}

// knowsAll returns nil if a Sentinel knows the other two and all replicas.
func (w *Watched) knowsAll(s *Server) error {
	info, err := s.Do("INFO", "sentinel")
	if want := fmt.Sprintf("slaves=%d,sentinels=3", len(w.Servers)-1); err == nil && !strings.Contains(info, want) {
		err = fmt.Errorf("the Sentinel at %s does not know all: %s", s.Addr(), info)
	}
	return err
}

// Addrs returns the addresses of the Sentinels.
func (w *Watched) Addrs() (all []string) {
	for _, s := range w.Sentinels {
		all = append(all, s.Addr())
	}
	return all
}

// Master returns the present master, as the first Sentinel that answers says, or nil.
func (w *Watched) Master() *Server {
	for _, s := range w.Sentinels {
		addr, err := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet)
		if err != nil {
			continue
		}
		_, port, _ := strings.Cut(addr, "\n")
		for _, o := range w.Servers {
			if strconv.Itoa(o.Port()) == port {
				return o
			}
		}
	}
	return nil
}
