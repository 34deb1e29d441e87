package holdfastprom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

func watched(t *testing.T, addr string, o Options, lo lockmgr.Options) (*lockmgr.Manager, *Metrics) {
	t.Helper()
	metrics := redistest.Must(New(o))(t)
	lo.Observer = metrics.Observe
	m := redistest.Must(lockmgr.DialURL("redis://"+addr, lo))(t)
	metrics.Watch(m)
	t.Cleanup(func() { _ = m.Close(faults.Patient(t)) })
	return m, metrics
}

// busy is a manager whose locks have gone through everything that metrics tell.
func busy(t *testing.T) *Metrics {
	t.Helper()
	s := redistest.Start(t).Unrestricted()
	ctx := t.Context()
	m, metrics := watched(t, s.Addr(), Options{Class: BeforeColon, Manager: "a"}, lockmgr.Options{
		Lease: 900 * time.Millisecond, CommandTimeout: 100 * time.Millisecond, RetryTime: 300 * time.Millisecond,
	})
	owner := m.NewOwner()
	l := faults.Take(t, m, "orders:1", lockmgr.AsOwner(owner))
	again := faults.Take(t, m, "orders:1", lockmgr.AsOwner(owner))
	_, err := m.TryLock(ctx, "orders:1")
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	_, err = m.Lock(ctx, "orders:1", lockmgr.MaxWait(time.Millisecond))
	require.ErrorIs(t, err, lockmgr.ErrWaitTimeout)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = m.Lock(short, "orders:1")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	late, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err = m.Lock(ctx, "orders:1", lockmgr.WaitContext(late))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f := m.LockAsync("orders:1")
	f.Cancel()
	_, err = m.Lock(ctx, "orders:1", lockmgr.Shared())
	require.ErrorIs(t, err, lockmgr.ErrKind)
	next := m.LockAsync("orders:1")
	faults.Release(t, again, l)
	passed := faults.Await(t, next)

	// A renewal, a loss, a server that does not answer, and what is still held at the end.
	faults.Eventually(t, func() bool { return m.Stats().Renewals > 0 })
	faults.Do(t, s, "DEL", "orders:1")
	<-passed.Lost()
	held := faults.Take(t, m, "stock:1")
	s.Freeze()
	_, err = m.Lock(ctx, "stock:2")
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
	<-held.Lost()
	s.Thaw()
	faults.Eventually(t, func() bool {
		_, err = m.Lock(ctx, "plain")
		return err == nil
	})
	require.NoError(t, m.Close(ctx))
	return metrics
}

