package lockmgr_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// The benchmarks compare, within one run, the manager with the same scripts sent by hand. On shared
// machines only the ratios mean anything.

// raw sends the manager's scripts without a manager.
type raw struct {
	client           rueidis.Client
	acquire, release string // hashes
}

func newRaw(b testing.TB, addr string) *raw {
	c, err := rueidis.NewClient(lockmgr.TuneClient(rueidis.ClientOption{InitAddress: []string{addr}}))
	require.NoError(b, err)
	b.Cleanup(c.Close)
	load := func(name string) string {
		sha, err := c.Do(ctx, c.B().ScriptLoad().Script(script.Text(name)).Build()).ToString()
		require.NoError(b, err)
		return sha
	}
	return &raw{c, load("acquire"), load("release")}
}

func (r *raw) lock(name, owner string) rueidis.Completed {
	return r.client.B().Evalsha().Sha1(r.acquire).Numkeys(1).Key(name).Arg("30000", "0", "", owner).Build()
}

func (r *raw) unlock(name, owner string) rueidis.Completed {
	return r.client.B().Evalsha().Sha1(r.release).Numkeys(1).Key(name).Arg("", owner, "redisson_lock__channel:{"+name+"}").Build()
}

const rawOwner = "8f14e45f-ceea-467f-a8b5-6d1c3f1b2a90:1"

// pairs runs n acquires and releases, in batches of half the names, by two senders.
func (r *raw) pairs(b testing.TB, names []string, n int) {
	var wg sync.WaitGroup
	half := len(names) / 2
	for _, mine := range [][]string{names[:half], names[half:]} {
		wg.Go(func() {
			for done := 0; done < n/2; done += len(mine) {
				locks := make(rueidis.Commands, len(mine))
				unlocks := make(rueidis.Commands, len(mine))
				for i, name := range mine {
					locks[i], unlocks[i] = r.lock(name, rawOwner), r.unlock(name, rawOwner)
				}
				for _, res := range r.client.DoMulti(ctx, locks...) {
					if err := res.Error(); !rueidis.IsRedisNil(err) {
						b.Error(err)
					}
				}
				for _, res := range r.client.DoMulti(ctx, unlocks...) {
					if err := res.Error(); err != nil {
						b.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// pairs runs n locks and unlocks through the manager, with one goroutine for each name.
func pairs(b testing.TB, m *lockmgr.Manager, names []string, n int) {
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			for range n / len(names) {
				l, err := m.Lock(ctx, name)
				if err != nil {
					b.Error(err)
					return
				}
				if err := l.Unlock(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkUncontended256 alternates short stretches of the manager and of raw scripts, so that
// other load on the machine slows both alike.
func BenchmarkUncontended256(b *testing.B) {
	s := redistest.Start(b)
	m, r := dial(b, s.Addr(), lockmgr.Options{}), newRaw(b, s.Addr())
	all := numbered("bench:", 256)
	pairs(b, m, all, 25600)
	r.pairs(b, all, 25600)
	var ours, theirs time.Duration
	const stretch = 256 * 64
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		start := time.Now()
		pairs(b, m, all, stretch)
		ours += time.Since(start)
		start = time.Now()
		r.pairs(b, all, stretch)
		theirs += time.Since(start)
		n += stretch
	}
	b.ReportMetric(float64(n)/ours.Seconds(), "pairs/s")
	b.ReportMetric(float64(n)/theirs.Seconds(), "raw-pairs/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x-raw")
}

func BenchmarkUncontended1(b *testing.B) {
	s := redistest.Start(b)
	m, r := dial(b, s.Addr(), lockmgr.Options{}), newRaw(b, s.Addr())
	all := numbered("bench:", 1)
	pairs(b, m, all, 1000)
	var ours, theirs time.Duration
	const stretch = 500
	n := 0
	for b.Loop() {
		start := time.Now()
		pairs(b, m, all, stretch)
		ours += time.Since(start)
		start = time.Now()
		for range stretch {
			r.client.Do(ctx, r.lock(all[0], rawOwner))
			r.client.Do(ctx, r.unlock(all[0], rawOwner))
		}
		theirs += time.Since(start)
		n += stretch
	}
	b.ReportMetric(float64(ours.Nanoseconds())/float64(n), "ns/pair")
	b.ReportMetric(float64(theirs.Nanoseconds())/float64(n), "raw-ns/pair")
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x-raw")
}

// BenchmarkRenewal100k holds 100,000 locks until all have been renewed, and reports how long the
// renewals took from the first to the last.
func BenchmarkRenewal100k(b *testing.B) {
	const n = 100_000
	s := redistest.Start(b)
	var mu sync.Mutex
	var renewed, scripts int
	var first, last time.Time
	done := make(chan struct{})
	m := dial(b, s.Addr(), lockmgr.Options{Lease: 24 * time.Second, Observer: func(e lockmgr.Event) {
		if r, ok := e.(lockmgr.EventRenewed); ok {
			mu.Lock()
			defer mu.Unlock()
			if renewed == 0 {
				first = time.Now()
			}
			renewed, last = renewed+r.Leases, time.Now()
			scripts++
			if renewed == n {
				close(done)
			}
		}
	}})
	start := time.Now()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			fs := make([]*futures.Future[*lockmgr.Lock], 0, n/4)
			for i := range n / 4 {
				fs = append(fs, m.LockAsync(fmt.Sprintf("held:%d:%d", g, i)))
			}
			for _, f := range fs {
				if _, err := f.Await(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(time.Since(start).Seconds(), "s-to-lock")
	cpuBefore := cpuTime(b, s.PID())
	own := cpuTime(b, os.Getpid())
	for b.Loop() {
		<-done
	}
	mu.Lock()
	b.ReportMetric(last.Sub(first).Seconds(), "s-first-to-last")
	mu.Unlock()
	b.ReportMetric(float64(scripts), "scripts")
	b.ReportMetric((cpuTime(b, s.PID()) - cpuBefore).Seconds(), "server-cpu-s")
	b.ReportMetric((cpuTime(b, os.Getpid()) - own).Seconds(), "client-cpu-s")
}

// cpuTime returns the CPU time of a process so far, in steps of 10 ms.
func cpuTime(b testing.TB, pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	var ticks int
	for _, s := range f[11:13] {
		n, err := strconv.Atoi(s)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
