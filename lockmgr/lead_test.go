package lockmgr_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr"
)

// Of several processes one leads. When it stops, the next one leads at once, with a larger term.
func TestLead_OneAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		var leading, terms atomic.Int64
		var group sync.WaitGroup
		began := time.Now()
		for range 5 {
			m, _ := w.manager(lockmgr.Options{})
			group.Go(func() {
				c, stop := context.WithCancel(ctx)
				require.NoError(t, m.Lead(c, "leader", func(c context.Context, term int64) error {
					require.EqualValues(t, 1, leading.Add(1))
					require.EqualValues(t, terms.Add(1), term)
					require.Equal(t, term, lockmgr.FromContext(c).Token())
					require.True(t, lockmgr.FromContext(c).Valid())
					time.AfterFunc(time.Second, stop)
					<-c.Done()
					leading.Add(-1)
					return nil
				}))
			})
		}
		group.Wait()
		require.EqualValues(t, 5, terms.Load())
		require.Less(t, time.Since(began), 5*time.Second+time.Second/2, "handed over at once")
	})
}

// A leader that loses the lock is told, and campaigns again. What its function returns then is
// dropped.
func TestLead_CampaignsAgainAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{Lease: 3 * time.Second})
		other, _ := w.manager(lockmgr.Options{})
		over := errors.New("over")
		var terms []int64
		err := m.Lead(ctx, "leader", func(c context.Context, term int64) error {
			if terms = append(terms, term); len(terms) == 2 {
				return over
			}
			n.silent.Store(true)
			<-c.Done()
			require.ErrorIs(t, context.Cause(c), lockmgr.ErrLeaseLost)
			mustUnlock(t, mustLock(t, other, "leader", lockmgr.Fenced()))
			time.AfterFunc(time.Minute, n.heal)
			return errors.New("dropped")
		})
		require.Equal(t, over, err)
		require.Equal(t, []int64{1, 3}, terms)
	})
}

// A leadership that is lost after the context has ended ends the call, which tells the loss, too.
func TestLead_LossAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{Lease: 3 * time.Second})
		for _, failed := range []error{nil, errors.New("failed")} {
			c, stop := context.WithCancel(ctx)
			err := m.Lead(c, "leader", func(c context.Context, _ int64) error {
				stop()
				n.silent.Store(true)
				<-lockmgr.FromContext(c).Lost()
				return failed
			})
			n.heal()
			require.ErrorIs(t, err, lockmgr.ErrLeaseLost)
			require.True(t, failed == nil || errors.Is(err, failed), err)
		}
	})
}

func TestLead_Ends(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{})
		other, _ := w.manager(lockmgr.Options{})
		never := func(context.Context, int64) error { t.Error("leads"); return nil }

		failed := errors.New("failed")
		require.Equal(t, failed, m.Lead(ctx, "a", func(context.Context, int64) error { return failed }))
		require.ErrorIs(t, m.Lead(ctx, "", never), lockmgr.ErrInvalidName)
		require.Panics(t, func() { _ = m.Lead(ctx, "a", func(context.Context, int64) error { panic("a bug") }) })

		l := must(other.TryLock(ctx, "a"))(t, "released before the panic goes on")
		require.ErrorIs(t, m.Lead(endsIn(t, time.Second), "a", never), context.DeadlineExceeded)
		mustUnlock(t, l)

		n.silent.Store(true) // nobody answers for longer than RetryTime
		time.AfterFunc(time.Minute, n.heal)
		led := false
		require.NoError(t, m.Lead(ctx, "a", func(context.Context, int64) error { led = true; return nil }))
		require.True(t, led)

		c, stop := context.WithCancel(ctx)
		n.silent.Store(true)
		time.AfterFunc(time.Minute, stop)
		require.ErrorIs(t, m.Lead(c, "b", never), context.Canceled, "also in a pause between two campaigns")
		n.heal()

		require.ErrorIs(t, m.Lead(ctx, "a", func(context.Context, int64) error { return m.Close(ctx) }), lockmgr.ErrClosed)
		require.ErrorIs(t, m.Lead(ctx, "a", never), lockmgr.ErrClosed)
	})
}

