package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/clean"
	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/wire"
)

// hello asks the server what it is.
func (m *Manager) hello(ctx context.Context) (wire.Answer, error) {
	return m.run(ctx, "", wire.Command{Args: []string{"HELLO"}})
}

// inCluster reports whether a server that has answered hello is a node of a cluster: a master or a
// replica, however many masters there are. The cluster may get more, and another node may become
// the master.
func inCluster(hello *wire.Answer) bool { return hello.Field("mode") == "cluster" }

// errSentinel says that a server is a Sentinel.
var errSentinel = errors.New("the server is a Sentinel: set ClientOption.Sentinel.MasterSet, or master_set in the URL, to the name of the master")

// notSingle returns why a server is no single server, or nil. forced is set if the server may be a
// node of a cluster. Only a manager that connects later needs notSingle, for its first greeting.
func notSingle(hello *wire.Answer, forced bool) *wire.Failure {
	f := &wire.Failure{Kind: wire.Topology, Ran: core.No, Final: true}
	switch {
	case hello.Field("mode") == "sentinel":
		f.Err = errSentinel
	case inCluster(hello) && !forced:
		f.Err = errors.New("the server is a node of a cluster")
		f.Hint = "with Options.ConnectLater, Dial takes a single address for a single server: give another address, or the same twice"
	default:
		return nil
	}
	return f
}

// topology asks the server whether it is a replica, part of a cluster or a Sentinel. The error
// matches ErrReadOnly if the server is a replica, and ErrTopology if locks can't work there for
// another reason. The error matches ErrPermission if the user may not ask whether the cluster has
// other masters. Any other error means that no answer came.
//
// The warning says what a cluster or Sentinels mean for locks. The warning is empty for a single
// server, and if the server does not say. A manager of a cluster asks nothing.
func (m *Manager) topology(ctx context.Context) (warning string, err error) {
	if m.clustered {
		return fmt.Sprintf("a cluster, masters with slots: %d. A failover may lose a lock, as a master answers before its replicas know; a set whose names are in several slots needs a script for each of them", len(m.lanes.Masters())), nil
	}
	a, err := m.hello(ctx)
	if err != nil {
		return "", err
	}
	return m.topologyBy(ctx, &a)
}

// topologyBy is topology for a manager of a single server, or of a master of Sentinels, after the
// server has answered hello.
func (m *Manager) topologyBy(ctx context.Context, a *wire.Answer) (warning string, err error) {
	var errReplica error
	if a.Field("role") == "replica" {
		errReplica = &ServerError{Kind: ErrReadOnly, Err: errors.New("the server is a replica: locks can't be taken there"), Hint: "connect to the master"}
	}
	if m.manyServers {
		if errReplica != nil {
			return "", errReplica
		}
		return "a master that Sentinels watch: a failover may lose a lock, as the master answers before its replicas know", nil
	}
	switch {
	case a.Field("mode") == "sentinel":
		return "", fmt.Errorf("%w: %w", ErrTopology, errSentinel)
	case !inCluster(a):
		return "", errReplica
	}
	// The client is for a single server. A replica has to say, too, whether there are other
	// masters.
	info, err := m.run(ctx, "", wire.Command{Args: []string{"CLUSTER", "INFO"}})
	if err != nil {
		return "", err
	}
	if f := info.Failure; f != nil && f.Kind == wire.Permission {
		return "", serverError(f)
	}
	for line := range strings.Lines(info.Text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_size:"); ok && n != "0" && n != "1" {
			return "", fmt.Errorf("%w: the server shares a cluster with others: it is one of %s, and keeps some names only", ErrTopology, clean.Text(n, clean.Most))
		}
	}
	if errReplica != nil {
		return "", errReplica
	}
	return "the server is part of a cluster, and the client is one for a single server: no failover and no new master is followed, clients of the cluster listen on other channels, and no two locks share a command", nil
}

// strangers asks the node at the address of each master of a cluster. The error matches ErrTopology
// if a node belongs to another cluster.
func (m *Manager) strangers(ctx context.Context) error {
	if m.nodes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.options.CommandTimeout)
	defer cancel()
	at := m.nodes.Strangers(ctx)
	if len(at) == 0 {
		return nil
	}
	return fmt.Errorf("%w: a node of another cluster answers at the address of a master: %s", ErrTopology, clean.Text(strings.Join(at, ", "), clean.Most))
}
