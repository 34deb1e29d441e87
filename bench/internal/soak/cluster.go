package soak

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediscluster"
)

const (
	// freezeMost is how long a node of a cluster is frozen. Others wait for it for a second before
	// they replace it.
	freezeMost = 600 * time.Millisecond
	// promoteTime bounds the time until a replica is promoted, and healTime the time until the
	// cluster is whole again.
	promoteTime = 20 * time.Second
	healTime    = 30 * time.Second
)

// hitCluster does a fault of the cluster, and returns when the cluster is whole again.
func (run *run) hitCluster(f Fault, r *rand.Rand, stop <-chan struct{}) (int, error) {
	masters, replicas := run.fleet.masters()
	if len(masters) == 0 || len(replicas) == 0 {
		return 0, errors.New("the cluster has no masters, or no replicas")
	}
	master, replica := masters[r.IntN(len(masters))], replicas[r.IntN(len(replicas))]
	blows := 1
	var err error
	switch f.Kind {
	case "failover":
		_, err = replica.Do("CLUSTER", "FAILOVER")
		if err == nil {
			err = promoted(replica)
		}
	case "takeover":
		_, err = replica.Do("CLUSTER", "FAILOVER", "TAKEOVER")
	case "migrate":
		blows, err = run.migrate(r, f.For, stop)
	case "crash":
		master.Kill()
		_, replicas := run.fleet.masters()
		err = onePromoted(replicas)
		err = errors.Join(err, master.restart())
	case "hang":
		if err = master.Signal(signalStop); err == nil {
			err = onePromoted(replicas)
			err = errors.Join(err, master.Signal(signalCont))
		}
	}
	if err != nil {
		return 0, err
	}
	return blows, rediscluster.Until(time.Now().Add(healTime), run.fleet.healed)
}

// promoted waits until a replica is a master.
func promoted(replica *redisServer) error { return onePromoted([]*redisServer{replica}) }

// onePromoted waits until one of some replicas is a master.
func onePromoted(replicas []*redisServer) error {
	return rediscluster.Until(time.Now().Add(promoteTime), func() error {
		for _, n := range replicas {
			if role, err := n.Do("ROLE"); err == nil && strings.HasPrefix(role, "master") {
				return nil
			}
		}
		return errors.New("no replica was promoted")
	})
}

// migrate moves the slots of some names from master to master for a time.
func (run *run) migrate(r *rand.Rand, d time.Duration, stop <-chan struct{}) (moved int, err error) {
	end := time.Now().Add(d)
	for moved == 0 || time.Now().Before(end) {
		masters, _ := run.fleet.masters()
		if len(masters) == 0 {
			return moved, errors.New("no master answers")
		}
		key := lockName(skewed(r, run.Names))
		if err := run.fleet.cluster.Move(key, masters[r.IntN(len(masters))]); err != nil {
			return moved, fmt.Errorf("after %d slots: %w", moved, err)
		}
		moved++
		pause(5*time.Millisecond, stop)
	}
	return moved, nil
}