func TestLeader(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, n := w.manager(lockmgr.Options{Lease: 3 * time.Second})
		other, _ := w.manager(lockmgr.Options{Lease: 3 * time.Second})
		first := m.CampaignFor(ctx, "leader")
		synctest.Wait()
		require.True(t, first.IsLeader())
		require.EqualValues(t, 1, first.Term())
		require.Equal(t, lockmgr.LeaderChange{Leads: true, Term: 1}, <-first.Changes())
		second := other.CampaignFor(ctx, "leader")
		time.Sleep(time.Minute)
		require.False(t, second.IsLeader())
		require.Zero(t, second.Term())
		require.NoError(t, second.Err())
		require.Empty(t, second.Changes())

		// The leader can't reach the server. It no longer leads when the other one does.
		n.silent.Store(true)
		for !second.IsLeader() {
			time.Sleep(time.Millisecond)
		}
		require.False(t, first.IsLeader())
		require.Equal(t, lockmgr.LeaderChange{Leads: false, Term: 1}, <-first.Changes())
		require.Equal(t, lockmgr.LeaderChange{Leads: true, Term: 2}, <-second.Changes())
		time.Sleep(time.Minute)
		n.heal()

		began := time.Now()
		require.NoError(t, second.Resign(ctx))
		<-second.Done()
		require.ErrorIs(t, second.Err(), context.Canceled)
		for !first.IsLeader() {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(began), 2*time.Second)
		require.EqualValues(t, 3, first.Term())
		require.Equal(t, lockmgr.LeaderChange{Leads: false, Term: 2}, <-second.Changes(), "the newest change only")

		n.silent.Store(true)
		require.ErrorIs(t, first.Resign(endsIn(t, time.Millisecond)), context.DeadlineExceeded)
		n.heal()
		<-first.Done()
		for range 50 { // a select would take the context in half of the calls
			require.NoError(t, first.Resign(endsIn(t, 0)), "the campaign is over")
		}
	})
}

// From the call of Resign on, and from the end of the campaign's context on, a Leader does not lead,
// even if the campaign has not noticed yet.
func TestLeader_LeadsNoLongerThanItsCampaign(t *testing.T) {
	bubble(t, func(t *testing.T, w *scene) {
		m, _ := w.manager(lockmgr.Options{})
		over, end := context.WithCancel(ctx)
		end()
		for range 200 {
			campaign, stop := context.WithCancel(ctx)
			l := m.CampaignFor(campaign, "leader")
			synctest.Wait()
			require.True(t, l.IsLeader())
			if stop(); l.IsLeader() || l.Term() != 0 {
				t.Fatal("a leader without a campaign")
			}
			<-l.Done()

			l = m.CampaignFor(ctx, "leader")
			synctest.Wait()
			require.True(t, l.IsLeader())
			if l.Resign(over); l.IsLeader() || l.Term() != 0 {
				t.Fatal("a leader that has resigned")
			}
			<-l.Done()
		}
	})
}

// A job that asks a ledger first runs once, whatever the server does meanwhile: see once per interval
// in docs/choosing.md. Leases are of 30 s.
func TestLead_WithALedger(t *testing.T) {
	for _, c := range []struct {
		outageAt time.Duration // of five minutes; negative: none
		begins   int
	}{{-1, 1}, {0, 1}, {30 * time.Second, 2}} {
		bubble(t, func(t *testing.T, w *scene) {
			untilTheEnd := endsIn(t, 8*time.Hour)
			var begun, ended atomic.Int64
			job := func(c context.Context, _ int64) error {
				if ended.Load() > 0 {
					return nil
				}
				begun.Add(1)
				select {
				case <-c.Done():
					return context.Cause(c)
				case <-time.After(time.Minute):
					ended.Add(1)
					return nil
				}
			}
			var all sync.WaitGroup
			for range 2 {
				m, n := w.manager(lockmgr.Options{})
				switch {
				case c.outageAt == 0:
					n.cut() // a timer may come after the grant
				case c.outageAt > 0:
					time.AfterFunc(c.outageAt, n.cut)
				}
				if c.outageAt >= 0 {
					time.AfterFunc(c.outageAt+5*time.Minute, n.heal)
				}
				all.Go(func() { require.NoError(t, m.Lead(ctx, "nightly", job, lockmgr.WaitContext(untilTheEnd))) })
			}
			all.Wait()
			require.EqualValues(t, 1, ended.Load())
			require.EqualValues(t, c.begins, begun.Load())
			require.NoError(t, untilTheEnd.Err())
		})
	}
}
