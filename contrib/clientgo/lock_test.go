package clientgo

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	leakcheck.Main(m)
}

const name = "leader:billing"

// manager returns a manager that is not anonymous: others read its notes.
func manager(t *testing.T, addr string, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	o.Process = lockmgr.Process{Program: "billing"}
	return faults.Dial(t, addr, o)
}

// start returns a manager of a server of its own.
func start(t *testing.T) (*redistest.Server, *lockmgr.Manager) {
	t.Helper()
	s := redistest.Start(t)
	return s, manager(t, s.Addr(), lockmgr.Options{})
}

// leads is the record with which a candidate leads.
func leads(identity string, seconds int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: seconds}
}

// A candidate runs a real elector.
type candidate struct {
	t       *testing.T
	lock    *Lock
	elector *leaderelection.LeaderElector
	stop    context.CancelFunc
	ended   chan struct{}

	mu      sync.Mutex
	leaders []string // as OnNewLeader told them
	quits   bool     // it is to end
	quit    chan struct{}
	works   sync.WaitGroup
}

// A field counts who leads.
type field struct {
	now, terms atomic.Int64
	two        atomic.Bool // two have led at once
}

type settings struct {
	lease, deadline, retry time.Duration
	keep                   bool // the lock is not released when the context ends
	deaf                   bool // the elector does not hear of a loss
}

func (f *field) run(t *testing.T, m *lockmgr.Manager, identity string, s settings) *candidate {
	t.Helper()
	lock := redistest.Must(New(m, name, identity))(t)
	c := &candidate{t: t, lock: lock, ended: make(chan struct{}), quit: make(chan struct{})}
	c.elector = redistest.Must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: s.lease, RenewDeadline: s.deadline, RetryPeriod: s.retry, ReleaseOnCancel: !s.keep,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				c.mu.Lock()
				if c.quits {
					c.mu.Unlock()
					return
				}
				c.works.Add(1)
				defer c.works.Done()
				if f.now.Add(1) > 1 {
					f.two.Store(true)
				}
				f.terms.Add(1)
				c.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-c.quit:
				}
				f.now.Add(-1)
			},
			OnStoppedLeading: func() {},
			OnNewLeader:      func(id string) { c.mu.Lock(); defer c.mu.Unlock(); c.leaders = append(c.leaders, id) },
		},
	}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	if !s.deaf {
		ctx = lock.UntilLost(ctx)
	}
	go func() { defer close(c.ended); c.elector.Run(ctx) }()
	t.Cleanup(c.end)
	return c
}

// end ends the work of the leader, and then the elector: it releases the lock without waiting for
// OnStartedLeading.
func (c *candidate) end() {
	c.mu.Lock()
	if !c.quits {
		c.quits = true
		close(c.quit)
	}
	c.mu.Unlock()
	c.works.Wait()
	c.stop()
	<-c.ended
}

// again lets the elector run again, until t ends.
func (c *candidate) again(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quits, c.quit, c.ended = false, make(chan struct{}), make(chan struct{})
	ctx, c.stop = context.WithCancel(ctx)
	go func() { defer close(c.ended); c.elector.Run(ctx) }()
}

func (c *candidate) leads() bool { return c.elector.IsLeader() && c.lock.Token() != 0 }

func (c *candidate) heardOf(identity string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leaders) > 0 && c.leaders[len(c.leaders)-1] == identity
}

var quick = settings{lease: 20 * time.Second, deadline: 15 * time.Second, retry: 50 * time.Millisecond}

