package cron

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
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
	return faults.Dial(t, s.Addr(), lockmgr.Options{Lease: 4 * time.Second, CommandTimeout: 1300 * time.Millisecond}) // a busy machine is no trouble
}

// lines is a logger that counts.
type lines struct{ infos, errors atomic.Int64 }

func (l *lines) Info(string, ...any)         { l.infos.Add(1) }
func (l *lines) Error(error, string, ...any) { l.errors.Add(1) }

// always is a schedule whose job is due all the time.
type always struct{}

func (always) Next(t time.Time) time.Time { return t.Add(10 * time.Millisecond) }

// Two schedulers run a job on one of them at a time. Each run lasts until another one was skipped.
func TestOnlyOne_TwoSchedulers(t *testing.T) {
	s := redistest.Start(t)
	var running, runs atomic.Int64
	var log lines
	done := make(chan struct{})
	job := FuncJob(func(ctx context.Context) {
		if running.Add(1) != 1 {
			t.Error("the job runs twice")
		}
		for before := log.infos.Load(); ctx.Err() == nil && log.infos.Load() == before; {
			time.Sleep(time.Millisecond)
		}
		running.Add(-1)
		if runs.Add(1) == 10 {
			close(done)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 2 {
		c := cron.New()
		one := OnlyOne(manager(t, s), "report", Options{Logger: &log, Context: ctx})
		c.Schedule(always{}, cron.NewChain(one).Then(job))
		c.Start()
		t.Cleanup(func() { stop(); <-c.Stop().Done() })
	}
	select {
	case <-done:
	case <-time.After(faults.Patience):
		t.Fatalf("%d runs, %d skipped", runs.Load(), log.infos.Load())
	}
}

// A run is skipped while the lock is held, and waits if asked to.
func TestOnlyOne_SkipsOrWaits(t *testing.T) {
	s := redistest.Start(t)
	m, other := manager(t, s), manager(t, s)
	held := faults.Take(t, other, "a")
	var runs atomic.Int64
	job := cron.FuncJob(func() { runs.Add(1) })

	var log lines
	OnlyOne(m, "a", Options{Logger: &log})(job).Run()
	require.Zero(t, runs.Load())
	require.EqualValues(t, 1, log.infos.Load())
	OnlyOne(m, "a", Options{Logger: &log, Lock: []lockmgr.LockOption{lockmgr.MaxWait(time.Millisecond)}})(job).Run()
	require.Zero(t, runs.Load())
	require.EqualValues(t, 2, log.infos.Load())

	waited := make(chan struct{})
	go func() {
		defer close(waited)
		OnlyOne(m, "a", Options{Logger: &log, Wait: true})(job).Run()
	}()
	faults.Eventually(t, func() bool { return m.Stats().Waiting == 1 })
	require.Zero(t, runs.Load())
	faults.Release(t, held)
	<-waited
	require.EqualValues(t, 1, runs.Load())
	require.Zero(t, log.errors.Load())
}

// The context of a job ends when the lock is lost, and the loss is logged.
func TestOnlyOne_TellsALoss(t *testing.T) {
	s := redistest.Start(t)
	m := manager(t, s)
	var log lines
	cause := make(chan error, 1)
	OnlyOne(m, "a", Options{Logger: &log})(FuncJob(func(ctx context.Context) {
		faults.Do(t, s, "DEL", "a")
		select {
		case <-ctx.Done():
			cause <- context.Cause(ctx)
		case <-time.After(faults.Patience):
			cause <- nil
		}
	})).Run()
	require.ErrorIs(t, <-cause, lockmgr.ErrLeaseLost)
	require.EqualValues(t, 1, log.errors.Load())
}

// A job is not run if its lock can't be had, and Options.Context ends a wait.
func TestOnlyOne_NotRun(t *testing.T) {
	s := redistest.Start(t)
	m := manager(t, s)
	faults.Take(t, manager(t, s), "a")
	job := cron.FuncJob(func() { t.Error("the job runs") })
	var log lines
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		OnlyOne(m, "a", Options{Logger: &log, Wait: true, Context: ctx})(job).Run()
	}()
	faults.Eventually(t, func() bool { return m.Stats().Waiting == 1 })
	cancel()
	<-waited
	require.EqualValues(t, 1, log.infos.Load())

	third := manager(t, redistest.Start(t))
	require.NoError(t, third.Close(t.Context()))
	OnlyOne(third, "b", Options{Logger: &log})(job).Run()
	require.EqualValues(t, 1, log.errors.Load())
}

// The context of a job has the lock, with the token that Options.Lock asks for.
func TestOnlyOne_TheJobHasItsLock(t *testing.T) {
	m := manager(t, redistest.Start(t))
	var tokens []int64
	job := FuncJob(func(ctx context.Context) {
		l := lockmgr.FromContext(ctx)
		require.True(t, l.Valid())
		require.Equal(t, "a", l.Name())
		tokens = append(tokens, l.Token())
	})
	one := OnlyOne(m, "a", Options{Lock: []lockmgr.LockOption{lockmgr.Fenced()}})(job)
	one.Run()
	one.Run()
	require.Equal(t, []int64{1, 2}, tokens)
}

// A panic of the job goes on, and the lock is free.
func TestOnlyOne_Panic(t *testing.T) {
	m := manager(t, redistest.Start(t))
	job := cron.FuncJob(func() { panic("boom") })
	require.PanicsWithValue(t, "boom", OnlyOne(m, "a", Options{})(job).Run)
	faults.Release(t, redistest.Must(m.TryLock(t.Context(), "a"))(t))
}

// With KeepFor the other processes skip the run also after the job has ended.
func TestOnlyOne_KeepFor(t *testing.T) {
	s := redistest.Start(t)
	var runs atomic.Int64
	var log lines
	job := cron.FuncJob(func() { runs.Add(1) })
	for range 3 {
		OnlyOne(manager(t, s), "a", Options{Logger: &log, KeepFor: time.Minute})(job).Run()
	}
	require.EqualValues(t, 1, runs.Load())
	require.EqualValues(t, 2, log.infos.Load())
}

// A run excludes all others, even if Options.Context has an owner.
func TestOnlyOne_IgnoresTheOwner(t *testing.T) {
	m := manager(t, redistest.Start(t))
	var log lines
	one := OnlyOne(m, "report", Options{Logger: &log, Context: lockmgr.WithOwner(t.Context(), m.NewOwner())})
	runs := 0
	var job cron.Job
	job = one(cron.FuncJob(func() {
		if runs++; runs < 3 {
			job.Run()
		}
	}))
	job.Run()
	require.Equal(t, 1, runs)
	require.EqualValues(t, 1, log.infos.Load(), "the run inside was skipped")
}

// An option that lets others run the job at the same time is refused, and the job is not run.
func TestOnlyOne_RefusesOptionsThatUndoIt(t *testing.T) {
	m := manager(t, redistest.Start(t))
	for _, o := range []lockmgr.LockOption{lockmgr.Shared(), lockmgr.AsOwner(m.NewOwner())} {
		var log lines
		one := OnlyOne(m, "report", Options{Logger: &log, Lock: []lockmgr.LockOption{o}})
		one(cron.FuncJob(func() { t.Errorf("it ran with %s", o.Name()) })).Run()
		require.EqualValues(t, 1, log.errors.Load(), o.Name())
	}
}
