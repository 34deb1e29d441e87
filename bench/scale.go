package main

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/bench/internal/scale"
	"github.com/holdfast-go/holdfast/bench/internal/server"
	"github.com/holdfast-go/holdfast/internal/rediscluster"
	"github.com/holdfast-go/holdfast/internal/redisserver"
)

// scale measures one manager with many locks, first on one server and then on a cluster.
func (p program) scale(ctx context.Context, args []string) int {
	c := scale.Config{}
	flags := flag.NewFlagSet("bench scale", flag.ContinueOnError)
	flags.SetOutput(p.err)
	flags.IntVar(&c.Locks, "locks", 100_000, "held at once")
	flags.DurationVar(&c.Lease, "lease", 2*time.Minute, "of each; the first tick comes after a third of it")
	flags.IntVar(&c.Hands, "hands", 1000, "goroutines that take locks")
	flags.DurationVar(&c.Pairs, "pairs", 3*time.Second, "how long uncontended pairs are counted")
	masters := flags.Int("masters", 3, "of the cluster")
	binary := flags.String("redis", "", "the server's binary (default redis-server or valkey-server from PATH)")
	if err := flags.Parse(args); err != nil {
		return badFlags(err)
	}
	path, err := redisserver.Find(*binary)
	if err != nil {
		return p.fail(1, err)
	}
	one, err := server.Start(path)
	if err != nil {
		return p.fail(1, err)
	}
	defer one.Stop()
	cluster, err := rediscluster.StartLocal(path, *masters, 0)
	if err != nil {
		return p.fail(1, err)
	}
	defer cluster.Stop()
	t := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "%d locks, leases of %v\n", c.Locks, c.Lease)
	for _, s := range []struct {
		name  string
		addrs []string
	}{{one.Name(), []string{one.Addr()}}, {fmt.Sprintf("%d x %s", *masters, one.Name()), cluster.Addrs()}} {
		c.Addrs = s.addrs
		r, err := scale.Run(ctx, c)
		if err != nil {
			return p.fail(1, err)
		}
		row := func(what, format string, args ...any) {
			fmt.Fprintf(t, "%s\t%s\t%s\n", s.name, what, fmt.Sprintf(format, args...))
		}
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		row("uncontended pairs", "%.0f/s, %.2f cores of the client, %.2f of the servers", r.Pairs, r.PairClient, r.PairServer)
		row("taking all locks", "%.0f ms, %.0f/s", ms(r.Taking), float64(c.Locks)/r.Taking.Seconds())
		row("a tick", "%d leases in %.0f ms, %.0f scripts a server", r.Renewed, ms(r.Tick), r.Scripts)
		row("CPU meanwhile", "client %.0f ms, %.1f us a lease; each server %.0f ms, %.1f us a lease", ms(r.Client), 1000*ms(r.Client)/float64(c.Locks), ms(r.Server), 1000*ms(r.Server)*float64(len(s.addrs))/float64(c.Locks))
		row("grants between ticks", "p50 %.2f ms, p99 %.2f ms, at most %.2f ms, of %d", ms(r.Between.P50), ms(r.Between.P99), ms(r.Between.Max), r.Between.N)
		row("grants during the tick", "p50 %.2f ms, p99 %.2f ms, at most %.2f ms, of %d", ms(r.During.P50), ms(r.During.P99), ms(r.During.Max), r.During.N)
		row("lost", "%d", r.Lost)
	}
	return 0
}