// The leader hands over when it stops. The others know it by its identity, and the tokens grow.
func TestElector_HandsOver(t *testing.T) {
	t.Parallel()
	s, m := start(t)
	f := &field{}
	a := f.run(t, m, "web-1", quick)
	faults.Eventually(t, a.leads, "web-1 leads")
	b := f.run(t, manager(t, s.Addr(), lockmgr.Options{}), "web-2", quick)
	faults.Eventually(t, func() bool { return b.heardOf("web-1") }, "web-2 knows web-1")
	require.Equal(t, []string{"web-1"}, b.leaders)
	first := a.lock.Token()
	a.end()
	began := time.Now()
	faults.Eventually(t, b.leads, "web-2 leads")
	require.Less(t, time.Since(began), 10*time.Second, "it waited for the lease")
	require.Equal(t, first+1, b.lock.Token())
	r, _, err := b.lock.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, int(first+1), r.LeaderTransitions)
	require.Equal(t, "web-2", r.HolderIdentity)
	require.False(t, f.two.Load())
}

// A leader that ends without a release keeps the lock for LeaseDuration, and no longer.
func TestElector_EndsWithoutRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := &field{}
	slow := settings{lease: 4 * time.Second, deadline: 3 * time.Second, retry: 50 * time.Millisecond, keep: true}
	a := f.run(t, manager(t, s.Addr(), lockmgr.Options{Lease: time.Second}), "web-1", slow) // shorter than LeaseDuration
	faults.Eventually(t, a.leads, "web-1 leads")
	b := f.run(t, manager(t, s.Addr(), lockmgr.Options{}), "web-2", quick)
	time.Sleep(5 * time.Second) // the elector renews the lock
	require.True(t, a.leads())
	a.end()
	began := time.Now()
	faults.Eventually(t, b.leads, "web-2 leads")
	require.Greater(t, time.Since(began), 3*time.Second)
	require.False(t, f.two.Load())
}

// A candidate that ended without a release and runs again goes on with its term. If its lease has
// ended meanwhile, that does not end the next campaign.
func TestElector_RunsAgain(t *testing.T) {
	for what, how := range map[string]settings{
		"within its lease": {lease: 20 * time.Second, deadline: 15 * time.Second, retry: 50 * time.Millisecond, keep: true},
		"after its lease":  {lease: 2 * time.Second, deadline: time.Second, retry: 50 * time.Millisecond, keep: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, m := start(t)
			f := &field{}
			a := f.run(t, m, "web-1", how)
			faults.Eventually(t, func() bool { return a.leads() && f.terms.Load() == 1 }, "web-1 leads")
			token := a.lock.Token()
			a.end()
			ctx := a.lock.UntilLost(t.Context())
			if what == "after its lease" {
				faults.Eventually(t, func() bool { return a.lock.Token() == 0 }, "the lease ends")
				token++
			}
			a.again(ctx)
			faults.Eventually(t, func() bool { return f.terms.Load() == 2 }, "web-1 leads again")
			require.Equal(t, token, a.lock.Token())
		})
	}
}

// An elector that becomes leader when its lock is lost already is told at once. So is who asks for a
// context after the loss, as by the work of the leader, until the elector has stopped leading.
func TestLock_UntilLostAfterTheLoss(t *testing.T) {
	t.Parallel()
	_, m := start(t)
	lock := redistest.Must(New(m, name, "web-1"))(t)
	elector := lock.UntilLost(t.Context())
	require.NoError(t, lock.Update(t.Context(), leads("web-1", 1)))
	faults.Eventually(t, func() bool { return lock.Token() == 0 }, "the lease ends")
	require.NoError(t, elector.Err())
	lock.RecordEvent(becameLeader)
	require.ErrorIs(t, context.Cause(elector), lockmgr.ErrLeaseLost)
	require.ErrorIs(t, context.Cause(lock.UntilLost(t.Context())), lockmgr.ErrLeaseLost)

	lock.RecordEvent(stoppedLeading)
	require.NoError(t, lock.UntilLost(t.Context()).Err(), "the next term")
}

// Candidates of one process elect one leader, even if their contexts have one owner.
func TestLock_IgnoresTheOwner(t *testing.T) {
	t.Parallel()
	_, m := start(t)
	ctx := lockmgr.WithOwner(t.Context(), m.NewOwner())
	for i, identity := range []string{"web-1", "web-2"} {
		err := redistest.Must(New(m, name, identity))(t).Update(ctx, leads(identity, 60))
		require.Equal(t, i == 0, err == nil)
		require.Equal(t, i == 1, errors.Is(err, lockmgr.ErrNotAcquired))
	}
}

