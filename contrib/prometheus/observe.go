package holdfastprom

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// The results of a command.
const (
	resultOK = iota
	resultUnavailable
	resultError
	resultCount
)

var resultNames = [resultCount]string{"ok", "unavailable", "error"}

// The ways in which a lock is granted.
const (
	viaServer = iota
	viaMemory
	viaReentry
	viaCount
)

var viaNames = [viaCount]string{"server", "memory", "reentry"}

// series are the metrics of one class.
type series struct {
	granted, failed, held prometheus.Observer
	grants                [viaCount]prometheus.Counter
	failures              map[string]prometheus.Counter // by reason
	lostLease, lostClosed prometheus.Counter
}

// newSeries makes the metrics of a class, all at zero.
func (m *Metrics) newSeries(class string) *series {
	s := &series{
		granted:    m.waits.WithLabelValues(class, "granted"),
		failed:     m.waits.WithLabelValues(class, "failed"),
		held:       m.holds.WithLabelValues(class),
		failures:   make(map[string]prometheus.Counter),
		lostLease:  m.losses.WithLabelValues(class, reasonLease),
		lostClosed: m.losses.WithLabelValues(class, reasonClosed),
	}
	for via, name := range viaNames {
		s.grants[via] = m.grants.WithLabelValues(class, name)
	}
	for _, reason := range Reasons() {
		s.failures[reason] = m.failures.WithLabelValues(class, reason)
	}
	return s
}

// Observe counts an event. It is meant for lockmgr.Options.Observer, and never blocks. It ignores
// events that it does not know.
func (m *Metrics) Observe(e lockmgr.Event) {
	switch e := e.(type) {
	case lockmgr.EventGranted:
		m.classes.of(e.Name).grant(e)
	case lockmgr.EventFailed:
		s := m.classes.of(e.Name)
		s.failed.Observe(e.Waited.Seconds())
		s.failures[failureReason(e.Err)].Inc()
	case lockmgr.EventUnlocked:
		if !endedByLoss(e.Err) { // else its EventLost was counted
			m.classes.of(e.Name).held.Observe(e.Held.Seconds())
		}
	case lockmgr.EventLost:
		s := m.classes.of(e.Name)
		s.held.Observe(e.Held.Seconds())
		if lossReason(e.Err) == reasonClosed {
			s.lostClosed.Inc()
		} else {
			s.lostLease.Inc()
		}
	case lockmgr.EventCommand:
		m.commandOf[resultOf(e.Err)].Observe(e.Took.Seconds())
	case lockmgr.EventRenewalFailed:
		m.renewalFailures.Add(float64(e.Leases))
	case lockmgr.EventSubscription:
		if e.State == "down" {
			m.subscriptionFailure.Inc()
		}
	}
}

func (s *series) grant(e lockmgr.EventGranted) {
	switch {
	case e.Reentry:
		s.grants[viaReentry].Inc()
		return // it did not wait
	case e.Passed:
		s.grants[viaMemory].Inc()
	default:
		s.grants[viaServer].Inc()
	}
	s.granted.Observe(e.Waited.Seconds())
}

// resultOf returns the result of a command.
func resultOf(err error) int {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, lockmgr.ErrUnavailable):
		return resultUnavailable
	}
	return resultError
}
