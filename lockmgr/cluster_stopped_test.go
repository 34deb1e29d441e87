package lockmgr_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/thorough"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// mostHarm is how much later than without a stopped master grants, renewals and losses on the other
// masters may be, at p99.
const mostHarm = 5 * time.Millisecond

// stopLease is the lease of the locks beside a stopped master, and stopTimeout the time-out of
// their commands. A busy machine is no trouble.
const stopLease, stopTimeout = 3600 * time.Millisecond, 1100 * time.Millisecond

// renewalPeriod is the time between two renewals of a lock: a third of the lease and the pause
// until the next boundary. See package renewal.
const renewalPeriod = stopLease * 9 / 24

// delays are sorted times.
type delays []time.Duration

func (d delays) p99() time.Duration { return d[len(d)*99/100] }

func (d delays) String() string {
	return fmt.Sprintf("%d, p50 %v, p99 %v, longest %v", len(d), d[len(d)/2], d.p99(), d[len(d)-1])
}

// A harm is what a manager measured for a while.
type harm struct {
	grants   delays // from the request to the lock
	renewals delays // from the instant at which the renewal was due to its answer
	losses   delays // from the message of a deleted record to Lock.Lost
}

func (h *harm) each(f func(what string, d delays)) {
	f("grants", h.grants)
	f("renewals", h.renewals)
	f("losses", h.losses)
}

// A bystander measures the locks of a manager that are not on the master that will be stopped.
type bystander struct {
	t     *testing.T
	m     *lockmgr.Manager
	other *lockmgr.Manager
	names map[*redistest.Server][]string // of each other master: one for grants, one for losses

	mu      sync.Mutex
	renewed map[string]time.Time // the locks that are held, and their last renewals
	now     harm
}

// observe measures renewals.
func (b *bystander) observe(e lockmgr.Event) {
	command, is := e.(lockmgr.EventCommand)
	if !is || command.Command != "renew" || command.Err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range command.Names {
		last, held := b.renewed[name]
		if !held {
			continue
		}
		if !last.IsZero() {
			b.now.renewals = append(b.now.renewals, command.At.Sub(last)-renewalPeriod)
		}
		b.renewed[name] = command.At
	}
}

// measure takes and loses locks for a while.
func (b *bystander) measure(d time.Duration) harm {
	b.mu.Lock()
	b.now = harm{}
	b.mu.Unlock()
	end := time.Now().Add(d)
	var group sync.WaitGroup
	for owner, names := range b.names {
		group.Go(func() { b.take(names[0], end) })
		group.Go(func() { b.lose(owner, names[1], end) })
	}
	group.Wait()
	faults.Eventually(b.t, func() bool { // a busy machine may need longer
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.now.renewals) > 0
	}, "renewals")
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.now
	got.each(func(what string, d delays) {
		require.NotZero(b.t, len(d), what)
		slices.Sort(d)
	})
	return got
}

// pace is the time between two grants of a name. The measured times are not those of a machine that
// has too much to do.
const pace = 2 * time.Millisecond

// take takes and gives back a lock until an instant, and at least once.
func (b *bystander) take(name string, end time.Time) {
	for first := true; first || time.Now().Before(end); first = false {
		begin := time.Now()
		l := mustLock(b.t, b.m, name)
		b.took(&b.now.grants, begin)
		mustUnlock(b.t, l)
		time.Sleep(pace)
	}
}

// lose deletes the record of a held lock, again and again, and tells the channel of it. The holder
// listens there, as it has waited for the lock before, and looks.
func (b *bystander) lose(owner *redistest.Server, name string, end time.Time) {
	server := must(resp.Dial(owner.Addr(), faults.Patience))(b.t)
	defer server.Close()
	channel := faults.Channel(name)
	before, next := mustLock(b.t, b.other, name), b.m.LockAsync(name)
	faults.Eventually(b.t, func() bool {
		return must(server.DoText("PUBSUB", "SHARDNUMSUB", channel))(b.t) == channel+"\n1"
	}, "somebody listens to the channel of "+name)
	mustUnlock(b.t, before)
	l := mustAwait(b.t, next)
	for first := true; first || time.Now().Before(end); first = false {
		must(server.DoText("DEL", name))(b.t)
		begin := time.Now()
		must(server.DoText("SPUBLISH", channel, "0"))(b.t)
		faults.AwaitLost(b.t, l)
		b.took(&b.now.losses, begin)
		l = mustLock(b.t, b.m, name)
		time.Sleep(pace)
	}
	mustUnlock(b.t, l)
}

func (b *bystander) took(to *delays, begin time.Time) {
	d := time.Since(begin)
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, d)
}

