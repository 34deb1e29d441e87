// Package gocron lets schedulers of several processes run a job on one of them
// at a time.
//
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		holdfastgocron.NewLocker(mgr, holdfastgocron.Options{Prefix: "jobs:"})))
//
// gocron asks the [Locker] before each run of a job, and gives the lock back
// after it. The name of the lock is Options.Prefix and the name of the job. Give
// each job a name with gocron.WithName, the same in all processes: otherwise the
// name is that of its function.
//
// The lock is held as long as the job runs. Schedulers that start a job at different
// instants of an interval, or whose clocks differ by more than the job takes, would run it
// one after the other. To run a job once per interval, let the lock stay taken for a little
// less than the interval:
//
//	holdfastgocron.Options{Prefix: "jobs:", KeepFor: 55 * time.Second} // a job of each minute
//
// The other way is an [Elector]: one process leads, and runs all jobs until it ends or loses
// its term.
//
// The lock may be lost while the job runs, for instance because the server lost
// its data. gocron does not tell the job. lockmgr.Options.Observer gets a
// lockmgr.EventLost.
package gocron

import (
	"context"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Options say how a [Locker] takes its locks. The zero value is valid.
type Options struct {
	// Prefix begins the name of each lock. Default: nothing.
	Prefix string
	// KeepFor is how long the lock of a job stays taken from the start of a run, also after
	// the run: see lockmgr.KeepFor. Default: no longer than the run.
	KeepFor time.Duration
	// Lock are options of each request. Default: none, which means one try, and a
	// lease that is renewed. With lockmgr.MaxWait a scheduler waits for the others
	// to finish, and then runs the job too.
	Lock []lockmgr.LockOption
}

// A Locker takes a lock for each run of a job. It implements the Locker interface
// of gocron. Its methods are safe for concurrent use.
type Locker struct {
	manager *lockmgr.Manager
	options Options
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a locker that takes locks from m. It does no I/O. Close m
// after the scheduler was shut down.
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

// Lock takes the lock of a job. It blocks for a round trip, or as long as
// lockmgr.MaxWait allows.
//
// A job whose lock is held elsewhere is not run: the error then matches
// lockmgr.ErrNotAcquired. The job is not run after any other error of
// [lockmgr.Manager.Lock] either.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lock, err := l.manager.Lock(ctx, l.options.Prefix+key, l.options.Lock...)
	if err != nil {
		return nil, err // not lock: a nil pointer in the interface is not nil
	}
	return lock, nil
}
