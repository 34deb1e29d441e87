package lockmgr

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// heldLock is a lock with a hold and no manager.
func heldLock() *Lock {
	l := &Lock{}
	r := &l.ticket.request
	r.Tag, r.Hold = l, &core.Hold{Request: r}
	return l
}

func (l *Lock) bound() int {
	more := l.ticket.hold().makeMore()
	more.mu.Lock()
	defer more.mu.Unlock()
	return len(more.contexts)
}

// A long hold forgets the contexts whose parents have ended, and keeps the others.
func TestContext_ForgottenOnceItsParentEnded(t *testing.T) {
	l := heldLock()
	var live []context.Context
	for i := range 100 {
		live = append(live, l.Context(context.Background()))
		for range 100 {
			parent, cancel := context.WithCancel(context.Background())
			l.Context(parent)
			cancel()
		}
		require.LessOrEqual(t, l.bound(), 2*i+2*minSweep)
	}
	goroutines := runtime.NumGoroutine()
	for _, c := range live {
		require.NoError(t, c.Err())
	}
	l.ticket.hold().end(ErrLeaseLost)
	for _, c := range live {
		require.Equal(t, ErrLeaseLost, context.Cause(c))
	}
	require.Equal(t, goroutines, runtime.NumGoroutine())
}

// A countedContext counts how often it was asked whether it has ended.
type countedContext struct {
	context.Context
	asked *int
}

func (c countedContext) Err() error {
	*c.asked++
	return c.Context.Err()
}

// The cost of a call does not depend on how many contexts the hold has.
func TestContext_CallLooksAtFewOthers(t *testing.T) {
	l := heldLock()
	asked := 0
	const n = 10_000
	for range n {
		ctx, cancel := context.WithCancelCause(context.Background())
		require.NoError(t, l.ticket.hold().bind(boundContext{&l.ticket.over, countedContext{ctx, &asked}, cancel}))
	}
	require.Equal(t, n, l.bound())
	require.LessOrEqual(t, asked, 2*n)
	l.ticket.hold().end(ErrLeaseLost)
}

func BenchmarkContext(b *testing.B) {
	for _, bench := range []struct {
		name string
		held int // contexts that do not end
	}{{"none before", 0}, {"30000 live", 30_000}} {
		b.Run(bench.name, func(b *testing.B) {
			l := heldLock()
			for range bench.held {
				l.Context(context.Background())
			}
			b.ReportAllocs()
			for b.Loop() {
				parent, cancel := context.WithCancel(context.Background())
				l.Context(parent)
				cancel()
			}
		})
	}
}
