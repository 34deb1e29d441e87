package measure

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/server"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestJudge(t *testing.T) {
	order := func(procs ...int) (out []grant) {
		for i, p := range procs {
			out = append(out, grant{int64(i) * int64(time.Second), p})
		}
		return out
	}
	for name, c := range map[string]struct {
		in   []grant
		want shares
	}{
		"in turn":                  {order(0, 1, 0, 1, 0, 1, 0, 1), shares{1, 1, 1, 1, 1}},
		"one after the other":      {order(0, 0, 0, 0, 1, 1, 1, 1), shares{0, 2, 4, 0, 0}},
		"nobody else waits":        {order(0, 1, 1, 1), shares{1, 1, 1, 1, 1}},
		"a run that others end in": {order(0, 1, 1, 0, 0, 0), shares{2.0 / 3, 4.0 / 3, 2, 0.5, 0.5}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, judge(c.in, 2))
		})
	}
	mixed := []grant{{30, 1}, {10, 0}, {20, 0}, {40, 1}}
	require.Equal(t, 2, judge(mixed, 2).streak, "grants are put in order first")
}

func TestOutOfOrder(t *testing.T) {
	came := strings.Fields("a b c d e")
	for grants, want := range map[string]int{
		"a b c d e": 0,
		"a b":       0,
		"b a c d e": 1,
		"b c d e a": 4,
		"a e b d c": 2,
		"e d c b a": 4,
	} {
		n := redistest.Must(outOfOrder(came, strings.Fields(grants)))(t)
		require.Equal(t, want, n, grants)
	}
	n := redistest.Must(outOfOrder(append(came, "a"), strings.Fields("a b")))(t)
	require.Zero(t, n, "who comes again has come before")
	_, err := outOfOrder(came, []string{"f"})
	require.ErrorContains(t, err, "f")
}

func TestArrivals_OfLines(t *testing.T) {
	a := &arrivals{queue: "q", record: "r", seen: map[string]bool{}}
	for _, line := range []string{
		`1.000001 [0 127.0.0.1:4000] "EVALSHA" "3f" "1" "r"`,
		`1.000002 [0 lua] "RPUSH" "q" "a" "b\x00\"] c"`,
		`1.000003 [0 lua] "RPUSH" "another" "x"`,
		`1.000004 [0 lua] "HSET" "another" "x" "1"`,
		`1.000005 [0 lua] "DEL" "r"`,
		`1.000006 [0 127.0.0.1:4000] "EVALSHA" "3f" "1" "r"`,
		`1.000007 [0 lua] "rpush" "q" "f"`,
		`1.000008 [0 lua] "HSET" "r" "e" "1"`, // at once, so before f
		`1.000009 [0 127.0.0.1:4000] "EVALSHA" "3f" "1" "r"`,
		`1.000010 [0 lua] "HINCRBY" "r" "g" "1"`,
		`1.000011 [0 lua] "HSET" "r" "a" "1"`, // it was in the queue
	} {
		last := redistest.Must(a.command(line))(t)
		require.False(t, last)
	}
	require.Equal(t, []string{"a", "b\x00\"] c", "e", "f", "g"}, a.ids)
	last := redistest.Must(a.command(`1.000012 [0 127.0.0.1:4001] "ECHO" "the last command"`))(t)
	require.True(t, last)
	_, err := a.command("OK")
	require.Error(t, err)
}

// A client that gives its lock to the waiter who has come last is found out.
func TestOrder_SeesWhoIsOvertaken(t *testing.T) {
	s := redistest.Start(t)
	conn := redistest.Must(server.Dial(t.Context(), s.Addr()))(t)
	defer conn.Close()
	b := &bench{Spec: Spec{Addr: s.Addr(), Waiters: 20}, values: map[string]float64{}}
	require.NoError(t, b.order(t.Context(), []locker.FairLocker{&lastFirst{conn: conn}}))
	require.Equal(t, 200.0, b.values["ordered"])
	require.Greater(t, b.values["disorder"], 20.0)
}

// lastFirst puts its callers into a queue on the server, and serves the last one first.
type lastFirst struct {
	conn   *server.Conn
	mu     sync.Mutex
	number int
	taken  bool
	queue  []chan struct{}
}

func (l *lastFirst) LockFair(_ context.Context, name string) (locker.Held, error) {
	l.mu.Lock()
	l.number++
	h := &lastFirstHeld{l, strconv.Itoa(l.number)}
	_, err := l.conn.Do("EVAL", "return redis.call('RPUSH', KEYS[1], ARGV[1])", "1", locker.QueueKey(name), h.id)
	if !l.taken || err != nil {
		l.taken = true
		l.mu.Unlock()
		return h, err
	}
	turn := make(chan struct{})
	l.queue = append(l.queue, turn)
	l.mu.Unlock()
	<-turn
	return h, nil
}

func (l *lastFirst) Lock(ctx context.Context, name string) (locker.Held, error) {
	return l.LockFair(ctx, name)
}

func (l *lastFirst) Close() {}

type lastFirstHeld struct {
	of *lastFirst
	id string
}

func (h *lastFirstHeld) HolderID() string { return h.id }

func (h *lastFirstHeld) Unlock(context.Context) error {
	l := h.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.queue) - 1; last >= 0 {
		close(l.queue[last])
		l.queue = l.queue[:last]
	} else {
		l.taken = false
	}
	return nil
}

func TestClock_GoesOn(t *testing.T) {
	a := clock()
	require.GreaterOrEqual(t, clock(), a)
	require.Positive(t, a)
}
