package holdfastotel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const scope = "github.com/holdfast-go/holdfast/contrib/otel"

// Options are the settings of a [Telemetry]. Zero is the default of each field.
type Options struct {
	// TracerProvider makes the spans. Default: otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. Default: otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
	// Class returns the attribute holdfast.lock.class of metrics for a lock, by its name. For a set
	// the name is a text with all its names in quotes. It must return few different values, and
	// must not panic. Default: no such attribute.
	Class func(name string) string
	// HideNames leaves the names of locks out of spans.
	HideNames bool
	// Roots makes spans of requests whose context has no span, too.
	Roots bool
}

// Telemetry tells of one manager. Its methods are safe for concurrent use.
type Telemetry struct {
	options Options
	tracer  trace.Tracer
	meter   metric.Meter

	wait, hold, command      metric.Float64Histogram
	losses, reentries, renew metric.Int64Counter
}

// New returns the telemetry of a manager that is yet to be made: give the method Observe to
// lockmgr.Options, and the manager to Watch. The error is that of the meter, which refuses an
// instrument.
func New(options Options) (*Telemetry, error) {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	t := &Telemetry{options: options, tracer: options.TracerProvider.Tracer(scope), meter: options.MeterProvider.Meter(scope)}
	var errs []error
	histogram := func(name, text string) metric.Float64Histogram {
		h, err := t.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text),
			metric.WithExplicitBucketBoundaries(.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100, 300))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := t.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	t.wait = histogram("holdfast.lock.wait.duration", "Time from a request to its lock or its failure, without re-entries.")
	t.hold = histogram("holdfast.lock.hold.duration", "Time from a grant to the unlock or the loss.")
	t.command = histogram("holdfast.command.duration", "Time from the send of a command to its answer or its time-out.")
	t.losses = counter("holdfast.lock.losses", "{hold}", "Holds that ended without an unlock.")
	t.reentries = counter("holdfast.lock.reentries", "{grant}", "Grants to an owner that held the lock already.")
	t.renew = counter("holdfast.renewal.failures", "{lease}", "Leases that a command failed to renew; each is tried again until its deadline.")
	return t, errors.Join(errs...)
}

// Watch makes the metrics that come from the statistics of a manager, which should be the one that
// calls Observe. They are read at each collection, also after the manager was closed, until stop is
// called. Until then the meter keeps the manager in memory. Call stop after Manager.Close: the last
// figures are those of the last collection before. stop may be called more than once. The error is
// that of the meter. stop is never nil.
func (t *Telemetry) Watch(m interface{ Stats() lockmgr.Stats }) (stop func(), err error) {
	held, err1 := t.meter.Int64ObservableUpDownCounter("holdfast.lock.held", metric.WithUnit("{hold}"), metric.WithDescription("Holds of the manager."))
	waiting, err2 := t.meter.Int64ObservableUpDownCounter("holdfast.request.waiting", metric.WithUnit("{request}"), metric.WithDescription("Requests in line for a lock."))
	renewals, err3 := t.meter.Int64ObservableCounter("holdfast.renewal.count", metric.WithUnit("{lease}"), metric.WithDescription("Leases that were renewed."))
	abandoned, err4 := t.meter.Int64ObservableCounter("holdfast.release.abandoned", metric.WithUnit("{release}"), metric.WithDescription("Releases that could not be confirmed before the lease ended."))
	dropped, err5 := t.meter.Int64ObservableCounter("holdfast.event.dropped", metric.WithUnit("{event}"), metric.WithDescription("Events that were dropped because the observer was too slow."))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return func() {}, fmt.Errorf("holdfastotel: %w", err)
	}
	registration, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := m.Stats()
		o.ObserveInt64(held, int64(s.Held))
		o.ObserveInt64(waiting, int64(s.Waiting))
		o.ObserveInt64(renewals, int64(s.Renewals))
		o.ObserveInt64(abandoned, int64(s.Unreleased))
		o.ObserveInt64(dropped, int64(s.DroppedEvents))
		return nil
	}, held, waiting, renewals, abandoned, dropped)
	if err != nil {
		return func() {}, fmt.Errorf("holdfastotel: %w", err)
	}
	return func() { _ = registration.Unregister() }, nil // it fails only if it was called before
}

