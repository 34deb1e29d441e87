// Package cron runs a job of robfig/cron only while this process holds a lock, so that of several
// processes with the same jobs one runs a job at a time.
//
//	one := holdfastcron.Options{Logger: cron.DefaultLogger}
//	c := cron.New()
//	_, err := c.AddJob("@hourly", cron.NewChain(holdfastcron.OnlyOne(mgr, "jobs:report", one)).Then(
//		holdfastcron.FuncJob(func(ctx context.Context) { report(ctx) })))
//
// [OnlyOne] makes a wrapper for one job, as cron tells a wrapper no name.
//
// A job that implements [ContextJob] gets a context that ends when the lock is lost.
// lockmgr.FromContext returns the lock of the context, for instance for the token of lockmgr.Fenced
// in Options.Lock. Wrappers between this one and the job hide that: put OnlyOne last in the chain,
// next to the job.
//
// The lock is held as long as the job runs. Processes whose clocks differ by more than the job
// takes would run it one after the other. With Options.KeepFor the lock stays taken for a little
// less than the interval, and the job runs once.
package cron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A ContextJob is a job that takes a context. The context ends when the lock is lost, and when
// Options.Context ends. The job should return then. lockmgr.FromContext returns the lock.
type ContextJob interface {
	cron.Job
	RunContext(ctx context.Context)
}

// FuncJob makes a [ContextJob] of a function.
type FuncJob func(ctx context.Context)

// Run calls the function with a context that never ends and has no lock. cron does so if the job is
// not wrapped by [OnlyOne].
func (f FuncJob) Run() { f(context.Background()) }

// RunContext calls the function.
func (f FuncJob) RunContext(ctx context.Context) { f(ctx) }

// Options say how [OnlyOne] takes its lock. The zero value is valid.
type Options struct {
	// Context ends waits for the lock, and the context of each job. lockmgr.WaitContext in Lock
	// ends only waits. The owner of Context is ignored. Default: context.Background().
	Context context.Context
	// Wait makes a process wait until the lock is free, and then run the job too. Default: the run
	// is skipped. lockmgr.MaxWait in Lock limits the wait, or asks for a short one without Wait.
	Wait bool
	// KeepFor is how long the lock stays taken from the start of a run, also after the run: see
	// lockmgr.KeepFor. Do not combine it with Wait: each process that waits would run the job
	// again. Default: no longer than the run.
	KeepFor time.Duration
	// Lock are options of each request. With lockmgr.Shared or lockmgr.AsOwner, others could run
	// the job at the same time: no run begins. Default: none.
	Lock []lockmgr.LockOption
	// Logger gets a line at Info for each run that is skipped because the lock is held, and at
	// Error for each that is not run for another reason, and for each loss. Default:
	// cron.DiscardLogger.
	Logger cron.Logger
}

// bounds reports whether an option says how long a request waits.
func bounds(o lockmgr.LockOption) bool { return o.Name() == "MaxWait" || o.Name() == "OnlyIfFree" }

// undoes reports whether an option lets others have the lock at the same time.
func undoes(o lockmgr.LockOption) bool { return o.Name() == "Shared" || o.Name() == "AsOwner" }

// OnlyOne returns a wrapper that runs its job while this process holds the lock of the name. It
// does no I/O.
//
// A run blocks until the lock is taken or refused, the job has returned, and the lock is released.
// The release takes no longer than that of [lockmgr.Manager.Do]. If the job panics, the lock is
// released, and the panic goes on.
func OnlyOne(m *lockmgr.Manager, name string, options Options) cron.JobWrapper {
	if options.Context == nil {
		options.Context = context.Background()
	}
	if options.Logger == nil {
		options.Logger = cron.DiscardLogger
	}
	lock := slices.Clone(options.Lock)
	if !options.Wait && !slices.ContainsFunc(lock, bounds) {
		lock = append(lock, lockmgr.OnlyIfFree())
	}
	if options.KeepFor != 0 {
		lock = append(lock, lockmgr.KeepFor(options.KeepFor))
	}
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			if i := slices.IndexFunc(lock, undoes); i >= 0 {
				options.Logger.Error(fmt.Errorf("%w: %s", lockmgr.ErrInvalidOption, lock[i].Name()), "a job was not run", "lock", name)
				return
			}
			ran := false
			err := m.Do(lockmgr.WithoutOwner(options.Context), name, func(ctx context.Context, _ *lockmgr.Lock) error {
				ran = true
				if j, ok := job.(ContextJob); ok {
					j.RunContext(ctx)
				} else {
					job.Run()
				}
				return nil
			}, lock...)
			switch {
			case err == nil:
			case ran:
				options.Logger.Error(err, "the lock of a job was lost", "lock", name)
			case errors.Is(err, lockmgr.ErrNotAcquired):
				options.Logger.Info("skip", "lock", name, "reason", err.Error())
			default:
				options.Logger.Error(err, "a job was not run", "lock", name)
			}
		})
	}
}
