package holdfastotel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

// A world is a manager whose spans and metrics are kept.
type world struct {
	*lockmgr.Manager
	server *redistest.Server
	spans  *tracetest.InMemoryExporter
	tracer *sdktrace.TracerProvider
	reader *sdkmetric.ManualReader
}

// keeps returns telemetry whose spans and metrics are kept in a world.
func keeps(t *testing.T, o Options) (*Telemetry, *world) {
	t.Helper()
	w := &world{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	w.tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(w.spans))
	o.TracerProvider, o.MeterProvider = w.tracer, sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))
	return redistest.Must(New(o))(t), w
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	telemetry, w := keeps(t, o)
	w.server = redistest.Start(t).Unrestricted()
	var err error
	w.Manager, err = lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{w.server.Addr()}}, lockmgr.Options{
		Lease: 900 * time.Millisecond, CommandTimeout: 100 * time.Millisecond, RetryTime: 300 * time.Millisecond, Observer: telemetry.Observe,
	})
	require.NoError(t, err)
	stop, err := telemetry.Watch(w.Manager)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close(context.Background()); stop() })
	return w
}

func attributes(s tracetest.SpanStub) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// Waits and holds are children of the caller's span, with their instants, names and reasons.
func TestSpans(t *testing.T) {
	w := newWorld(t, Options{})
	ctx, parent := w.tracer.Tracer("test").Start(t.Context(), "handler")
	begin := time.Now()
	l := redistest.Must(w.Lock(ctx, "orders:1", lockmgr.Fenced()))(t)
	time.Sleep(20 * time.Millisecond)
	next := w.LockAsync("orders:1", lockmgr.TraceContext(ctx))
	_, err := w.TryLock(ctx, "orders:1")
	require.Error(t, err)
	require.NoError(t, l.Unlock(ctx))
	passed := faults.Await(t, next)
	faults.Do(t, w.server, "DEL", "orders:1")
	<-passed.Lost()
	faults.Release(t, faults.Take(t, w.Manager, "no span"))
	parent.End()
	require.NoError(t, w.Close(t.Context()))

	byEnd := map[string][]tracetest.SpanStub{}
	for _, s := range w.spans.GetSpans() {
		byEnd[s.Name] = append(byEnd[s.Name], s)
		if s.Name == "handler" {
			continue
		}
		require.Equal(t, parent.SpanContext().SpanID(), s.Parent.SpanID())
		require.Equal(t, "redis", attributes(s)["db.system.name"])
		require.Equal(t, "orders:1", attributes(s)["holdfast.lock.name"])
		require.False(t, s.StartTime.Before(begin.Add(-time.Millisecond)))
		require.False(t, s.EndTime.Before(s.StartTime))
	}
	require.Len(t, byEnd["handler"], 1)
	waits, holds := byEnd["lock wait"], byEnd["lock hold"]
	require.Len(t, waits, 3)
	require.Len(t, holds, 2)
	require.EqualValues(t, 1, attributes(waits[0])["holdfast.lock.token"])
	require.Equal(t, false, attributes(waits[0])["holdfast.lock.passed"])
	require.Equal(t, l.HolderID(), attributes(waits[0])["holdfast.lock.holder"])
	require.Equal(t, codes.Error, waits[1].Status.Code)
	require.Equal(t, "busy", attributes(waits[1])["error.type"])
	require.Equal(t, true, attributes(waits[2])["holdfast.lock.passed"])
	require.NotContains(t, attributes(waits[2]), "holdfast.lock.token")
	require.GreaterOrEqual(t, holds[0].EndTime.Sub(holds[0].StartTime), 20*time.Millisecond)
	require.Equal(t, codes.Unset, holds[0].Status.Code)
	require.Equal(t, codes.Error, holds[1].Status.Code)
	require.Equal(t, "lost", attributes(holds[1])["error.type"])
}

