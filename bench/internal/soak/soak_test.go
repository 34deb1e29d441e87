package soak

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/redisserver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
)

// small is a run that takes some seconds.
func small(t *testing.T, faults string, seed uint64, length time.Duration) Config {
	t.Helper()
	redistest.Need(t)
	path := redistest.Must(redisserver.Find(os.Getenv("HOLDFAST_SERVER")))(t)
	list := redistest.Must(ParseFaults(faults, false))(t)
	return Config{
		Server: path, Duration: length, Procs: 2, Workers: 8, Names: 4, Lease: 400 * time.Millisecond,
		Every: 100 * time.Millisecond, Faults: list, Seed: seed,
	}
}

// runUntil runs for longer and longer, until a run has met enough. A busy machine gets little done
// in a short run.
func runUntil(t *testing.T, c Config, enough func(*Result) bool) *Result {
	t.Helper()
	for ; ; c.Duration *= 3 {
		r := redistest.Must(Run(t.Context(), c))(t)
		if enough(r) || c.Duration > time.Minute {
			return r
		}
	}
}

// metAll reports whether a run has had locks of all kinds.
func metAll(r *Result) bool {
	return r.Reads > 0 && r.Reads < r.Grants && r.Sets > 0 && r.PermitGrants > 0 && r.WritesAccepted > 0
}

func TestSoak_NoLockIsHeldTwiceUnderFaults(t *testing.T) {
	t.Parallel()
	var statuses []Status
	c := small(t, "all", 5, 2*time.Second)
	c.Status = func(s Status) { statuses = append(statuses, s) }
	r := runUntil(t, c, func(r *Result) bool { return metAll(r) && len(r.Faults) > 0 && len(statuses) > 0 })
	require.Empty(t, r.Violations(), "%v\n%v\n%v", r.Told, r.Left, r.Schedule)
	require.Empty(t, r.Failing)
	require.NotEmpty(t, r.Faults)
	require.Positive(t, r.Grants)
	require.Positive(t, r.Reads)
	require.Less(t, r.Reads, r.Grants)
	require.Positive(t, r.Sets)
	require.GreaterOrEqual(t, r.SetNames, 2*r.Sets)
	require.Positive(t, r.PermitGrants)
	require.GreaterOrEqual(t, r.Permits, r.PermitGrants)
	require.Positive(t, r.PermitsChecked)
	require.Zero(t, r.PermitsUnchecked)
	require.LessOrEqual(t, r.PermitsMost, permitLimit)
	require.Positive(t, r.BeliefsChecked)
	require.Zero(t, r.BeliefsUnchecked)
	require.Positive(t, r.WritesAccepted)
	require.Positive(t, r.Legal)
	require.Zero(t, r.Undecided)
	require.GreaterOrEqual(t, 2*r.Grants, r.Operations)
	require.NotEmpty(t, statuses)
	t.Logf("%d grants, %d lost, faults %v", r.Grants, r.Lost, r.Faults)
}

// The checker is checked: each of these clients is broken in a way that only what it does can show.
// A run ends as soon as that is seen, or after a time that is enough on any machine.
func TestSoak_FindsABrokenClient(t *testing.T) {
	t.Parallel()
	overlaps := func(s Status) bool { return s.Overlaps > 0 }
	for client, c := range map[string]struct {
		enough func(Status) bool
		caught func(*Result) bool
	}{
		"careless":  {overlaps, func(r *Result) bool { return r.BeliefOverlaps > 0 && r.Illegal > 0 }},
		"stretched": {overlaps, func(r *Result) bool { return r.BeliefOverlaps > 0 && r.Illegal > 0 }},
		partial:     {overlaps, func(r *Result) bool { return r.BeliefOverlaps > 0 && r.Illegal > 0 }},
		"doubled":   {overlaps, func(r *Result) bool { return r.BeliefOverlaps > 0 && r.Illegal > 0 }},
		overfull:    {func(s Status) bool { return s.Overruns > 0 }, func(r *Result) bool { return r.PermitOverruns > 0 && r.BeliefOverlaps == 0 && r.Illegal == 0 }},
		"leaky": {
			func(s Status) bool { return s.Grants > 20*leakyOneIn },
			func(r *Result) bool { return r.Left.Goroutines > 0 && r.BeliefOverlaps == 0 },
		},
	} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			config := small(t, "none", 1, 30*time.Second)
			config.Client = client
			config.Status = func(s Status) {
				if c.enough(s) {
					cancel()
				}
			}
			r := redistest.Must(Run(ctx, config))(t)
			require.NotEmpty(t, r.Violations())
			require.True(t, c.caught(r), "%v", r.Violations())
		})
	}
}

