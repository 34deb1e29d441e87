package holdfastprom

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults/ends"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// However a hold ends, the metrics tell of it. Each handle that was unlocked has a hold time, and
// each hold that was lost.
func TestMetrics_AllEnds(t *testing.T) {
	ends.Each(t, func(t *testing.T, o *lockmgr.Options) func(*lockmgr.Manager, ends.Counts) {
		metrics := redistest.Must(New(Options{Class: BeforeColon}))(t)
		o.Observer = metrics.Observe
		return func(m *lockmgr.Manager, want ends.Counts) {
			value := map[string]int{}
			for _, f := range redistest.Must(registered(t, metrics).Gather())(t) {
				for _, s := range f.Metric {
					key := f.GetName()
					for _, l := range s.Label {
						if l.GetName() != "manager" && l.GetName() != "class" {
							key += " " + l.GetValue()
						}
					}
					value[key] += int(s.GetCounter().GetValue() + float64(s.GetHistogram().GetSampleCount()))
				}
			}
			require.Equal(t, want, ends.Counts{
				Granted:   value["holdfast_grants_total server"] + value["holdfast_grants_total memory"],
				Reentered: value["holdfast_grants_total reentry"],
				Failed:    value["holdfast_wait_seconds failed"],
				Unlocked:  value["holdfast_hold_seconds"] - want.Lost - want.Closed,
				Lost:      value["holdfast_losses_total lease"],
				Closed:    value["holdfast_losses_total closed"],
			})
			require.EqualValues(t, m.Stats().Losses, value["holdfast_losses_total lease"]+value["holdfast_losses_total closed"])
		}
	})
}
