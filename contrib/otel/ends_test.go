package holdfastotel

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/holdfast-go/holdfast/internal/faults/ends"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// However a hold ends, the metrics and the spans tell of it. Each handle that was unlocked has a
// hold time and a span, and each hold that was lost.
func TestObserve_AllEnds(t *testing.T) {
	ends.Each(t, func(t *testing.T, o *lockmgr.Options) func(*lockmgr.Manager, ends.Counts) {
		telemetry, w := keeps(t, Options{Roots: true})
		o.Observer = telemetry.Observe
		return func(m *lockmgr.Manager, want ends.Counts) {
			value := map[string]int{}
			for name, v := range collect(t, w.reader) {
				value[name] = int(v)
			}
			figures := ends.Counts{
				Granted: value["holdfast.lock.wait.duration"], Reentered: value["holdfast.lock.reentries"], Failed: want.Failed,
				Unlocked: value["holdfast.lock.hold.duration"],
				Lost:     value["holdfast.lock.hold.duration lost"], Closed: value["holdfast.lock.hold.duration closed"],
			}
			require.Equal(t, want, figures)
			require.Equal(t, want.Lost, value["holdfast.lock.losses lost"])
			require.Equal(t, want.Closed, value["holdfast.lock.losses closed"])
			require.EqualValues(t, m.Stats().Losses, want.Lost+want.Closed)

			told := ends.Counts{Reentered: want.Reentered} // it has no wait
			for _, s := range w.spans.GetSpans() {
				reason := attributes(s)["error.type"]
				switch {
				case s.Name == "lock wait" && s.Status.Code == codes.Error:
					told.Failed++
				case s.Name == "lock wait":
					told.Granted++
				case reason == nil:
					told.Unlocked++
				case reason == "closed":
					told.Closed++
				default:
					told.Lost++
				}
			}
			require.Equal(t, want, told)
		}
	})
}
