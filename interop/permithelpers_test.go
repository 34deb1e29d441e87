package interop

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

func permitChannelOf(name string) string { return "redisson_sc:" + braced(name) }

func takenKeyOf(name string) string { return braced(name) + ":timeout" }

// several reports whether this Redisson takes and gives back several permits at once.
func (w *world) several() bool { return w.version != oldest }

// inspect returns what Redis knows of permits.
func inspect(t testing.TB, p lockmgr.Permits) lockmgr.PermitsInfo {
	t.Helper()
	return redistest.Must(p.Inspect(t.Context()))(t)
}

// take takes permits that are free, or about to be.
func take(t testing.TB, p lockmgr.Permits, n int, opts ...lockmgr.LockOption) *lockmgr.Lock {
	t.Helper()
	return redistest.Must(p.Acquire(faults.Patient(t), n, opts...))(t)
}

// requireRefused checks that permits can't be had, by one try.
func requireRefused(t testing.TB, p lockmgr.Permits, n int) {
	t.Helper()
	_, err := p.TryAcquire(t.Context(), n)
	require.ErrorIs(t, err, lockmgr.ErrNotAcquired)
}

// returns gives permits of anybody back by their IDs.
func returns(t testing.TB, p lockmgr.Permits, ids ...string) {
	t.Helper()
	done := redistest.Must(p.Return(t.Context(), ids...))(t)
	require.True(t, done)
}

// startTake begins to wait for permits, and returns when Redis has refused them and Go listens. No
// other goroutine of the manager may wait for them already.
func (g manager) startTake(t testing.TB, w *world, p lockmgr.Permits, name string, n int) *wait {
	t.Helper()
	before := g.refused.Load()
	waiting := start(func() (*lockmgr.Lock, error) { return p.Acquire(t.Context(), n) })
	eventually(t, func() bool { return g.refused.Load() > before }, func() string { return "Go is refused" })
	w.awaitChannel(t, permitChannelOf(name), func(have int64) bool { return have >= 1 })
	require.False(t, waiting.over())
	return waiting
}

func (j thread) permits() thread { return j.as("semaphore") }

func (j thread) startAcquire(t testing.TB, name string, n int, lease time.Duration) *call {
	t.Helper()
	return j.sendRequest(t, request{Op: "acquire", Name: name, Permits: n, Wait: -1, Lease: lease.Milliseconds()})
}

// acquire takes permits that are free, or about to be, and returns their IDs.
func (j thread) acquire(t testing.TB, name string, n int, lease time.Duration) (ids []string) {
	t.Helper()
	j.startAcquire(t, name, n, lease).into(t, &ids)
	require.Len(t, ids, n)
	return ids
}

// tryAcquire tries once to take permits, and returns their IDs or none.
func (j thread) tryAcquire(t testing.TB, name string, n int) (ids []string) {
	t.Helper()
	j.sendRequest(t, request{Op: "tryAcquire", Name: name, Permits: n, Wait: 0, Lease: permitLease.Milliseconds()}).into(t, &ids)
	return ids
}

// release gives permits back, one after the other.
func (j thread) release(t testing.TB, name string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		require.NoError(t, j.sendRequest(t, request{Op: "release", Name: name, IDs: []string{id}}).result(t))
	}
}

// tryRelease gives permits back by one command, and returns how many.
func (j thread) tryRelease(t testing.TB, name string, ids ...string) (n int) {
	t.Helper()
	j.sendRequest(t, request{Op: "tryRelease", Name: name, IDs: ids}).into(t, &n)
	return n
}

// requireNotTaken checks that release fails as it does for a permit that is not taken.
func (j thread) requireNotTaken(t testing.TB, name, id string) {
	t.Helper()
	err := j.sendRequest(t, request{Op: "release", Name: name, IDs: []string{id}}).result(t)
	require.ErrorContains(t, err, "RedisException") // caused by an IllegalArgumentException
}

// trySetPermits sets how many permits there are, and reports whether it has.
func (j thread) trySetPermits(t testing.TB, name string, n int) (set bool) {
	t.Helper()
	j.sendRequest(t, request{Op: "trySetPermits", Name: name, Permits: n}).into(t, &set)
	return set
}

// change sends addPermits or setPermits.
func (j thread) change(t testing.TB, op, name string, n int) {
	t.Helper()
	require.NoError(t, j.sendRequest(t, request{Op: op, Name: name, Permits: n}).result(t))
}

// startJavaTake has a Java thread wait for permits, and returns when it sleeps: it has tried,
// subscribed, and tried again. Each refused try asks for the first permit that ends, and nobody
// else may do so meanwhile.
func (w *world) startJavaTake(t testing.TB, j thread, name string, n int) *call {
	t.Helper()
	c := w.untilRefused(t, "zrange", func() *call { return j.startAcquire(t, name, n, permitLease) })
	j.awaitState(t, name, "WAITING")
	require.False(t, c.answered())
	return c
}

// permitIDs waits for the answer of startJavaTake.
func (c *call) permitIDs(t testing.TB) (ids []string) {
	t.Helper()
	c.into(t, &ids)
	return ids
}

// requireCounts checks that both sides count the permits alike. What was given back before may take
// a moment.
func (w *world) requireCounts(t testing.TB, p lockmgr.Permits, j thread, name string, limit, taken int) {
	t.Helper()
	var info lockmgr.PermitsInfo
	eventually(t, func() bool {
		info = inspect(t, p)
		return info.Free == limit-taken
	}, func() string { return "permits are free" })
	require.True(t, info.Exists)
	require.Equal(t, limit, info.Limit)
	require.Len(t, info.Taken, taken)
	require.EqualValues(t, limit-taken, j.number(t, "available", name))
	if w.several() {
		require.EqualValues(t, limit, j.number(t, "permits", name))
		require.EqualValues(t, taken, j.number(t, "acquired", name))
	}
}

// requireAllFree checks that nothing is left of the permits but their number, and removes that.
// What was given back before may take a moment.
func (w *world) requireAllFree(t testing.TB, name string, limit int) {
	t.Helper()
	var free string
	eventually(t, func() bool {
		free = redistest.Must(w.redis.Do(background, w.redis.B().Get().Key(name).Build()).ToString())(t)
		return free == strconv.Itoa(limit) && len(w.members(t, name)) == 0
	}, func() string { return "all permits are free: " + strconv.Itoa(limit) + " and not " + free })
	require.EqualValues(t, limit, w.number(t, name))
}

// members returns the taken permits as they are in Redis.
func (w *world) members(t testing.TB, name string) []string {
	t.Helper()
	ids, err := w.redis.Do(background, w.redis.B().Zrange().Key(takenKeyOf(name)).Min("0").Max("-1").Build()).AsStrSlice()
	require.NoError(t, err)
	return ids
}