// begun returns a run whose workers are ready, without a schedule.
func begun(t *testing.T, procs int) *run {
	t.Helper()
	c := small(t, "all,breaking", 1, time.Minute)
	c.Procs = procs
	r, end, err := prepare(c)
	t.Cleanup(end)
	require.NoError(t, err)
	require.NoError(t, r.begin(t.Context()))
	t.Cleanup(func() {
		r.rest(true)
		r.judge.finish()
	})
	return r
}

func TestFault_EachStrikes(t *testing.T) {
	r := begun(t, 2)
	life := func() uint32 { return r.procs[0].life }
	for _, k := range kinds {
		if !k.concerns(false) {
			continue
		}
		var blows int
		// A fault may meet nobody: the worker is still coming back from the one before.
		for deadline := time.Now().Add(20 * time.Second); blows == 0 && time.Now().Before(deadline); {
			f := Fault{Kind: k.name, Slot: -1, Seed: 3}
			if !k.server {
				f.Slot = 0
			}
			if k.most > 0 {
				f.For = 30 * time.Millisecond
			}
			before := life()
			n := redistest.Must(r.inflict(f, nil))(t, k.name)
			require.Equal(t, k.name == "kill", life() != before)
			blows += n
		}
		require.Positive(t, blows, k.name)
	}
	_, err := r.inflict(Fault{Kind: "earthquake"}, nil)
	require.Error(t, err)
	_, err = r.inflict(Fault{Kind: "earthquake", Slot: -1}, nil)
	require.Error(t, err)
	grants := func() int {
		r.judge.mu.Lock()
		defer r.judge.mu.Unlock()
		return r.judge.Grants
	}
	was := grants()
	require.Eventually(t, func() bool { return grants() > was }, 20*time.Second, time.Millisecond, "life goes on")
}

func TestWorker_EndOfItsOwnIsAViolation(t *testing.T) {
	r := begun(t, 1)
	r.procs[0].child.Kill()
	r.rest(false)
	require.Equal(t, 1, r.judge.Contradictions, "%v", r.judge.Told)
	require.Positive(t, r.judge.violations())
}

// A worker whose parent is gone must not stay.
func TestWorker_EndsWithItsInput(t *testing.T) {
	r := begun(t, 1)
	require.NoError(t, r.procs[0].in.Close())
	select {
	case <-r.procs[0].child.Done():
	case <-time.After(20 * time.Second):
		t.Error("the worker is still there")
	}
}

