package gocron

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/readme"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadme_CodeIsInTheExample(t *testing.T) { readme.Check(t) }

func manager(t *testing.T, s *redistest.Server) *lockmgr.Manager {
	t.Helper()
	return faults.Dial(t, s.Addr(), lockmgr.Options{})
}

// counted counts the runs that its locker refused because the lock was held.
type counted struct {
	gocron.Locker
	refused *atomic.Int64
	t       *testing.T
}

func (c counted) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	l, err := c.Locker.Lock(ctx, key)
	if err != nil {
		if ctx.Err() == nil {
			requireBusy(c.t, l, err)
		}
		c.refused.Add(1)
	}
	return l, err
}

func requireBusy(t *testing.T, l gocron.Lock, err error) {
	if l != nil || !lockmgr.Temporary(err) {
		t.Errorf("Lock returned %v, %v", l, err)
	}
}

// Two schedulers run a job on one of them at a time. Each run lasts until another one was refused,
// so the test does not depend on the speed of the machine.
func TestLocker_TwoSchedulers(t *testing.T) {
	s := redistest.Start(t)
	var running, runs, refused atomic.Int64
	const enough = 10
	done := make(chan struct{})
	job := func(ctx context.Context) {
		if running.Add(1) != 1 {
			t.Error("the job runs twice")
		}
		before := refused.Load()
		for ctx.Err() == nil && refused.Load() == before {
			time.Sleep(time.Millisecond)
		}
		running.Add(-1)
		if runs.Add(1) == enough {
			close(done)
		}
	}
	for range 2 {
		locker := NewLocker(manager(t, s), Options{Prefix: "jobs:"})
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(counted{locker, &refused, t}))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
		_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(job), gocron.WithName("report"))
		require.NoError(t, err)
		scheduler.Start()
	}
	select {
	case <-done:
	case <-time.After(faults.Patience):
		t.Fatalf("%d runs, %d refused", runs.Load(), refused.Load())
	}
}

// A lock that is held is an error, and no lock. Its name has the prefix.
func TestLocker_Busy(t *testing.T) {
	s := redistest.Start(t)
	m, other := manager(t, s), manager(t, s)
	held := faults.Take(t, other, "jobs:report")
	locker := NewLocker(m, Options{Prefix: "jobs:"})
	l, err := locker.Lock(t.Context(), "report")
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
	require.True(t, l == nil, "a nil pointer in the interface is not nil")

	// With MaxWait a scheduler waits.
	waiting := make(chan error, 1)
	go func() {
		l, err := NewLocker(m, Options{Prefix: "jobs:", Lock: []lockmgr.LockOption{lockmgr.MaxWait(faults.Patience)}}).Lock(context.Background(), "report")
		if err == nil {
			err = l.Unlock(context.Background())
		}
		waiting <- err
	}()
	faults.Eventually(t, func() bool { return m.Stats().Waiting == 1 })
	faults.Release(t, held)
	require.NoError(t, <-waiting)
}

// Three schedulers that start a job at different instants of an interval run it once per interval.
func TestLocker_OncePerInterval(t *testing.T) {
	s := redistest.Start(t)
	const interval = 500 * time.Millisecond
	var runs atomic.Int64
	for i := range 3 {
		locker := NewLocker(manager(t, s), Options{KeepFor: interval * 9 / 10})
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
		start := time.Now().Add(time.Second + time.Duration(i)*interval/10) // each in the first third of an interval
		_, err = scheduler.NewJob(gocron.DurationJob(interval), gocron.NewTask(func() { runs.Add(1) }),
			gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartDateTime(start)))
		require.NoError(t, err)
		scheduler.Start()
	}
	begin := time.Now()
	faults.Eventually(t, func() bool { return runs.Load() >= 6 })
	require.GreaterOrEqual(t, time.Since(begin), 5*interval*9/10, "without KeepFor, six runs take two intervals")
}

// run runs a job once by a scheduler with a locker, and returns the error of its task.
func run(t *testing.T, used *Locker, task gocron.Task, options ...gocron.JobOption) error {
	t.Helper()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(used))
	require.NoError(t, err)
	defer func() { require.NoError(t, scheduler.Shutdown()) }()
	ended := make(chan error, 1)
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task, append(options, gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { ended <- nil }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { ended <- err }),
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { ended <- err }),
	))...)
	require.NoError(t, err)
	scheduler.Start()
	select {
	case err := <-ended:
		return err
	case <-time.After(faults.Patience):
		t.Fatal("the job has not run")
		return nil
	}
}

// The context of a job of Task has the lock of the run, with the token that Options.Lock asks for.
func TestTask_HasItsLock(t *testing.T) {
	m := manager(t, redistest.Start(t))
	locker := NewLocker(m, Options{Prefix: "jobs:", Lock: []lockmgr.LockOption{lockmgr.Fenced()}})
	failed := errors.New("failed")
	for n := range int64(3) {
		require.ErrorIs(t, run(t, locker, locker.Task(func(ctx context.Context) error {
			l := lockmgr.FromContext(ctx)
			require.True(t, l.Valid())
			require.Equal(t, "jobs:report", l.Name())
			require.Equal(t, n+1, l.Token())
			return failed
		}), gocron.WithName("report")), failed)
	}
	require.NoError(t, run(t, locker, locker.Task(func(context.Context) error { return nil }), gocron.WithName("report")))
	require.NoError(t, run(t, locker, gocron.NewTask(func() {}), gocron.WithName("report")), "a task of gocron")
	faults.Eventually(t, func() bool { return m.Stats().Held == 0 })
	require.Empty(t, locker.runs)
}

