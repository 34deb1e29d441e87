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
	"sync/atomic"
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
	// job too. With lockmgr.Shared or lockmgr.AsOwner, others could run the job at the same time:
	// no run begins.
	Lock []lockmgr.LockOption
}

// A Locker takes a lock for each run of a job. It implements the Locker interface of gocron. Its
// methods are safe for concurrent use.
type Locker struct {
	manager *lockmgr.Manager
	options Options

	mu   sync.Mutex
	runs map[context.Context]*runs // by the context of their job
}

// runs are the locks of the runs of a job. gocron gives all of them one context, so a task can't
// tell which of the locks was taken for its run.
type runs struct {
	waiting []*lockmgr.Lock // their tasks have not begun
	ended   []*lockmgr.Lock // their tasks have returned
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
	return &Locker{manager: m, options: options, runs: map[context.Context]*runs{}}
}

// bounds reports whether an option says how long a request waits.
func bounds(o lockmgr.LockOption) bool { return o.Name() == "MaxWait" || o.Name() == "OnlyIfFree" }

// undoes reports whether an option lets others have the lock at the same time.
func undoes(o lockmgr.LockOption) bool { return o.Name() == "Shared" || o.Name() == "AsOwner" }

// Lock takes the lock of a job. Lock blocks for a round trip, or as long as lockmgr.MaxWait allows.
// The owner of ctx is ignored.
//
// A job whose lock is held elsewhere is not run: the error then matches lockmgr.ErrNotAcquired. The
// job is not run after any other error of [lockmgr.Manager.Lock] either, nor if it is of
// [Locker.Task] and has no name.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	if key == nameOf(task{}.run) {
		return nil, errors.New("holdfast: a job of Locker.Task needs a name of its own: see gocron.WithName")
	}
	if i := slices.IndexFunc(l.options.Lock, undoes); i >= 0 {
		return nil, fmt.Errorf("holdfast: %w: %s", lockmgr.ErrInvalidOption, l.options.Lock[i].Name())
	}
	lock, err := l.manager.Lock(lockmgr.WithoutOwner(ctx), l.options.Prefix+key, l.options.Lock...)
	if err != nil {
		return nil, err // not lock: a nil pointer in the interface is not nil
	}
	l.change(ctx, func(r *runs) { r.waiting = append(r.waiting, lock) })
	return &held{Lock: lock, of: l, job: ctx}, nil
}

// change changes the runs of a job.
func (l *Locker) change(job context.Context, f func(*runs)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[job]
	if r == nil {
		r = &runs{}
		l.runs[job] = r
	}
	if f(r); len(r.waiting)+len(r.ended) == 0 {
		delete(l.runs, job)
	}
}

// nameOf returns the name that gocron gives to a job without a name.
func nameOf(task any) string { return runtime.FuncForPC(reflect.ValueOf(task).Pointer()).Name() }

// held is the lock of a run.
type held struct {
	*lockmgr.Lock
	of   *Locker
	job  context.Context
	over atomic.Bool
}

// Unlock ends the run. If runs overlap, the task of this run may have had the lock of another run.
// So Unlock takes a lock whose task has returned, and never one whose task runs.
func (h *held) Unlock(ctx context.Context) error {
	if !h.over.CompareAndSwap(false, true) {
		return fmt.Errorf("holdfast: unlock %q: %w", h.Name(), lockmgr.ErrNotHeld)
	}
	lock := h.Lock
	h.of.change(h.job, func(r *runs) {
		from := &r.ended
		if len(r.ended) == 0 { // the task has not begun, or is not of Task
			from = &r.waiting
		}
		if len(*from) > 0 {
			i := max(0, slices.Index(*from, h.Lock))
			lock = (*from)[i]
			*from = slices.Delete(*from, i, i+1)
		}
	})
	return lock.Unlock(ctx)
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
	var lock *lockmgr.Lock
	t.of.change(ctx, func(r *runs) {
		if len(r.waiting) > 0 {
			lock, r.waiting = r.waiting[0], r.waiting[1:]
		}
	})
	if lock == nil {
		return ErrNoLock
	}
	defer t.of.change(ctx, func(r *runs) { r.ended = append(r.ended, lock) })
	err := t.fn(lock.Context(ctx))
	if lost := lock.Err(); lost != nil && !errors.Is(lost, lockmgr.ErrNotHeld) {
		if errors.Is(lost, err) { // as the cause of the context of fn
			err = nil
		}
		err = errors.Join(err, fmt.Errorf("the lock of the job was lost: %w", lost))
	}
	return err
}