func TestSoak_FindsWhatIsLeftOnTheServer(t *testing.T) {
	r := begun(t, 1)
	r.rest(false)
	require.Empty(t, r.judge.Told)
	var l Leftovers
	none := func() bool {
		return r.probe(&l) == nil && len(l.Keys)+len(l.Permits)+len(l.Channels)+len(l.Connections) == 0
	}
	require.Eventually(t, none, 20*time.Second, time.Millisecond, "%v", l)

	_, err := r.fleet.nodes[0].do([]string{"SET", "redisson_lock_token:{x}", "1"}, []string{"SET", "soak:0", "1"})
	require.NoError(t, err)
	require.NoError(t, r.probe(&l))
	require.Equal(t, []string{"soak:0"}, l.Keys, "counters may stay")
	c := redistest.Must(resp.Dial(r.fleet.nodes[0].Addr(), replyTimeout))(t)
	defer c.Close()
	redistest.Must(c.Do("SUBSCRIBE", "there"))(t)
	require.NoError(t, r.probe(&l))
	require.Equal(t, []string{"there"}, l.Channels)
	require.Len(t, l.Connections, 1)

	// Permits are all free if those that are taken have expired, and the counter says so.
	keys := permitKeys(r.Names)
	for what, x := range map[string]struct {
		free, till string
		fine       bool
	}{
		"all free":       {"4", "", true},
		"one expired":    {"3", "1", true},
		"one taken":      {"3", "99999999999999", false},
		"one lost":       {"3", "", false},
		"one too many":   {"5", "", false},
		"counted twice":  {"4", "1", false},
		"of no use":      {"x", "", false},
		"without a rest": {"0", "99999999999999", false},
	} {
		commands := [][]string{{"DEL", keys[1]}, {"SET", keys[0], x.free}}
		if x.till != "" {
			commands = append(commands, []string{"ZADD", keys[1], x.till, "a permit"})
		}
		redistest.Must(r.fleet.nodes[0].do(commands...))(t)
		require.NoError(t, r.probe(&l))
		require.Equal(t, x.fine, len(l.Permits) == 0, "%s: %q", what, l.Permits)
		require.Equal(t, []string{"soak:0"}, l.Keys)
	}
	require.NoError(t, r.recount())
	redistest.Must(r.fleet.nodes[0].do([]string{"DEL", keys[1]}))(t)
	require.NoError(t, r.recount())
	require.NoError(t, r.probe(&l))
	require.Empty(t, l.Permits)

	// Nor does a restart lose data, unless it is to.
	restart := func(kind string) {
		redistest.Must(r.hitServer(Fault{Kind: kind}, nil))(t)
		require.NoError(t, r.probe(&l))
	}
	restart("restart")
	require.Equal(t, []string{"soak:0"}, l.Keys)
	require.Empty(t, l.Channels)
	restart("forget")
	require.Empty(t, l.Keys)
	require.Empty(t, l.Permits, "the next request sets the counters")
}

func TestViolations_EachKindCounts(t *testing.T) {
	good := func() *Result { return &Result{Tally: Tally{Grants: 1}} }
	require.Empty(t, good().Violations())
	require.NotEmpty(t, (&Result{}).Violations(), "nothing was granted")
	for name, c := range map[string]struct {
		set       func(*Result)
		exclusion bool // not judged when the server was made to forget
	}{
		"beliefs":        {func(r *Result) { r.BeliefOverlaps = 1 }, true},
		"writes":         {func(r *Result) { r.AcceptedOverlaps = 1 }, true},
		"permits":        {func(r *Result) { r.PermitOverruns = 1 }, true},
		"refusals":       {func(r *Result) { r.UnjustRefusals = 1 }, true},
		"histories":      {func(r *Result) { r.Illegal = 1 }, true},
		"early losses":   {func(r *Result) { r.LossesEarly = 1 }, true},
		"contradictions": {func(r *Result) { r.Contradictions = 1 }, false},
		"waits":          {func(r *Result) { r.Left.Stuck = 1 }, false},
		"goroutines":     {func(r *Result) { r.Left.Goroutines = 1 }, false},
		"keys":           {func(r *Result) { r.Left.Keys = []string{"x"} }, false},
		"free permits":   {func(r *Result) { r.Left.Permits = []string{"x"} }, false},
		"channels":       {func(r *Result) { r.Left.Channels = []string{"x"} }, false},
		"connections":    {func(r *Result) { r.Left.Connections = []string{"x"} }, false},
		"probe":          {func(r *Result) { r.Left.Problem = "x" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			c.set(r)
			require.Len(t, r.Violations(), 1)
			r.Breaking = true
			require.Equal(t, c.exclusion, len(r.Violations()) == 0)
		})
	}
}
