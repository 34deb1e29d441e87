package holdfastprom_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"

	holdfastprom "github.com/holdfast-go/holdfast/contrib/prometheus"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	registry := prometheus.NewRegistry()
	mgr, err := dial("redis://"+server.Addr(), registry)
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	err = mgr.Do(ctx, "orders:42", func(context.Context, *lockmgr.Lock) error { return nil })
	if err != nil {
		panic(err)
	}
	if err := mgr.Close(ctx); err != nil { // delivers the events
		panic(err)
	}

	families, err := registry.Gather() // what a scrape does
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "holdfast_grants_total" && m.Counter.GetValue() > 0 {
				fmt.Println(f.GetName(), m.Label[0].GetValue(), m.Counter.GetValue())
			}
		}
	}
	// Output: holdfast_grants_total orders 1
}

// dial has the snippet of README.md.
func dial(url string, registry prometheus.Registerer) (*lockmgr.Manager, error) {
	metrics, err := holdfastprom.New(holdfastprom.Options{Class: holdfastprom.BeforeColon})
	if err != nil {
		return nil, err
	}
	mgr, err := lockmgr.DialURL(url, lockmgr.Options{Observer: metrics.Observe})
	if err != nil {
		return nil, err
	}
	metrics.Watch(mgr)
	return mgr, registry.Register(metrics)
}
