package clientgo

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	leakcheck.Main(m)
}

// patient is longer than any step takes on a busy machine.
const patient = time.Minute

const name = "leader:billing"

func manager(t *testing.T, s *redistest.Server, o lockmgr.Options) *lockmgr.Manager {
	t.Helper()
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		require.NoError(t, m.Close(ctx))
	})
	return m
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
	lock, err := New(m, name, identity)
	require.NoError(t, err)
	c := &candidate{t: t, lock: lock, ended: make(chan struct{}), quit: make(chan struct{})}
	c.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
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
	})
	require.NoError(t, err)
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

// again lets the elector run again.
func (c *candidate) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quits, c.quit = false, make(chan struct{})
}

func (c *candidate) leads() bool { return c.elector.IsLeader() && c.lock.Token() != 0 }

func (c *candidate) heardOf(identity string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leaders) > 0 && c.leaders[len(c.leaders)-1] == identity
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, patient, 5*time.Millisecond, what)
}

var quick = settings{lease: 20 * time.Second, deadline: 15 * time.Second, retry: 50 * time.Millisecond}

// The leader hands over when it stops. The others know it by its identity, and the tokens grow.
func TestElector_HandsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := &field{}
	a := f.run(t, manager(t, s, lockmgr.Options{}), "web-1", quick)
	eventually(t, "web-1 leads", a.leads)
	b := f.run(t, manager(t, s, lockmgr.Options{}), "web-2", quick)
	eventually(t, "web-2 knows web-1", func() bool { return b.heardOf("web-1") })
	require.Equal(t, []string{"web-1"}, b.leaders)
	first := a.lock.Token()
	a.end()
	began := time.Now()
	eventually(t, "web-2 leads", b.leads)
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
	a := f.run(t, manager(t, s, lockmgr.Options{Lease: time.Second}), "web-1", slow) // shorter than LeaseDuration
	eventually(t, "web-1 leads", a.leads)
	b := f.run(t, manager(t, s, lockmgr.Options{}), "web-2", quick)
	time.Sleep(5 * time.Second) // the elector renews the lock
	require.True(t, a.leads())
	a.end()
	began := time.Now()
	eventually(t, "web-2 leads", b.leads)
	require.Greater(t, time.Since(began), 3*time.Second)
	require.False(t, f.two.Load())
}

// A candidate that ended without a release and runs again goes on with its term.
func TestElector_RunsAgain(t *testing.T) {
	t.Parallel()
	m := manager(t, redistest.Start(t), lockmgr.Options{})
	f := &field{}
	keep := quick
	keep.keep = true
	a := f.run(t, m, "web-1", keep)
	eventually(t, "web-1 leads", func() bool { return a.leads() && f.terms.Load() == 1 })
	token := a.lock.Token()
	a.end()
	a.again()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); a.elector.Run(ctx) }()
	eventually(t, "web-1 leads again", func() bool { return f.terms.Load() == 2 })
	require.Equal(t, token, a.lock.Token())
	stop()
	<-ended
}

// A hold that ends after its elector has stopped without a release does not end the next campaign.
func TestElector_RunsAgainAfterItsLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := &field{}
	a := f.run(t, manager(t, s, lockmgr.Options{}), "web-1", settings{lease: 2 * time.Second, deadline: time.Second, retry: 50 * time.Millisecond, keep: true})
	eventually(t, "web-1 leads", func() bool { return a.leads() && f.terms.Load() == 1 })
	token := a.lock.Token()
	a.end()
	a.again()
	ctx, stop := context.WithCancel(a.lock.UntilLost(t.Context()))
	eventually(t, "the lease ends", func() bool { return a.lock.Token() == 0 })
	ended := make(chan struct{})
	go func() { defer close(ended); a.elector.Run(ctx) }()
	eventually(t, "web-1 leads again", func() bool { return f.terms.Load() == 2 })
	require.Equal(t, token+1, a.lock.Token())
	stop()
	<-ended
}

