package holdfastprom

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Options tune the metrics of a manager. Zero is the default of each field.
type Options struct {
	// Manager is the value of the label manager. Managers in one registry must differ in it.
	// Default "default".
	Manager string
	// Class returns the value of the label class for a lock, by its name. For a set the name is a
	// text with all its names in quotes. Class must return few different values, and be safe for
	// concurrent use. It must not panic. An example is BeforeColon. Default: all locks have the
	// class AllClass.
	Class func(name string) string
	// MaxClasses is how many classes there are at most. The ones that come first are kept, and all
	// others count as OtherClass. Default 100. New refuses a negative number.
	MaxClasses int
	// Buckets are the upper bounds of the buckets of all histograms, in seconds and in rising
	// order. Default: 14 bounds from 0.1 ms to 300 s.
	Buckets []float64
}

var defaultBuckets = []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100, 300}

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.MaxClasses < 0 {
		return o, fmt.Errorf("%w: holdfastprom: MaxClasses is %d", lockmgr.ErrInvalidOption, o.MaxClasses)
	}
	for i, b := range o.Buckets {
		if math.IsNaN(b) || i > 0 && b <= o.Buckets[i-1] {
			return o, fmt.Errorf("%w: holdfastprom: Buckets do not rise: %v", lockmgr.ErrInvalidOption, o.Buckets)
		}
	}
	if o.Manager == "" {
		o.Manager = "default"
	}
	if o.MaxClasses == 0 {
		o.MaxClasses = 100
	}
	if len(o.Buckets) == 0 {
		o.Buckets = defaultBuckets
	}
	o.Buckets = slices.Clone(o.Buckets)
	return o, nil
}

// Metrics are the metrics of one manager. It is a prometheus.Collector, to be registered once. Its
// methods are safe for concurrent use.
type Metrics struct {
	waits, holds, commands               *prometheus.HistogramVec
	grants, failures, losses             *prometheus.CounterVec
	renewalFailures, subscriptionFailure prometheus.Counter

	classes   classes[*series]
	commandOf [resultCount]prometheus.Observer
	figures   []figure
	source    atomic.Pointer[source]
}

var _ prometheus.Collector = (*Metrics)(nil)

type source struct {
	of interface{ Stats() lockmgr.Stats }
}

// New returns the metrics of a manager that is yet to be made: give the method Observe to
// lockmgr.Options, and the manager to Watch. Bad options fail with an error that matches
// lockmgr.ErrInvalidOption.
func New(options Options) (*Metrics, error) {
	o, err := options.complete()
	if err != nil {
		return nil, err
	}
	labels := prometheus.Labels{"manager": o.Manager}
	histogram := func(name, help string, by ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_" + name, Help: help, ConstLabels: labels, Buckets: o.Buckets,
		}, by)
	}
	counters := func(name, help string, by ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_" + name, Help: help, ConstLabels: labels}, by)
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	m := &Metrics{
		waits:    histogram("wait_seconds", "Time from a request to its lock or its failure, without re-entries.", "class", "result"),
		holds:    histogram("hold_seconds", "Time from a grant to the unlock or the loss.", "class"),
		commands: histogram("command_seconds", "Time from the send of a command to its answer or its time-out.", "result"),
		grants:   counters("grants_total", "Requests that got their lock.", "class", "via"),
		failures: counters("failures_total", "Requests that ended without a lock.", "class", "reason"),
		losses:   counters("losses_total", "Holds that ended without an unlock.", "class", "reason"),

		renewalFailures:     counter("renewal_failures_total", "Leases that a command failed to renew; each is tried again until its deadline."),
		subscriptionFailure: counter("subscription_failures_total", "Connections for messages that broke or could not be opened."),
		figures:             newFigures(labels),
	}
	for result, name := range resultNames {
		m.commandOf[result] = m.commands.WithLabelValues(name)
	}
	m.classes = classes[*series]{class: o.Class, limit: o.MaxClasses, make: m.newSeries, known: make(map[string]*series)}
	if o.Class == nil {
		m.classes.of("") // a counter that begins at zero shows its first increase
	}
	return m, nil
}

// Watch makes the metrics report the statistics of a manager, which should be the one that calls
// Observe. Before that they lack the metrics that come from Manager.Stats. Another call replaces
// the manager. Watch does not block. A manager that is closed can go on being watched.
func (m *Metrics) Watch(manager interface{ Stats() lockmgr.Stats }) {
	m.source.Store(&source{manager})
}

// Describe sends the descriptions of all metrics. A registry calls it.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(ch)
	}
	for _, f := range m.figures {
		ch <- f.desc
	}
}

// Collect sends all metrics. A registry calls it. It does no I/O.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(ch)
	}
	s := m.source.Load()
	if s == nil {
		return
	}
	stats := s.of.Stats()
	for _, f := range m.figures {
		ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.of(&stats))
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.waits, m.holds, m.commands, m.grants, m.failures, m.losses, m.renewalFailures, m.subscriptionFailure,
	}
}