// A request that is refused at once has a span and counts, too.
func TestSpans_OfRefusedRequests(t *testing.T) {
	w := newWorld(t, Options{})
	ctx, parent := w.tracer.Tracer("test").Start(t.Context(), "handler")
	_, err := w.Lock(ctx, "")
	require.ErrorIs(t, err, lockmgr.ErrInvalidName)
	_, err = w.LockAsync("orders:1", lockmgr.TraceContext(ctx), lockmgr.FixedLease(1)).Result()
	require.ErrorIs(t, err, lockmgr.ErrInvalidLease)
	_, err = w.Permits("orders:2", 1).Acquire(ctx, 2)
	require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = w.LockAll(ended, lockmgr.All("orders:3"))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, w.Close(t.Context()))
	parent.End()
	reasons := map[any]any{}
	for _, s := range w.spans.GetSpans() {
		if s.Name == "lock wait" {
			require.Equal(t, parent.SpanContext().SpanID(), s.Parent.SpanID())
			require.Equal(t, codes.Error, s.Status.Code)
			reasons[attributes(s)["holdfast.lock.name"]] = attributes(s)["error.type"]
		}
	}
	require.Equal(t, map[any]any{"": "misuse", "orders:1": "misuse", "orders:2": "misuse", `"orders:3"`: "canceled"}, reasons)
	figures := collect(t, w.reader)
	require.EqualValues(t, 3, figures["holdfast.lock.wait.duration misuse"])
	require.EqualValues(t, 1, figures["holdfast.lock.wait.duration canceled"])
}

// figures are the statistics of a manager.
type figures struct {
	held int
	_    [1 << 16]byte
}

func (f *figures) Stats() lockmgr.Stats { return lockmgr.Stats{Held: f.held} }

// A manager that is watched no more is not kept, and a new one takes its place.
func TestWatch_Stop(t *testing.T) {
	telemetry, w := keeps(t, Options{})
	var all []weak.Pointer[figures]
	for i := range 50 {
		f := &figures{held: i + 1}
		all = append(all, weak.Make(f))
		stop, err := telemetry.Watch(f)
		require.NoError(t, err)
		require.EqualValues(t, i+1, collect(t, w.reader)["holdfast.lock.held"])
		stop()
		stop()
	}
	runtime.GC()
	for _, f := range all {
		require.Nil(t, f.Value())
	}
	require.NotContains(t, collect(t, w.reader), "holdfast.lock.held")
	runtime.KeepAlive(telemetry)
}

// A hold has one span and one value of the histogram, whatever comes first: the loss, Close or the
// unlock. It ends when the unlock was sent.
func TestObserve_OneSpanForAHold(t *testing.T) {
	telemetry, w := keeps(t, Options{Roots: true})
	at := time.Unix(1000, 0)
	for _, e := range []lockmgr.Event{
		lockmgr.EventLost{Name: "a", At: at, Held: time.Second, Err: fmt.Errorf("a: %w", lockmgr.ErrLeaseLost)},
		lockmgr.EventUnlocked{Name: "a", At: at, Err: fmt.Errorf("a: %w", lockmgr.ErrLeaseLost)},
		lockmgr.EventLost{Name: "b", At: at, Held: time.Second, Err: lockmgr.ErrClosed},
		lockmgr.EventUnlocked{Name: "b", At: at, Err: lockmgr.ErrClosed},
		lockmgr.EventUnlocked{Name: "c", At: at, Held: time.Minute, Took: 3 * time.Second},
	} {
		telemetry.Observe(e)
	}
	all := w.spans.GetSpans()
	require.Len(t, all, 3)
	require.Equal(t, "a: "+lockmgr.ErrLeaseLost.Error(), all[0].Status.Description)
	require.Equal(t, at.Add(-3*time.Second), all[2].EndTime)
	require.Equal(t, at.Add(-3*time.Second-time.Minute), all[2].StartTime)
	figures := collect(t, w.reader)
	require.EqualValues(t, 1, figures["holdfast.lock.hold.duration"])
	require.EqualValues(t, 1, figures["holdfast.lock.hold.duration lost"])
	require.EqualValues(t, 1, figures["holdfast.lock.hold.duration closed"])
}

// A name may have any bytes. Exporters take UTF-8 only.
func TestObserve_TextsAreUTF8(t *testing.T) {
	telemetry, w := keeps(t, Options{Roots: true, Class: func(name string) string { return name }})
	telemetry.Observe(lockmgr.EventFailed{Name: "a\xff", Err: errors.New("b\xfe")})
	all := w.spans.GetSpans()
	require.Len(t, all, 1)
	require.Equal(t, "a\uFFFD", attributes(all[0])["holdfast.lock.name"])
	require.Equal(t, "b\uFFFD", all[0].Status.Description)
	require.Contains(t, collect(t, w.reader), "holdfast.lock.wait.duration a\uFFFD other")
}