// An elector that becomes leader when its lock is lost already is told at once.
func TestLock_LossBeforeTheElectorLeads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock, err := New(manager(t, s, lockmgr.Options{}), name, "web-1")
	require.NoError(t, err)
	ctx := lock.UntilLost(t.Context())
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "web-1", LeaseDurationSeconds: 1}))
	eventually(t, "the lease ends", func() bool { return lock.Token() == 0 })
	require.NoError(t, ctx.Err())
	lock.RecordEvent(becameLeader)
	require.ErrorIs(t, context.Cause(ctx), lockmgr.ErrLeaseLost)
}

// A context of UntilLost that is made after a loss, as by the work of the leader, has ended.
func TestLock_UntilLostAfterTheLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock, err := New(manager(t, s, lockmgr.Options{}), name, "web-1")
	require.NoError(t, err)
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "web-1", LeaseDurationSeconds: 1}))
	lock.RecordEvent(becameLeader)
	elector := lock.UntilLost(t.Context())
	<-elector.Done()
	work := lock.UntilLost(t.Context())
	require.ErrorIs(t, context.Cause(work), lockmgr.ErrLeaseLost)

	lock.RecordEvent(stoppedLeading)
	require.NoError(t, lock.UntilLost(t.Context()).Err(), "the next term")
}

// Candidates of one process elect one leader, even if their contexts have one owner.
func TestLock_IgnoresTheOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := manager(t, s, lockmgr.Options{})
	ctx := lockmgr.WithOwner(t.Context(), m.NewOwner())
	for i, identity := range []string{"web-1", "web-2"} {
		lock, err := New(m, name, identity)
		require.NoError(t, err)
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: 60})
		if i == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
		}
	}
}

// With the context of UntilLost the elector stops at a loss. Without, it stops at RenewDeadline,
// though the lock is free.
func TestElector_Loss(t *testing.T) {
	t.Parallel()
	for what, deaf := range map[string]bool{"told": false, "not told": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			m := manager(t, s, lockmgr.Options{})
			f := &field{}
			how := quick
			if how.deaf = deaf; deaf {
				how.lease, how.deadline = 3*time.Second, 2*time.Second
			}
			a := f.run(t, m, "web-1", how)
			eventually(t, "web-1 leads", a.leads)
			ctx := a.lock.UntilLost(t.Context())
			_, err := s.Do("DEL", name)
			require.NoError(t, err)
			began := time.Now()
			eventually(t, "the elector ends", func() bool { return closed(a.ended) })
			require.Less(t, time.Since(began), 10*time.Second)
			require.EqualValues(t, 1, f.terms.Load(), "the term went on with another hold")
			require.Zero(t, a.lock.Token())
			require.ErrorIs(t, context.Cause(ctx), lockmgr.ErrLeaseLost)

			b := f.run(t, m, "web-1", quick) // it stands again
			eventually(t, "web-1 leads again", b.leads)
		})
	}
}

// A leader that can't reach the server stops before its lease ends.
func TestElector_SilentServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := &field{}
	how := settings{lease: 20 * time.Second, deadline: time.Second, retry: 50 * time.Millisecond}
	a := f.run(t, manager(t, s, lockmgr.Options{}), "web-1", how)
	eventually(t, "web-1 leads", a.leads)
	s.Freeze()
	began := time.Now()
	eventually(t, "web-1 stops", func() bool { return f.now.Load() == 0 })
	require.Less(t, time.Since(began), 15*time.Second)
	s.Thaw()
	<-a.ended
}

// A leader that alone can't reach the server has stopped before another one leads, though its
// elector takes long to give up. Its release, which can't be sent, delays that not.
func TestElector_CutOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faultproxy.Start(t, s.Addr())
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}, lockmgr.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		require.NoError(t, m.Close(ctx))
	})
	f := &field{}
	a := f.run(t, m, "web-1", settings{lease: 6 * time.Second, deadline: 4 * time.Second, retry: time.Second})
	eventually(t, "web-1 leads", a.leads)
	b := f.run(t, manager(t, s, lockmgr.Options{}), "web-2", quick)
	proxy.BlackHole()
	eventually(t, "web-2 leads", func() bool { return f.terms.Load() == 2 })
	require.False(t, f.two.Load())
	require.True(t, b.leads())
	proxy.Heal()
}

