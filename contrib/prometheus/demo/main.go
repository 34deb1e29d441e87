// Demo puts a load on a server, so that the dashboard has something to show. Over and over two
// managers, anna and ben, do what the example quickstart does once: locks pass from one to the
// other, a try is refused, and a lock that is removed by force is lost.
//
//	docker compose -f contrib/prometheus/demo/compose.yml up --build
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	holdfastprom "github.com/holdfast-go/holdfast/contrib/prometheus"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &demo{}
	flag.StringVar(&d.url, "redis", "redis://127.0.0.1:6379", "`URL` of the server")
	flag.StringVar(&d.listen, "listen", "127.0.0.1:2112", "`address` of the metrics")
	flag.DurationVar(&d.force, "force", 15*time.Second, "`time` between two locks that are removed by force")
	flag.Parse()
	if err := d.run(ctx); err != nil {
		log.Fatal(err)
	}
}

type demo struct {
	url, listen string
	force       time.Duration
	addr        func(net.Addr) // called with the address of the metrics; nil except in tests
}

// run puts load on the server until ctx ends.
func (d *demo) run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	var managers []*lockmgr.Manager
	for _, name := range []string{"anna", "ben"} {
		metrics, err := holdfastprom.New(holdfastprom.Options{Manager: name, Class: holdfastprom.BeforeColon})
		if err != nil {
			return err
		}
		m, err := lockmgr.DialURL(d.url, lockmgr.Options{Observer: metrics.Observe, Process: lockmgr.Process{Program: name}, Lease: 6 * time.Second})
		if err != nil {
			return err
		}
		defer m.Close(context.Background())
		metrics.Watch(m)
		registry.MustRegister(metrics)
		managers = append(managers, m)
	}
	listener, err := net.Listen("tcp", d.listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/metrics\n", listener.Addr())
	if d.addr != nil {
		d.addr(listener.Addr())
	}
	server := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()

	var all sync.WaitGroup
	for _, m := range managers {
		for range 8 {
			all.Go(func() { orders(ctx, m) })
		}
		all.Go(func() { reports(ctx, m) })
	}
	all.Go(func() { d.breakReports(ctx, managers[0]) })
	all.Wait()
	return nil
}

// orders works under the locks of a few orders. Other workers want them too, and some do not wait
// long.
func orders(ctx context.Context, m *lockmgr.Manager) {
	for ctx.Err() == nil {
		name, wait := fmt.Sprintf("orders:%d", rand.N(4)), time.Minute
		if rand.N(10) == 0 {
			wait = 5 * time.Millisecond
		}
		note(m.Do(ctx, name, func(ctx context.Context, _ *lockmgr.Lock) error {
			pause(ctx, rand.N(20*time.Millisecond))
			return nil
		}, lockmgr.MaxWait(wait)))
		pause(ctx, rand.N(20*time.Millisecond))
	}
}

// reports holds one lock for longer than its lease, which is renewed meanwhile.
func reports(ctx context.Context, m *lockmgr.Manager) {
	for ctx.Err() == nil {
		note(m.Do(ctx, "reports:daily", func(ctx context.Context, _ *lockmgr.Lock) error {
			pause(ctx, 10*time.Second)
			return nil
		}))
	}
}

// breakReports takes the lock of reports from its holder, again and again.
func (d *demo) breakReports(ctx context.Context, m *lockmgr.Manager) {
	for pause(ctx, d.force); ctx.Err() == nil; pause(ctx, d.force) {
		_, err := m.ForceUnlock(ctx, "reports:daily")
		note(err)
	}
}

// note logs an error that the load does not cause on purpose.
func note(err error) {
	for _, expected := range []error{nil, context.Canceled, lockmgr.ErrNotAcquired, lockmgr.ErrLeaseLost} {
		if errors.Is(err, expected) {
			return
		}
	}
	log.Print(err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
