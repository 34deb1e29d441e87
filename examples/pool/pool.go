package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// A pool counts the jobs that were done for each key.
type pool struct {
	mgr  *lockmgr.Manager
	name string
	done []int // by key: each element is protected by the lock of its key
}

// run does n jobs, and returns when all are done or one has failed.
func (p *pool) run(ctx context.Context, goroutines, n int) error {
	var next atomic.Int64
	all, ctx := errgroup.WithContext(ctx) // the first error ends the others
	for range goroutines {
		all.Go(func() error {
			for job := next.Add(1); job <= int64(n); job = next.Add(1) {
				if err := p.do(ctx, int(job)%len(p.done)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// do does one job under the lock of its key.
func (p *pool) do(ctx context.Context, key int) error {
	f := p.mgr.LockAsync(fmt.Sprint(p.name, ":", key))
	select {
	case <-f.Done():
	case <-ctx.Done():
		f.Cancel() // gives the lock back if it has just come
		return context.Cause(ctx)
	}
	lock, err := f.Result()
	if err != nil {
		return err
	}
	n := p.done[key] // the job: it loses count if another one of its key runs meanwhile
	runtime.Gosched()
	p.done[key] = n + 1
	return lock.Unlock(ctx)
}