// Contexts of UntilLost end with the term, and are forgotten.
func TestLock_UntilLostIsForgotten(t *testing.T) {
	t.Parallel()
	lock, err := New(manager(t, redistest.Start(t), lockmgr.Options{}), name, "web-1")
	require.NoError(t, err)
	lead := resourcelock.LeaderElectionRecord{HolderIdentity: "web-1", LeaseDurationSeconds: 9}
	for _, end := range []func(){
		func() { require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{})) },
		func() { lock.RecordEvent(stoppedLeading) },
	} {
		ctx := lock.UntilLost(t.Context())
		require.NoError(t, lock.Update(t.Context(), lead))
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
	s := redistest.Start(t)
	managers := []*lockmgr.Manager{manager(t, s, lockmgr.Options{}), manager(t, s, lockmgr.Options{})}
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
	eventually(t, "terms", func() bool { return f.terms.Load() >= 50 || f.two.Load() })
	enough.Store(true)
	all.Wait()
	require.False(t, f.two.Load())
}

// What Update has confirmed is true on the server: it does not wait for a renewal. The terms of a
// record are those of the lock.
func TestLock_UpdateIsConfirmed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lock, err := New(manager(t, s, lockmgr.Options{Lease: time.Second}), name, "web-1")
	require.NoError(t, err)
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
	s := redistest.Start(t)
	held, err := manager(t, s, lockmgr.Options{}).Lock(t.Context(), name, lockmgr.Note("web-1"))
	require.NoError(t, err)
	m := manager(t, s, lockmgr.Options{})
	other, err := New(m, name, "web-2")
	require.NoError(t, err)
	r, raw, err := other.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "web-1", r.HolderIdentity)
	require.WithinDuration(t, time.Now(), r.AcquireTime.Time, patient)
	require.Positive(t, r.LeaseDurationSeconds)
	eventually(t, "the record changes", func() bool {
		_, next, err := other.Get(t.Context())
		return err == nil && string(next) != string(raw)
	})
	same, err := New(m, name, "web-1")
	require.NoError(t, err)
	r, _, err = same.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, held.HolderID(), r.HolderIdentity)

	_, err = s.Do("EVAL", "return redis.call('DEL', unpack(redis.call('KEYS', 'holdfast:manager:*')))", "0")
	require.NoError(t, err)
	r, _, err = other.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, "web-1", r.HolderIdentity)
}

// A leader whose manager tells nobody who it is appears as what its record names.
func TestLock_GetOfAnonymous(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	held, err := manager(t, s, lockmgr.Options{Anonymous: true}).Lock(t.Context(), name)
	require.NoError(t, err)
	lock, err := New(manager(t, s, lockmgr.Options{}), name, "web-1")
	require.NoError(t, err)
	for range 2 {
		r, raw, err := lock.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, held.HolderID(), r.HolderIdentity)
		require.Contains(t, string(raw), held.HolderID())
	}
	began := time.Now()
	_, _, err = lock.Get(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Since(began), maxNoteWait, "it waited again")
	require.ErrorIs(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "web-1", LeaseDurationSeconds: 9}), lockmgr.ErrNotAcquired)
}

func TestLock_Refusals(t *testing.T) {
	t.Parallel()
	m := manager(t, redistest.Start(t), lockmgr.Options{})
	for _, identity := range []string{"", "web-\xff", strings.Repeat("x", lockmgr.MaxNoteBytes+1)} {
		_, err := New(m, name, identity)
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
	}
	lock, err := New(m, name, "web-1")
	require.NoError(t, err)
	require.ErrorIs(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "web-2"}), lockmgr.ErrInvalidOption)
	require.ErrorIs(t, lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "web-1"}), lockmgr.ErrInvalidLease)
	require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{}), "a release without a term")
	r, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	require.Empty(t, r.HolderIdentity)
}