// A job of Task is told of a loss, and so is gocron.
func TestTask_TellsALoss(t *testing.T) {
	m := manager(t, redistest.Start(t))
	locker := NewLocker(m, Options{Lock: []lockmgr.LockOption{lockmgr.FixedLease(100 * time.Millisecond)}})
	failed := errors.New("failed")
	err := run(t, locker, locker.Task(func(ctx context.Context) error {
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), lockmgr.ErrLeaseLost)
		return failed
	}), gocron.WithName("report"))
	require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
	require.ErrorIs(t, err, failed)
	err = run(t, locker, locker.Task(func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}), gocron.WithName("other"))
	require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
	require.NotContains(t, err.Error(), "\n", "the loss is told once")
}

// An option that lets others run the job at the same time is refused.
func TestLocker_RefusesOptionsThatUndoIt(t *testing.T) {
	m := manager(t, redistest.Start(t))
	for _, o := range []lockmgr.LockOption{lockmgr.Shared(), lockmgr.AsOwner(m.NewOwner())} {
		_, err := NewLocker(m, Options{Lock: []lockmgr.LockOption{o}}).Lock(t.Context(), "report")
		require.ErrorIs(t, err, lockmgr.ErrInvalidOption)
		require.ErrorContains(t, err, o.Name())
	}
}

// A lock may be lost before the task of its run begins, and the next run then gets another one. The
// runs have one context. Neither run, when it ends, unlocks the lock of the other one's task.
func TestTask_LossBeforeItBegins(t *testing.T) {
	m := manager(t, redistest.Start(t))
	locker := NewLocker(m, Options{})
	ctx := t.Context()
	lost, err := locker.Lock(ctx, "report")
	require.NoError(t, err)
	_, err = m.ForceUnlock(ctx, "report")
	require.NoError(t, err)
	<-lost.(*held).Lost()
	next, err := locker.Lock(ctx, "report")
	require.NoError(t, err)

	// The tasks may begin in any order: here that of the next run begins first.
	require.ErrorIs(t, task{locker, func(ctx context.Context) error { return ctx.Err() }}.run(ctx), lockmgr.ErrLeaseLost)
	require.ErrorIs(t, next.Unlock(ctx), lockmgr.ErrLeaseLost)
	require.NoError(t, task{locker, func(ctx context.Context) error {
		require.NoError(t, ctx.Err(), "another run has ended")
		require.ErrorIs(t, next.Unlock(t.Context()), lockmgr.ErrNotHeld)
		return ctx.Err()
	}}.run(ctx))
	require.NoError(t, lost.Unlock(ctx))
	require.Empty(t, locker.runs)
	require.Zero(t, m.Stats().Held)
}

// A job of Task is not run without a lock of its locker, nor without a name, which all such jobs
// would share.
func TestTask_IsNotRun(t *testing.T) {
	m := manager(t, redistest.Start(t))
	locker, other := NewLocker(m, Options{}), NewLocker(m, Options{})
	never := locker.Task(func(context.Context) error { t.Error("the job runs"); return nil })
	require.ErrorIs(t, run(t, other, never, gocron.WithName("report")), ErrNoLock)
	require.ErrorContains(t, run(t, locker, never), "needs a name")

	// A run gets no lock of another run, even if gocron gives both the same context.
	ctx, runs := t.Context(), 0
	_, err := locker.Lock(ctx, "report")
	require.NoError(t, err)
	once := task{locker, func(context.Context) error { runs++; return nil }}
	require.NoError(t, once.run(ctx))
	require.ErrorIs(t, once.run(ctx), ErrNoLock)
	require.Equal(t, 1, runs)
}

// Jobs run in the process that leads, and in another one after a handover.
func TestElector(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	var ran [2]atomic.Int64
	var leaders [2]*lockmgr.Leader
	for i := range leaders {
		leader := manager(t, s).CampaignFor(context.Background(), "scheduler")
		leaders[i] = leader
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(NewElector(leader)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, scheduler.Shutdown()) })
		_, err = scheduler.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() { ran[i].Add(1) }))
		require.NoError(t, err)
		scheduler.Start()
		if i == 0 {
			faults.Eventually(t, leader.IsLeader)
		}
	}
	require.NoError(t, NewElector(leaders[0]).IsLeader(ctx))
	require.ErrorIs(t, NewElector(leaders[1]).IsLeader(ctx), ErrNotLeader)
	faults.Eventually(t, func() bool { return ran[0].Load() >= 10 })
	require.Zero(t, ran[1].Load())
	require.NoError(t, leaders[0].Resign(ctx))
	faults.Eventually(t, func() bool { return ran[1].Load() >= 10 })
	require.NoError(t, leaders[1].Resign(ctx))
}

// A run excludes all others, even if the contexts of their jobs have the same owner.
func TestLocker_IgnoresTheOwner(t *testing.T) {
	m := manager(t, redistest.Start(t))
	ctx := lockmgr.WithOwner(t.Context(), m.NewOwner())
	locker := NewLocker(m, Options{})
	lock, err := locker.Lock(ctx, "report")
	require.NoError(t, err)
	other, err := locker.Lock(ctx, "report")
	requireBusy(t, other, err)
	require.NoError(t, lock.Unlock(ctx))
}