// With the context of UntilLost the elector stops at a loss. Without, it stops at RenewDeadline,
// though the lock is free.
func TestElector_Loss(t *testing.T) {
	t.Parallel()
	for what, deaf := range map[string]bool{"told": false, "not told": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, m := start(t)
			f := &field{}
			how := quick
			if how.deaf = deaf; deaf {
				how.lease, how.deadline = 3*time.Second, 2*time.Second
			}
			a := f.run(t, m, "web-1", how)
			faults.Eventually(t, a.leads, "web-1 leads")
			ctx := a.lock.UntilLost(t.Context())
			faults.Do(t, s, "DEL", name)
			began := time.Now()
			faults.Eventually(t, func() bool { return faults.Closed(a.ended) }, "the elector ends")
			require.Less(t, time.Since(began), 10*time.Second)
			require.EqualValues(t, 1, f.terms.Load(), "the term went on with another hold")
			require.Zero(t, a.lock.Token())
			require.ErrorIs(t, context.Cause(ctx), lockmgr.ErrLeaseLost)

			b := f.run(t, m, "web-1", quick) // it stands again
			faults.Eventually(t, b.leads, "web-1 leads again")
		})
	}
}

// A leader that can't reach the server stops before its lease ends.
func TestElector_SilentServer(t *testing.T) {
	t.Parallel()
	s, m := start(t)
	f := &field{}
	a := f.run(t, m, "web-1", settings{lease: 20 * time.Second, deadline: time.Second, retry: 50 * time.Millisecond})
	faults.Eventually(t, a.leads, "web-1 leads")
	s.Freeze()
	began := time.Now()
	faults.Eventually(t, func() bool { return f.now.Load() == 0 }, "web-1 stops")
	require.Less(t, time.Since(began), 15*time.Second)
	s.Thaw()
	<-a.ended
}

// A leader that alone can't reach the server has stopped before another one leads, though its
// elector takes long to give up. Its release, which can't be sent, delays that not.
func TestElector_CutOff(t *testing.T) {
	t.Parallel()
	s, other := start(t)
	proxy := faultproxy.Start(t, s.Addr())
	f := &field{}
	a := f.run(t, manager(t, proxy.Addr(), lockmgr.Options{}), "web-1", settings{lease: 6 * time.Second, deadline: 4 * time.Second, retry: time.Second})
	faults.Eventually(t, a.leads, "web-1 leads")
	b := f.run(t, other, "web-2", quick)
	proxy.BlackHole()
	faults.Eventually(t, func() bool { return f.terms.Load() == 2 }, "web-2 leads")
	require.False(t, f.two.Load())
	require.True(t, b.leads())
	proxy.Heal()
}

// Contexts of UntilLost end with the term, and are forgotten.
func TestLock_UntilLostIsForgotten(t *testing.T) {
	t.Parallel()
	_, m := start(t)
	lock := redistest.Must(New(m, name, "web-1"))(t)
	for _, end := range []func(){
		func() { require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})) },
		func() { lock.RecordEvent(stoppedLeading) },
	} {
		ctx := lock.UntilLost(t.Context())
		require.NoError(t, lock.Update(t.Context(), leads("web-1", 9)))
		lock.RecordEvent(becameLeader)
		require.NoError(t, ctx.Err())
		end()
		require.ErrorIs(t, context.Cause(ctx), context.Canceled)
		lock.mu.Lock()
		require.Empty(t, lock.onLoss)
		lock.mu.Unlock()
	}
}

