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

	mgr, err := dial(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		panic(err)
	}
	ctx, handler := otel.Tracer("orders").Start(context.Background(), "handler")
	err = mgr.Do(ctx, "orders:42", func(context.Context, *lockmgr.Lock) error { return nil })
	if err != nil {
		panic(err)
	}
	handler.End()
	if err := mgr.Close(context.Background()); err != nil { // delivers the events
		panic(err)
	}
	for _, s := range spans.GetSpans() {
		if strings.HasPrefix(s.Name, "lock") {
			fmt.Println(s.Name, "below", s.Parent.SpanID() == handler.SpanContext().SpanID())
		}
	}
	// Output:
	// lock wait below true
	// lock hold below true
}

// dial has the snippet of README.md.
func dial(option rueidis.ClientOption) (*lockmgr.Manager, error) {
	telemetry, err := holdfastotel.New(holdfastotel.Options{})
	if err != nil {
		return nil, err
	}
	mgr, err := lockmgr.Dial(option, lockmgr.Options{Observer: telemetry.Observe})
	if err != nil {
		return nil, err
	}
	return mgr, telemetry.Watch(mgr)
}
