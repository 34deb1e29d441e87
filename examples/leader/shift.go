package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr"
)

const interval = 2 * time.Second

// A shift is what the processes do together.
type shift struct {
	out       io.Writer
	name      string
	processes []*lockmgr.Manager
	begin     time.Time
	runs      atomic.Int64
}

// lead waits until process i leads, and leads for a moment.
func (s *shift) lead(ctx context.Context, mgr *lockmgr.Manager, i int) error {
	return mgr.Lead(ctx, s.name, func(ctx context.Context, term int64) error {
		fmt.Fprintf(s.out, "  process %d leads in term %d\n", i+1, term)
		select {
		case <-ctx.Done(): // Ctrl-C, or the leadership is lost
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
			return nil
		}
	})
}

// schedule starts the job at the beginning of each of three intervals, as a scheduler in each
// process does.
func (s *shift) schedule(ctx context.Context, mgr *lockmgr.Manager, i int) error {
	for n := range 3 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(s.begin.Add(time.Duration(n)*interval + rand.N(interval/20)))):
		}
		err := mgr.Do(ctx, s.name+":job", func(context.Context, *lockmgr.Lock) error {
			fmt.Fprintf(s.out, "  process %d runs the job for the time no. %d\n", i+1, s.runs.Add(1))
			return nil
		}, lockmgr.OnlyIfFree(), lockmgr.KeepFor(interval/2))
		if err != nil && !errors.Is(err, lockmgr.ErrNotAcquired) {
			return err
		}
	}
	return nil
}