// While one master is stopped, locks on the others are granted, renewed and lost as before, and
// those on it are lost at their deadlines.
func TestCluster_OneStoppedMasterHarmsNobodyElse(t *testing.T) {
	if !thorough.On() { // what runs beside it delays more than mostHarm
		t.Parallel()
	}
	c := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no")
	b := &bystander{t: t, names: map[*redistest.Server][]string{}, renewed: map[string]time.Time{}}
	b.m = dialCluster(t, c, lockmgr.Options{Lease: stopLease, CommandTimeout: stopTimeout, RetryTime: stopTimeout, Linger: time.Hour, Observer: b.observe})
	b.other = dialCluster(t, c, lockmgr.Options{})
	stopped := c.Nodes[0]
	var held, lost []*lockmgr.Lock
	var atStopped []string
	for owner, names := range namesOn(c, 50) {
		for _, name := range names[2:] {
			l := mustLock(t, b.m, name)
			if owner == stopped {
				lost = append(lost, l)
				continue
			}
			held = append(held, l)
			b.mu.Lock()
			b.renewed[name] = time.Time{}
			b.mu.Unlock()
		}
		if owner == stopped {
			atStopped = names[:2]
		} else {
			b.names[owner] = names[:2]
		}
	}
	beside := func(d time.Duration) harm {
		stopped.Freeze()
		defer stopped.Thaw()
		end := time.Now().Add(d)
		var failing sync.WaitGroup
		for range 20 {
			failing.Go(func() {
				for time.Now().Before(end) {
					begin := time.Now()
					_, err := b.m.Lock(context.Background(), atStopped[0])
					if took := time.Since(begin); !errors.Is(err, lockmgr.ErrUnavailable) || took > 2*(stopTimeout+stopTimeout) {
						t.Errorf("after %v: %v", took, err)
					}
				}
			})
		}
		defer failing.Wait()
		return b.measure(d)
	}
	before := b.measure(2 * renewalPeriod)
	during := beside(stopLease + stopLease/4)
	before.each(func(what string, d delays) { t.Logf("%s without a stopped master: %v", what, d) })
	during.each(func(what string, d delays) {
		t.Logf("%s beside a stopped master: %v", what, d)
		require.Less(t, d[len(d)-1], stopTimeout, "%s: none waits for a command of another shard to time out", what)
	})
	for _, l := range held {
		require.True(t, l.Valid(), l.Name())
	}
	for _, l := range lost {
		require.False(t, l.Valid(), l.Name())
	}
	if thorough.On() {
		b.requireNoHarm(stopped, atStopped[1], beside)
	}
}

// requireNoHarm compares the p99 with and without a stopped master. On a busy machine either may be
// late, so one of three comparisons is enough.
func (b *bystander) requireNoHarm(stopped *redistest.Server, itsName string, beside func(time.Duration) harm) {
	b.t.Helper()
	const long = 10 * time.Second
	var harmed []string
	for range 3 {
		faults.Eventually(b.t, func() bool { // the stopped master is back
			l, err := b.m.Lock(context.Background(), itsName)
			return err == nil && l.Unlock(context.Background()) == nil
		})
		harmed = nil
		without, with := b.measure(long), beside(long)
		var p99 []time.Duration
		without.each(func(what string, d delays) {
			b.t.Logf("%s without a stopped master: %v", what, d)
			p99 = append(p99, d.p99())
		})
		with.each(func(what string, d delays) {
			more := d.p99() - p99[0]
			p99 = p99[1:]
			b.t.Logf("%s beside a stopped master: %v: %v later at p99", what, d, more)
			if more > mostHarm {
				harmed = append(harmed, fmt.Sprintf("%s are %v later at p99", what, more))
			}
		})
		if len(harmed) == 0 {
			return
		}
	}
	require.Empty(b.t, harmed, "at %s", stopped.Addr())
}

// Requests for thousands of new names at a master that does not answer fail in the promised time,
// as one for a known name does, although most of their commands are never sent. So does Inspect.
// Requests for names on other masters are granted.
func TestCluster_NewNamesAtAStoppedMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "60000", "--cluster-require-full-coverage", "no")
	const retry, timeout, names = time.Second, 600 * time.Millisecond, 10_000
	m := dialCluster(t, c, lockmgr.Options{CommandTimeout: timeout, RetryTime: retry, Anonymous: true})
	stopped := c.Nodes[0]
	var there, here string
	for owner, some := range namesOn(c, 1) {
		if owner == stopped {
			there = some[0]
		} else {
			here = some[0]
		}
	}
	stopped.Freeze()
	defer stopped.Thaw()
	begin := time.Now()
	var all []*futures.Future[*lockmgr.Lock]
	for i := range names {
		all = append(all, m.LockAsync(fmt.Sprintf("%d{%s}", i, there)))
	}
	all = append(all, m.LockAllAsync(lockmgr.All(there, here)))
	asked := time.Since(begin) // as long as it takes to ask does not count
	inspected := make(chan error, 1)
	go func() {
		_, err := m.Inspect(context.Background(), there)
		inspected <- err
	}()
	faults.Eventually(t, func() bool { // on a busy machine a master may take longer than the time-out
		l, err := m.Lock(faults.Patient(t), here+"{"+here+"}")
		return err == nil && l.Unlock(faults.Patient(t)) == nil
	}, "a name at a master that answers")
	failed := new(lockmgr.ServerError)
	require.ErrorAs(t, <-inspected, &failed)
	require.ErrorIs(t, failed, lockmgr.ErrUnavailable)
	require.Equal(t, stopped.Addr(), failed.Addr)
	t.Logf("Inspect failed after %v", time.Since(begin))
	// A busy machine may be late, but by less than the commands of all names take.
	const bound = retry + timeout + 5*time.Second
	require.Less(t, time.Since(begin)-asked, bound)
	for _, f := range all {
		require.ErrorIs(t, errOf(f.Await(faults.Patient(t))), lockmgr.ErrUnavailable)
	}
	took := time.Since(begin) - asked
	t.Logf("%d requests failed after %v", len(all), took)
	require.Less(t, took, bound)
}
