package lockmgr_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// A held lock that the new master knows stays, and the one who waits for it is told of its release
// by a message of the new master: after the death of the old one, and after an orderly failover, in
// which the old one stays alive and says nothing.
func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, w *redistest.Watched, old *redistest.Server){
		"killed": func(_ *testing.T, _ *redistest.Watched, old *redistest.Server) { old.Kill() },
		"orderly": func(t *testing.T, w *redistest.Watched, _ *redistest.Server) {
			faults.Do(t, w.Sentinels[0], "SENTINEL", "FAILOVER", redistest.MasterSet)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := redistest.StartSentinel(t, 2)
			o := lockmgr.Options{RetryTime: 20 * time.Second}
			m, other := dialSentinel(t, w.Addrs(), o), dialSentinel(t, w.Addrs()[:1], o)
			old := w.Master()
			l := mustLock(t, m, "a")
			f := other.LockAsync("a")
			faults.AwaitSubscribed(t, old, "a", 1)
			faults.Do(t, old, "WAIT", "2", "2000")
			fail(t, w, old)
			faults.Eventually(t, func() bool { now := w.Master(); return now != nil && now != old })
			faults.AwaitSubscribed(t, w.Master(), "a", 1)
			require.True(t, l.Valid())
			mustUnlock(t, mustPass(t, l, other, f))
		})
	}
}

// A manager needs one Sentinel of three. A master that was replaced and comes back is a replica,
// and nobody takes a lock there. Managers that were there before go on at the new master: holds are
// renewed and given back there, and waiters are granted.
func TestSentinel_DemotedMasterComesBack(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 1)
	o := lockmgr.Options{RetryTime: 20 * time.Second, Lease: 24 * time.Second}
	m, waiter := dialSentinel(t, w.Addrs(), o), dialSentinel(t, w.Addrs(), o)
	ctx := faults.Patient(t)
	old := w.Master()
	held := mustLock(t, m, "held")
	waiting := []*futures.Future[*lockmgr.Lock]{waiter.LockAsync("held"), waiter.LockAsync("held")}
	faults.AwaitSubscribed(t, old, "held", 1)
	require.Equal(t, "1", faults.Do(t, old, "WAIT", "1", "2000"))
	old.Kill()
	l := mustLock(t, m, "a")
	faults.Eventually(t, func() bool { now := w.Master(); return now != nil && now != old })
	before := m.Stats().Renewals
	old.Restart()
	faults.Eventually(t, func() bool {
		role, err := old.Do("ROLE")
		return err == nil && role[:5] == "slave"
	})
	for _, s := range w.Sentinels[1:] {
		s.Kill()
	}
	other := dialSentinel(t, w.Addrs(), lockmgr.Options{})
	require.ErrorIs(t, errOf(other.TryLock(ctx, "a")), lockmgr.ErrNotAcquired)
	mustUnlock(t, l)
	mustUnlock(t, mustLock(t, other, "a"))

	faults.Eventually(t, func() bool { return m.Stats().Renewals > before }, "renewed at the new master")
	require.True(t, held.Valid())
	faults.AwaitSubscribed(t, w.Master(), "held", 1)
	faults.ByMessage(t, waiter, func() {
		mustUnlock(t, held)
		for _, f := range waiting {
			l := mustAwait(t, f)
			require.Equal(t, "1", faults.Do(t, w.Master(), "EXISTS", "held"))
			mustUnlock(t, l)
		}
	})
	for _, manager := range []*lockmgr.Manager{m, waiter} {
		mustUnlock(t, mustTryLock(t, manager, "b"))
	}
}

// Without a Sentinel that answers, Dial fails.
func TestDial_NoSentinel(t *testing.T) {
	t.Parallel()
	_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}, Sentinel: rueidis.SentinelOption{MasterSet: "main"}}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrUnavailable)
}

// The address of a Sentinel alone is no address of a server.
func TestDial_SentinelWithoutMasterSet(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, 0)
	_, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: w.Addrs()[:1]}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	require.ErrorContains(t, err, "MasterSet")
	_, err = lockmgr.Dial(rueidis.ClientOption{InitAddress: w.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: "nobody"}}, lockmgr.Options{})
	require.ErrorIs(t, err, lockmgr.ErrTopology)
	require.ErrorContains(t, err, "SENTINEL MASTERS")
}

// DialURL reads the address of a server, of a cluster and of Sentinels.
func TestDialURL(t *testing.T) {
	t.Parallel()
	ctx := faults.Patient(t)
	s, c, w := redistest.Start(t).Unrestricted(), redistest.StartCluster(t, 3, 0), redistest.StartSentinel(t, 0)
	for _, url := range []string{
		"redis://" + s.Addr(), "redis://" + c.Nodes[0].Addr(), "redis://" + c.Nodes[0].Addr() + "?addr=" + c.Nodes[1].Addr(),
		"redis://" + w.Sentinels[0].Addr() + "?master_set=" + redistest.MasterSet,
	} {
		m := must(lockmgr.DialURL(url, lockmgr.Options{}))(t, url)
		for _, name := range []string{"a", "b", "c"} {
			mustUnlock(t, must(m.Lock(ctx, name))(t, url))
		}
		mustClose(t, m)
	}
}
