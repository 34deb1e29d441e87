package holdfastotel_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	holdfastotel "github.com/holdfast-go/holdfast/contrib/otel"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func Example() {
	server, err := miniredis.Run() // in place of a Redis or Valkey server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	spans := tracetest.NewInMemoryExporter() // in place of a collector
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))

	if err := run(rueidis.ClientOption{InitAddress: []string{server.Addr()}}); err != nil {
		panic(err)
	}
	for _, s := range spans.GetSpans() {
		if strings.HasPrefix(s.Name, "lock") {
			fmt.Println(s.Name, "below a span", s.Parent.IsValid())
		}
	}
	// Output:
	// lock wait below a span true
	// lock hold below a span true
}

// run has the snippet of README.md.
func run(option rueidis.ClientOption) error {
	telemetry, err := holdfastotel.New(holdfastotel.Options{})
	if err != nil {
		return err
	}
	mgr, err := lockmgr.Dial(option, lockmgr.Options{Observer: telemetry.Observe})
	if err != nil {
		return err
	}
	defer mgr.Close(context.Background())
	stop, err := telemetry.Watch(mgr)
	if err != nil {
		return err
	}
	defer stop() // else the meter keeps the manager for ever
	return serve(mgr)
}

func serve(mgr *lockmgr.Manager) error {
	ctx, handler := otel.Tracer("orders").Start(context.Background(), "handler")
	defer handler.End()
	return mgr.Do(ctx, "orders:42", func(context.Context, *lockmgr.Lock) error { return nil })
}