// What a manager goes through is counted, by class and reason.
func TestMetrics_CountWhatHappens(t *testing.T) {
	metrics := busy(t)
	value := func(name string, labels ...string) float64 {
		for _, f := range redistest.Must(registered(t, metrics).Gather())(t) {
			if f.GetName() != name {
				continue
			}
		metrics:
			for _, m := range f.Metric {
				have := map[string]string{}
				for _, l := range m.Label {
					have[l.GetName()] = l.GetValue()
				}
				require.Equal(t, "a", have["manager"])
				for i := 0; i < len(labels); i += 2 {
					if have[labels[i]] != labels[i+1] {
						continue metrics
					}
				}
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		t.Fatalf("no %s with %v", name, labels)
		return 0
	}
	require.EqualValues(t, 1, value("holdfast_grants_total", "class", "orders", "via", "server"))
	require.EqualValues(t, 1, value("holdfast_grants_total", "class", "orders", "via", "memory"))
	require.EqualValues(t, 1, value("holdfast_grants_total", "class", "orders", "via", "reentry"))
	require.EqualValues(t, 2, value("holdfast_wait_seconds", "class", "orders", "result", "granted"), "without the re-entry")
	require.EqualValues(t, 6, value("holdfast_wait_seconds", "class", "orders", "result", "failed"))
	require.EqualValues(t, 3, value("holdfast_hold_seconds", "class", "orders"))
	for reason, n := range map[string]float64{"busy": 1, "timeout": 3, "canceled": 1, "misuse": 1, "unavailable": 0} {
		require.Equal(t, n, value("holdfast_failures_total", "class", "orders", "reason", reason), reason)
	}
	require.EqualValues(t, 1, value("holdfast_failures_total", "class", "stock", "reason", "unavailable"))
	require.EqualValues(t, 1, value("holdfast_losses_total", "class", "orders", "reason", "lease"))
	require.EqualValues(t, 1, value("holdfast_losses_total", "class", "stock", "reason", "lease"))
	require.EqualValues(t, 1, value("holdfast_losses_total", "class", "other", "reason", "closed"))
	require.Positive(t, value("holdfast_command_seconds", "result", "ok"))
	require.Positive(t, value("holdfast_command_seconds", "result", "unavailable"))
	require.Positive(t, value("holdfast_renewal_failures_total"))
	require.Positive(t, value("holdfast_renewals_total"))
	require.Zero(t, value("holdfast_locks_held"))
	require.Zero(t, value("holdfast_requests_waiting"))
	require.Zero(t, value("holdfast_events_dropped_total"))

	problems, err := testutil.CollectAndLint(metrics)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// The gauges tell what is held and waits now. Several managers share a registry.
func TestMetrics_TwoManagers(t *testing.T) {
	s := redistest.Start(t)
	registry := prometheus.NewPedanticRegistry()
	for i := range 2 {
		m, metrics := watched(t, s.Addr(), Options{Manager: fmt.Sprint(i)}, lockmgr.Options{})
		require.NoError(t, registry.Register(metrics))
		l := faults.Take(t, m, fmt.Sprint(i))
		waiting := m.LockAsync(fmt.Sprint(i))
		faults.Eventually(t, func() bool { return m.Stats().Waiting == 1 })
		t.Cleanup(func() { waiting.Cancel(); _ = l.Unlock(context.Background()) })
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP holdfast_locks_held Holds of the manager.
# TYPE holdfast_locks_held gauge
holdfast_locks_held{manager="0"} 1
holdfast_locks_held{manager="1"} 1
# HELP holdfast_requests_waiting Requests of the manager that are in line for a lock.
# TYPE holdfast_requests_waiting gauge
holdfast_requests_waiting{manager="0"} 1
holdfast_requests_waiting{manager="1"} 1
`), "holdfast_locks_held", "holdfast_requests_waiting"))
	require.Error(t, registry.Register(redistest.Must(New(Options{Manager: "0"}))(t)))
}

// However many names there are, the number of series is bounded, and no name is a label unless the
// user chose so.
func TestMetrics_BoundedSeries(t *testing.T) {
	m := redistest.Must(New(Options{}))(t)
	for i := range 1000 {
		m.Observe(lockmgr.EventGranted{Name: fmt.Sprint("secret", i)})
	}
	one := testutil.CollectAndCount(m)
	require.Less(t, one, 40)
	for _, f := range gather(t, m) {
		require.NotContains(t, f, "secret")
	}
	name := func(name string) string { return name }
	m = redistest.Must(New(Options{Class: name, MaxClasses: 3}))(t)
	for i := range 1000 {
		m.Observe(lockmgr.EventGranted{Name: fmt.Sprint("n", i)})
	}
	m.Observe(lockmgr.EventGranted{Name: "other"})
	require.Less(t, testutil.CollectAndCount(m), 4*one)
	require.EqualValues(t, 998, testutil.ToFloat64(m.grants.WithLabelValues(OtherClass, "server")))
	require.EqualValues(t, 1, testutil.ToFloat64(m.grants.WithLabelValues("n2", "server")))

	m = redistest.Must(New(Options{Class: name}))(t)
	m.Observe(lockmgr.EventGranted{Name: "\xff"})
	require.EqualValues(t, 1, testutil.ToFloat64(m.grants.WithLabelValues("\uFFFD", "server")))
}

// registered returns a registry with collectors.
func registered(t *testing.T, all ...prometheus.Collector) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, c := range all {
		require.NoError(t, registry.Register(c))
	}
	return registry
}

func gather(t *testing.T, c prometheus.Collector) (all []string) {
	t.Helper()
	for _, f := range redistest.Must(registered(t, c).Gather())(t) {
		all = append(all, f.String())
	}
	return all
}

func TestBeforeColon(t *testing.T) {
	for name, class := range map[string]string{
		"orders:42": "orders", "orders": "other", ":x": "other", "": "other", "a:b:c": "a",
		strings.Repeat("x", 65) + ":1": "other", `"orders:1" "stock:2"`: "orders", `"broken`: "other", `"a" "b:c"`: "other",
	} {
		require.Equal(t, class, BeforeColon(name), name)
	}
}

func TestNew_BadOptions(t *testing.T) {
	for _, o := range []Options{{MaxClasses: -1}, {Buckets: []float64{1, 1}}, {Buckets: []float64{2, 1}}} {
		_, err := New(o)
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	}
}

func TestTee(t *testing.T) {
	var got []string
	observe := Tee(func(lockmgr.Event) { got = append(got, "a") }, nil, func(lockmgr.Event) { got = append(got, "b") })
	observe(lockmgr.EventReleased{})
	require.Equal(t, []string{"a", "b"}, got)
}

// Each failure has a reason that was told.
func TestReasons(t *testing.T) {
	for _, err := range []error{lockmgr.ErrNotAcquired, lockmgr.ErrLeaseLost, lockmgr.ErrReplicas, errors.New("x"), nil} {
		require.Contains(t, Reasons(), failureReason(err))
	}
	require.NotContains(t, Reasons(), "lost")
}

// An event allocates nothing.
func TestObserve_AllocatesNothing(t *testing.T) {
	m := redistest.Must(New(Options{Class: BeforeColon}))(t)
	var granted, unlocked, command lockmgr.Event = lockmgr.EventGranted{Name: "orders:42"}, lockmgr.EventUnlocked{Name: "orders:42"}, lockmgr.EventCommand{}
	m.Observe(granted)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		m.Observe(granted)
		m.Observe(unlocked)
		m.Observe(command)
	}))
}

func BenchmarkObserve(b *testing.B) {
	m, err := New(Options{Class: BeforeColon})
	require.NoError(b, err)
	var granted lockmgr.Event = lockmgr.EventGranted{Name: "orders:42"}
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(granted)
	}
}

// A hold that was lost before its unlock ended with its loss, and counts once.
func TestObserve_LossBeforeUnlock(t *testing.T) {
	m := redistest.Must(New(Options{}))(t)
	m.Observe(lockmgr.EventLost{Name: "a", Err: lockmgr.ErrLeaseLost})
	m.Observe(lockmgr.EventUnlocked{Name: "a", Err: lockmgr.ErrLeaseLost})
	m.Observe(lockmgr.EventUnlocked{Name: "a", Err: lockmgr.ErrClosed})
	m.Observe(lockmgr.EventUnlocked{Name: "a", Err: lockmgr.ErrUnavailable})
	holds := 0
	for _, f := range gather(t, m) {
		if strings.Contains(f, `"holdfast_hold_seconds"`) {
			require.Contains(t, f, "sample_count:2", f)
			holds++
		}
	}
	require.Equal(t, 1, holds)
}
