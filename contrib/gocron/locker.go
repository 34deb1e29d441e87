// Package gocron lets schedulers of several processes run a job on one of them at a time.
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		holdfastgocron.NewLocker(mgr, holdfastgocron.Options{Prefix: "jobs:"})))
//
// gocron asks the [Locker] before each run of a job, and gives the lock back after it. The name of
// the lock is Options.Prefix and the name of the job. Give each job a name with gocron.WithName,
// the same in all processes: otherwise the name is that of its function.
//
// The lock is held as long as the job runs. Schedulers that start a job at different instants of an
// interval, or whose clocks differ by more than the job takes, would run it one after the other. To
// run a job once per interval, let the lock stay taken for a little less than the interval:
//
//	holdfastgocron.Options{Prefix: "jobs:", KeepFor: 55 * time.Second} // a job of each minute
//
// The other way is an [Elector]: one process leads, and runs all jobs until it ends or loses its
// term.
//
// The lock may be lost while the job runs, for instance because the server lost its data. gocron
// does not tell the job. A job made by [Locker.Task] is told, and has the lock.
package gocron

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Options say how a [Locker] takes its locks. The zero value is valid.
type Options struct {
	// Prefix begins the name of each lock. Default: nothing.
	Prefix string
	// KeepFor is how long the lock of a job stays taken from the start of a run, also after the
	// run: see lockmgr.KeepFor. Default: no longer than the run.
	KeepFor time.Duration
	// Lock are options of each request. Default: none, which means one try, and a lease that is
	// renewed. With lockmgr.MaxWait a scheduler waits for the others to finish, and then runs the
	// job too.
	Lock []lockmgr.LockOption
}

// A Locker takes a lock for each run of a job. It implements the Locker interface of gocron. Its
// methods are safe for concurrent use.
type Locker struct {
	manager *lockmgr.Manager
	options Options
	free    sync.Map // the lock of a run whose task has not begun, by the context of the run
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a locker that takes locks from m. It does no I/O. Close m after the scheduler
// was shut down.
func NewLocker(m *lockmgr.Manager, options Options) *Locker {
	options.Lock = slices.Clone(options.Lock)
	if !slices.ContainsFunc(options.Lock, bounds) {
		options.Lock = append(options.Lock, lockmgr.OnlyIfFree())
	}
	if options.KeepFor != 0 {
		options.Lock = append(options.Lock, lockmgr.KeepFor(options.KeepFor))
	}
	return &Locker{manager: m, options: options}
}

// bounds reports whether an option says how long a request waits.
func bounds(o lockmgr.LockOption) bool { return o.Name() == "MaxWait" || o.Name() == "OnlyIfFree" }

// Lock takes the lock of a job. It blocks for a round trip, or as long as lockmgr.MaxWait allows.
//
// A job whose lock is held elsewhere is not run: the error then matches lockmgr.ErrNotAcquired. The
// job is not run after any other error of [lockmgr.Manager.Lock] either, nor if it is of
// [Locker.Task] and has no name.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if key == nameOf(task{}.run) {
		return nil, errors.New("holdfast: a job of Locker.Task needs a name of its own: see gocron.WithName")
	}
	lock, err := l.manager.Lock(ctx, l.options.Prefix+key, l.options.Lock...)
	if err != nil {
		return nil, err // not lock: a nil pointer in the interface is not nil
	}
	l.free.Store(ctx, lock)
	return held{lock, l, ctx}, nil
}

// nameOf returns the name that gocron gives to a job without a name.
func nameOf(task any) string { return runtime.FuncForPC(reflect.ValueOf(task).Pointer()).Name() }

// held is the lock of a run.
type held struct {
	*lockmgr.Lock
	of  *Locker
	run context.Context
}

// Unlock ends the run.
func (h held) Unlock(ctx context.Context) error {
	h.of.free.CompareAndDelete(h.run, h.Lock)
	return h.Lock.Unlock(ctx)
}

// ErrNoLock is the error of a task of [Locker.Task] whose run has no lock.
var ErrNoLock = errors.New("holdfast: the run of the job has no lock of this Locker")

// Task makes a task for NewJob that has the lock of its run:
//
//	s.NewJob(gocron.DurationJob(time.Hour), locker.Task(report), gocron.WithName("report"))
//
// fn gets a context that ends when the job is stopped, or when the lock is lost. fn should return
// then. lockmgr.FromContext returns the lock, for instance for the token of lockmgr.Fenced in
// Options.Lock. If the lock was lost before fn returned, the error of the task also matches
// lockmgr.ErrLeaseLost or lockmgr.ErrClosed.
//
// l must be the locker of the scheduler or of the job. Otherwise fn is not called, and the error of
// the task is ErrNoLock. gocron passes the errors of tasks to gocron.AfterJobRunsWithError.
func (l *Locker) Task(fn func(ctx context.Context) error) gocron.Task {
	return gocron.NewTask(task{l, fn}.run)
}

// A task is a job that has the lock of its run.
type task struct {
	of *Locker
	fn func(ctx context.Context) error
}

// run is called with the context that Lock got. Each lock is for one run, even if runs overlap.
func (t task) run(ctx context.Context) error {
	found, ok := t.of.free.LoadAndDelete(ctx)
	if !ok {
		return ErrNoLock
	}
	lock := found.(*lockmgr.Lock)
	err := t.fn(lock.Context(ctx))
	if lost := lock.Err(); lost != nil && !errors.Is(lost, lockmgr.ErrNotHeld) {
		if err == lost { // as the cause of the context of fn
			err = nil
		}
		err = errors.Join(err, fmt.Errorf("the lock of the job was lost: %w", lost))
	}
	return err
}