// Names are left out if asked for, and spans without a parent are made if asked for.
func TestSpans_Options(t *testing.T) {
	w := newWorld(t, Options{HideNames: true, Roots: true})
	l := faults.Take(t, w.Manager, "secret")
	_, err := w.TryLock(t.Context(), "secret")
	require.Error(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, w.Close(t.Context()))
	spans := w.spans.GetSpans()
	require.Len(t, spans, 3)
	for _, s := range spans {
		require.False(t, s.Parent.IsValid())
		require.NotContains(t, attributes(s), "holdfast.lock.name")
		require.NotContains(t, s.Status.Description, "secret")
	}
}

// What happens is counted, by class and reason, and never by name.
func TestMetrics(t *testing.T) {
	w := newWorld(t, Options{Class: func(string) string { return "c" }})
	ctx := t.Context()
	owner := w.NewOwner()
	l := faults.Take(t, w.Manager, "secret", lockmgr.AsOwner(owner))
	faults.Take(t, w.Manager, "secret", lockmgr.AsOwner(owner))
	_, err := w.TryLock(ctx, "secret")
	require.Error(t, err)
	faults.Eventually(t, func() bool { return w.Stats().Renewals > 0 })
	waiting := w.LockAsync("secret")
	faults.Eventually(t, func() bool { return w.Stats().Waiting == 1 })

	now := collect(t, w.reader)
	require.EqualValues(t, 1, now["holdfast.lock.held"])
	require.EqualValues(t, 1, now["holdfast.request.waiting"])
	require.Positive(t, now["holdfast.renewal.count"])
	waiting.Cancel()
	w.server.Freeze()
	<-l.Lost()
	w.server.Thaw()
	require.NoError(t, w.Close(ctx))

	end := collect(t, w.reader)
	for name, n := range map[string]float64{
		"holdfast.lock.wait.duration c":          1,
		"holdfast.lock.wait.duration c busy":     1,
		"holdfast.lock.wait.duration c canceled": 1,
		"holdfast.lock.hold.duration c lost":     1,
		"holdfast.lock.losses c lost":            1,
		"holdfast.lock.reentries c":              1,
		"holdfast.lock.held":                     0,
		"holdfast.request.waiting":               0,
		"holdfast.release.abandoned":             0,
		"holdfast.event.dropped":                 0,
	} {
		require.Contains(t, end, name)
		require.Equal(t, n, end[name], name)
	}
	require.Positive(t, end["holdfast.command.duration"])
	require.Positive(t, end["holdfast.command.duration unavailable"])
	require.Positive(t, end["holdfast.renewal.failures"])
}

// collect reads all metrics: their values, or how many times were recorded, by their names, classes
// and reasons.
func collect(t *testing.T, r *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	require.NoError(t, r.Collect(context.Background(), &data))
	all := map[string]float64{}
	key := func(name string, set attribute.Set) string {
		for _, k := range []attribute.Key{"holdfast.lock.class", "error.type"} {
			if v, ok := set.Value(k); ok {
				name += " " + v.AsString()
			}
		}
		for _, a := range set.ToSlice() {
			require.NotContains(t, a.Value.String(), "secret")
		}
		return name
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			require.NotEmpty(t, m.Description)
			require.NotEmpty(t, m.Unit)
			switch d := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					all[key(m.Name, p.Attributes)] += float64(p.Count)
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					all[key(m.Name, p.Attributes)] += float64(p.Value)
				}
			default:
				t.Fatalf("%s: %T", m.Name, d)
			}
		}
	}
	return all
}

// With providers that do nothing an event costs next to nothing.
func BenchmarkObserve(b *testing.B) {
	telemetry, err := New(Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()})
	require.NoError(b, err)
	var granted lockmgr.Event = lockmgr.EventGranted{Name: "orders:42", Context: context.Background()}
	b.ReportAllocs()
	for b.Loop() {
		telemetry.Observe(granted)
	}
}

func TestObserve_NoopAllocatesNothing(t *testing.T) {
	telemetry, err := New(Options{TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()})
	require.NoError(t, err)
	var granted, unlocked lockmgr.Event = lockmgr.EventGranted{Name: "orders:42", Context: context.Background()}, lockmgr.EventUnlocked{Name: "orders:42"}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		telemetry.Observe(granted)
		telemetry.Observe(unlocked)
	}), 2.0)
}