// Observe tells of an event. It is meant for lockmgr.Options.Observer. It ignores events that it
// does not know.
func (t *Telemetry) Observe(e lockmgr.Event) {
	ctx := context.Background()
	switch e := e.(type) {
	case lockmgr.EventGranted:
		if e.Reentry {
			t.reentries.Add(ctx, 1, t.metricAttributes(e.Name, "", false))
			return // it did not wait
		}
		t.wait.Record(ctx, e.Waited.Seconds(), t.metricAttributes(e.Name, "", e.Passed))
		t.span(e.Context, "lock wait", e.Name, e.Owner, e.At.Add(-e.Waited), e.At, nil,
			attribute.Bool("holdfast.lock.passed", e.Passed), attribute.Int64("holdfast.lock.token", e.Token))
	case lockmgr.EventFailed:
		t.wait.Record(ctx, e.Waited.Seconds(), t.metricAttributes(e.Name, lockmgr.Reason(e.Err), false))
		t.span(e.Context, "lock wait", e.Name, "", e.At.Add(-e.Waited), e.At, e.Err)
	case lockmgr.EventUnlocked:
		if errors.Is(e.Err, lockmgr.ErrLeaseLost) || errors.Is(e.Err, lockmgr.ErrClosed) {
			return // its EventLost has told
		}
		end := e.At.Add(-e.Took)
		t.hold.Record(ctx, e.Held.Seconds(), t.metricAttributes(e.Name, "", false))
		t.span(e.Context, "lock hold", e.Name, e.Owner, end.Add(-e.Held), end, nil)
	case lockmgr.EventLost:
		t.hold.Record(ctx, e.Held.Seconds(), t.metricAttributes(e.Name, lockmgr.Reason(e.Err), false))
		t.losses.Add(ctx, 1, t.metricAttributes(e.Name, lockmgr.Reason(e.Err), false))
		t.span(e.Context, "lock hold", e.Name, e.Owner, e.At.Add(-e.Held), e.At, e.Err)
	case lockmgr.EventCommand:
		t.command.Record(ctx, e.Took.Seconds(), failure(e.Err))
	case lockmgr.EventRenewalFailed:
		t.renew.Add(ctx, int64(e.Leases))
	}
}

func failure(err error) metric.MeasurementOption {
	if err == nil {
		return none
	}
	return metric.WithAttributes(attribute.String("error.type", lockmgr.Reason(err)))
}

var none = metric.WithAttributeSet(*attribute.EmptySet())

// metricAttributes are those of a metric about a lock.
func (t *Telemetry) metricAttributes(name, failed string, passed bool) metric.MeasurementOption {
	if t.options.Class == nil && failed == "" && !passed {
		return none
	}
	var all []attribute.KeyValue
	if t.options.Class != nil {
		all = append(all, attribute.String("holdfast.lock.class", valid(t.options.Class(name))))
	}
	if failed != "" {
		all = append(all, attribute.String("error.type", failed))
	}
	if passed {
		all = append(all, attribute.Bool("holdfast.lock.passed", true))
	}
	return metric.WithAttributes(all...)
}

// valid returns a text in UTF-8. The name of a lock may have any bytes. An exporter that meets a
// text in another encoding drops everything that it sends at the same time.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// span makes a span of the past.
func (t *Telemetry) span(ctx context.Context, title, name, holder string, begin, end time.Time, err error, more ...attribute.KeyValue) {
	if ctx == nil {
		ctx = context.Background()
	}
	if !t.options.Roots && !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	_, s := t.tracer.Start(ctx, title, trace.WithTimestamp(begin), trace.WithSpanKind(trace.SpanKindInternal))
	defer s.End(trace.WithTimestamp(end))
	if !s.IsRecording() {
		return
	}
	s.SetAttributes(attribute.String("db.system.name", "redis"))
	if !t.options.HideNames {
		s.SetAttributes(attribute.String("holdfast.lock.name", valid(name)))
	}
	if holder != "" {
		s.SetAttributes(attribute.String("holdfast.lock.holder", holder))
	}
	for _, a := range more {
		if a.Value.Type() != attribute.INT64 || a.Value.AsInt64() != 0 { // a token that was not asked for
			s.SetAttributes(a)
		}
	}
	if err != nil {
		s.SetAttributes(attribute.String("error.type", lockmgr.Reason(err)))
		text := lockmgr.Reason(err)
		if !t.options.HideNames {
			text = err.Error() // it may have the name
		}
		s.SetStatus(codes.Error, valid(text))
	}
}