// However often leaders stop, two never lead at once.
func TestElector_Churn(t *testing.T) {
	t.Parallel()
	s, m := start(t)
	managers := []*lockmgr.Manager{m, manager(t, s.Addr(), lockmgr.Options{})}
	f := &field{}
	var all sync.WaitGroup
	var enough atomic.Bool
	for i := range 6 {
		all.Go(func() {
			for !enough.Load() {
				c := f.run(t, managers[i%2], strings.Repeat("x", i+1), settings{lease: 20 * time.Second, deadline: 15 * time.Second, retry: 10 * time.Millisecond})
				for began := time.Now(); !c.leads() && time.Since(began) < time.Second; {
					time.Sleep(time.Millisecond)
				}
				c.end()
			}
		})
	}
	faults.Eventually(t, func() bool { return f.terms.Load() >= 50 || f.two.Load() }, "terms")
	enough.Store(true)
	all.Wait()
	require.False(t, f.two.Load())
}

// What Update has confirmed is true on the server: it does not wait for a renewal. The terms of a
// record are those of the lock.
func TestLock_UpdateIsConfirmed(t *testing.T) {
	t.Parallel()
	lock := redistest.Must(New(manager(t, redistest.Start(t).Addr(), lockmgr.Options{Lease: time.Second}), name, "web-1"))(t)
	r := resourcelock.LeaderElectionRecord{HolderIdentity: "web-1", LeaseDurationSeconds: 100, LeaderTransitions: 41}
	for range 2 {
		require.NoError(t, lock.Update(t.Context(), r))
		info, err := lock.manager.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Greater(t, info.TTL, time.Duration(r.LeaseDurationSeconds)*time.Second*9/10)
		got, _, err := lock.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, got.LeaderTransitions)
		r.LeaseDurationSeconds += 100
	}
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
}

// The record of another leader changes while its lock is held, so that an elector takes it for a
// leader that lives. Its identity stays known. A holder with the candidate's own identity is never
// taken for it.
func TestLock_GetOfAnother(t *testing.T) {
	t.Parallel()
	s, m := start(t)
	held := faults.Take(t, manager(t, s.Addr(), lockmgr.Options{}), name, lockmgr.Note("web-1"))
	other := redistest.Must(New(m, name, "web-2"))(t)
	r, raw, err := other.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "web-1", r.HolderIdentity)
	require.WithinDuration(t, time.Now(), r.AcquireTime.Time, faults.Patience)
	require.Positive(t, r.LeaseDurationSeconds)
	faults.Eventually(t, func() bool {
		_, next, err := other.Get(t.Context())
		return err == nil && string(next) != string(raw)
	}, "the record changes")
	same := redistest.Must(New(m, name, "web-1"))(t)
	r, _, err = same.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, held.HolderID(), r.HolderIdentity)

	faults.Do(t, s, "EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', 'holdfast:manager:*')))", "0")
	r, _, err = other.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "web-1", r.HolderIdentity)
}

// A leader whose manager tells nobody who it is appears as what its record names.
func TestLock_GetOfAnonymous(t *testing.T) {
	t.Parallel()
	s, m := start(t)
	held := faults.Take(t, manager(t, s.Addr(), lockmgr.Options{Anonymous: true}), name)
	lock := redistest.Must(New(m, name, "web-1"))(t)
	for range 2 {
		r, raw, err := lock.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, held.HolderID(), r.HolderIdentity)
		require.Contains(t, string(raw), held.HolderID())
	}
	began := time.Now()
	_, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Since(began), maxNoteWait, "it waited again")
	require.ErrorIs(t, lock.Update(t.Context(), leads("web-1", 9)), lockmgr.ErrNotAcquired)
}

func TestLock_Refusals(t *testing.T) {
	t.Parallel()
	_, m := start(t)
	for _, identity := range []string{"", "web-\xff", strings.Repeat("x", lockmgr.MaxNoteBytes+1)} {
		_, err := New(m, name, identity)
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	}
	lock := redistest.Must(New(m, name, "web-1"))(t)
	require.ErrorIs(t, lock.Create(t.Context(), leads("web-2", 0)), lockmgr.ErrInvalidOption)
	require.ErrorIs(t, lock.Create(t.Context(), leads("web-1", 0)), lockmgr.ErrInvalidLease)
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}), "a release without a term")
	r, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.HolderIdentity)
}
