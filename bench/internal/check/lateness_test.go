package check

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = int64(time.Millisecond)

func TestLateness_CountsFromTheClaim(t *testing.T) {
	var l Lateness
	l.Add(Loss{Proc: 1, Claim: 100 * ms, Saw: 107 * ms})
	require.InEpsilon(t, 7*ms, int64(l.Running.Quantile(1)), 0.01)
	require.EqualValues(t, 7*ms, l.Running.Max)
	l.Add(Loss{Proc: 1, Claim: 100 * ms, Saw: 90 * ms})
	require.EqualValues(t, 1, l.Running.N())
	require.Equal(t, 1, l.Early)
	l.Add(Loss{Proc: 1, Claim: 100 * ms, Saw: 103 * ms, Timer: true})
	require.EqualValues(t, 3*ms, l.Timers.Max)
	require.EqualValues(t, 1, l.Running.N(), "a timer is no loss")
}

func TestLateness_NotOfAStoppedProcess(t *testing.T) {
	var l Lateness
	l.Stop(1, 50*ms)
	l.Continue(1, 300*ms)
	l.Stop(2, 1000*ms) // still is
	l.Add(Loss{Proc: 1, Claim: 100 * ms, Saw: 302 * ms})
	require.EqualValues(t, 2*ms, l.Stopped.Max, "from where it went on")
	l.Add(Loss{Proc: 1, Claim: 30 * ms, Saw: 303 * ms})
	require.EqualValues(t, 23*ms, l.Stopped.Max, "what it was late before it was stopped counts")
	l.Add(Loss{Proc: 2, Claim: 900 * ms, Saw: 1500 * ms})
	require.EqualValues(t, 100*ms, l.Stopped.Max)
	l.Add(Loss{Proc: 1, Claim: 100 * ms, Saw: 400 * ms, Timer: true})
	require.Zero(t, l.Running.N())
	require.Zero(t, l.Timers.N(), "what a stop does to a timer tells nothing")

	l.Add(Loss{Proc: 3, Claim: 100 * ms, Saw: 302 * ms})
	require.EqualValues(t, 202*ms, l.Running.Max, "others were not stopped")
	l.Add(Loss{Proc: 1, Claim: 400 * ms, Saw: 401 * ms})
	require.EqualValues(t, 2, l.Running.N(), "it was not stopped then")
}
