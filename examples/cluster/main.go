// Cluster shows locks that survive a failover: it runs a Redis Cluster, holds a thousand locks in
// it, and kills a master.
//
//	go run ./examples/cluster
//	go run ./examples/cluster -locks 10000 -calm 5s
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/examples/internal/cli"
	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/lockmgr"
)

const about = `A cluster of three masters and their replicas runs on this machine. A manager holds many
locks in it. One master is killed, and its replica takes over. Each second a line tells how many
locks are held, and how long the slowest grant took at each of the three masters of the beginning.
This program needs redis-server or valkey-server on PATH.`

func main() { cli.Main("cluster", run) }

const (
	masters = 3
	// A replica takes over after one to three seconds. The locks must outlive that.
	lease = 10 * time.Second
	// promoteTime bounds the wait for the promotion.
	promoteTime = 20 * time.Second
)

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	locks := flags.Int("locks", 1000, "`number` of locks")
	calm := flags.Duration("calm", 3*time.Second, "`time` before and after the failover")
	if err := cli.Parse(flags, out, about, args); err != nil {
		return err
	}
	if *locks < 1 || *calm <= 0 {
		return cli.Usage("-locks and -calm must be positive")
	}
	binary, err := redisserver.Find("")
	if err != nil {
		return fmt.Errorf("%w: install one of them, with apt install redis-server for instance", err)
	}
	nodes, err := rediscluster.StartLocal(binary, masters, 1)
	if err != nil {
		return err
	}
	defer nodes.Stop()
	fmt.Fprintf(out, "%d nodes of %s form a cluster: %d masters, each with a replica.\n", len(nodes.Nodes), nodes.Nodes[0].Name(), masters)

	// With Acks, a lock is granted when the replica has it. Without, a failover could lose the
	// locks of its last moment. While a replica takes over, waiting requests do not fail.
	mgr, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: nodes.Addrs()}, lockmgr.Options{
		Lease: lease, Replicas: lockmgr.Replicas{Acks: 1}, RetryTime: promoteTime,
	})
	if err != nil {
		return err
	}
	s := &story{ctx: ctx, out: out, nodes: nodes, mgr: mgr}
	if err := errors.Join(s.play(*locks, *calm), closeManager(ctx, mgr)); err != nil {
		return err
	}
	if err := s.nothingLeft(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nDone: %d of %d locks survived the failover, and all are given back.\n", s.survived, *locks)
	return nil
}

func closeManager(ctx context.Context, mgr *lockmgr.Manager) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return mgr.Close(ctx)
}

// A story is one run.
type story struct {
	ctx   context.Context
	out   io.Writer
	nodes *rediscluster.Local
	mgr   *lockmgr.Manager
	held  []*lockmgr.Lock

	survived int
}

func (s *story) play(locks int, calm time.Duration) error {
	if err := s.take(locks); err != nil {
		return err
	}
	if err := s.failover(calm); err != nil {
		return err
	}
	return s.giveBack()
}

// take takes the locks, on all masters.
func (s *story) take(n int) error {
	s.held = make([]*lockmgr.Lock, n)
	hands, ctx := errgroup.WithContext(s.ctx)
	hands.SetLimit(100)
	begin := time.Now()
	for i := range n {
		hands.Go(func() (err error) {
			s.held[i], err = s.mgr.Lock(ctx, "job:"+strconv.Itoa(i))
			return err
		})
	}
	if err := hands.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%d locks are held after %v, each on a master and its replica.\n\n", n, time.Since(begin).Round(time.Millisecond))
	return nil
}

// failover kills a master and waits until its replica has taken over. Until some time after that,
// customers take locks of all masters, and a line a second tells how it goes.
func (s *story) failover(calm time.Duration) error {
	customers, stop := s.openShop()
	defer stop()
	begin := time.Now()
	watch := func(d time.Duration, done func() bool) error {
		for end := time.Now().Add(d); time.Now().Before(end) && !done(); {
			select {
			case <-s.ctx.Done():
				return s.ctx.Err()
			case <-time.After(min(time.Second, time.Until(end))):
				fmt.Fprintf(s.out, "%5.1f s: %d of %d locks are held; slowest grants: %v\n", time.Since(begin).Seconds(), s.valid(), len(s.held), customers.report())
			}
		}
		return nil
	}
	never := func() bool { return false }
	if err := watch(calm, never); err != nil {
		return err
	}
	const name = "job:0"
	victim := s.nodes.Owner(name)
	victim.Kill()
	fmt.Fprintf(s.out, "         the master of %s is killed\n", name)
	killed := time.Now()
	promoted := func() bool {
		now := s.nodes.Owner(name)
		return now != rediscluster.Child{} && now != victim
	}
	if err := watch(promoteTime, promoted); err != nil {
		return err
	}
	if !promoted() {
		return fmt.Errorf("no replica has taken over within %v", promoteTime)
	}
	fmt.Fprintf(s.out, "         its replica has taken over, within %v\n", time.Since(killed).Round(100*time.Millisecond))
	// The new master has no replica, so it can grant nothing that a replica must have.
	if err := s.nodes.Restart(victim); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "         the killed node runs again, as a replica")
	return watch(calm, never)
}

func (s *story) valid() (n int) {
	for _, l := range s.held {
		if l.Valid() {
			n++
		}
	}
	return n
}

// giveBack gives the locks back.
func (s *story) giveBack() error {
	s.survived = s.valid()
	hands, ctx := errgroup.WithContext(s.ctx)
	hands.SetLimit(100)
	for _, l := range s.held {
		hands.Go(func() error { return l.Unlock(ctx) })
	}
	err := hands.Wait()
	if s.survived < len(s.held) {
		return errors.Join(fmt.Errorf("%d of %d locks did not survive", len(s.held)-s.survived, len(s.held)), err)
	}
	return err
}

// nothingLeft returns an error if keys are left. Replicas remove them a moment later.
func (s *story) nothingLeft() error {
	return rediscluster.Until(time.Now().Add(promoteTime), func() error {
		for _, n := range s.nodes.Nodes {
			if size, err := n.Do("DBSIZE"); err != nil || size != "0" {
				return errors.Join(err, fmt.Errorf("%s keys are left at %s", size, n.Addr()))
			}
		}
		return nil
	})
}
