package holdfastprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A figure is a metric that is read from the statistics of the manager.
type figure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*lockmgr.Stats) float64
}

func newFigures(labels prometheus.Labels) []figure {
	figureOf := func(name, help string, kind prometheus.ValueType, of func(*lockmgr.Stats) float64) figure {
		return figure{prometheus.NewDesc("holdfast_"+name, help, nil, labels), kind, of}
	}
	return []figure{
		figureOf("locks_held", "Holds of the manager.", prometheus.GaugeValue,
			func(s *lockmgr.Stats) float64 { return float64(s.Held) }),
		figureOf("requests_waiting", "Requests of the manager that are in line for a lock.", prometheus.GaugeValue,
			func(s *lockmgr.Stats) float64 { return float64(s.Waiting) }),
		figureOf("renewals_total", "Leases that were renewed.", prometheus.CounterValue,
			func(s *lockmgr.Stats) float64 { return float64(s.Renewals) }),
		figureOf("releases_abandoned_total", "Releases that could not be confirmed before the lease ended.", prometheus.CounterValue,
			func(s *lockmgr.Stats) float64 { return float64(s.Unreleased) }),
		figureOf("events_dropped_total", "Events that were dropped because the observer was too slow.", prometheus.CounterValue,
			func(s *lockmgr.Stats) float64 { return float64(s.DroppedEvents) }),
	}
}
