package network

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faultproxy"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// fairPlots are those of fair locks.
var fairPlots = []plot{
	{
		// The next request is that of the other manager: transfers give way.
		name: "fair by turns", scripts: map[string]int{"fair_acquire joins": 3, "fair_transfer joins": 2, "fair_transfer passes": 3, "fair_release": 1},
		most: 6, few: 2, ask: askFair, keys: fairKeys, queued: true,
	},
	{
		// The next request is of the same manager, and some need a token of the server: transfers
		// pass.
		name: "fair in blocks", scripts: map[string]int{"fair_transfer": 5, "fair_transfer passes": 1},
		most: 6, few: 2, keys: fairKeys, queued: true, of: func(i int) int { return i / 3 },
		ask: func(m *lockmgr.Manager, name string, i int, o ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
			if i%3 != 1 {
				o = append(o, lockmgr.Fenced())
			}
			return askFair(m, name, i, o...)
		},
	},
	{
		// The first hold lasts until both managers have moved the deadlines of their places.
		name: "fair for long", scripts: map[string]int{"fair_acquire refreshes": 1, "fair_transfer refreshes": 1},
		most: 2, few: 1, ask: askFair, keys: fairKeys, queued: true, busy: 1,
	},
}

func askFair(m *lockmgr.Manager, name string, _ int, o ...lockmgr.LockOption) *futures.Future[*lockmgr.Lock] {
	return m.LockAsync(name, append(o, lockmgr.Fair())...)
}

func fairKeys(name string) []string {
	f := faults.FairLock{Name: name}
	return []string{name, f.Queue(), f.Deadlines(), f.Waits()}
}

// calls choose calls of the scripts for fair locks by their arguments, which fair.lua lists.
var calls = map[string]func(arg func(int) string) bool{
	// joins: requests get their places.
	"joins": func(arg func(int) string) bool {
		others, err := strconv.Atoi(arg(17))
		return err == nil && arg(18+others) != "0"
	},
	// passes: nobody has the lock, so the script passes it on or gives way.
	"passes": func(arg func(int) string) bool { return arg(8) == "1" },
	// refreshes: it moves the deadlines of places.
	"refreshes": func(arg func(int) string) bool { return arg(4) == "1" && arg(5) != "0" },
}

// callsOf matches the calls of a script, or those that a word after its name chooses.
func callsOf(t testing.TB, kind string) faultproxy.Match {
	name, word, chosen := strings.Cut(kind, " ")
	if !chosen {
		return script(t, name)
	}
	require.Contains(t, calls, word)
	return script(t, name).Where(func(c faultproxy.Cmd) bool {
		keys, err := strconv.Atoi(c.Args[2])
		return err == nil && calls[word](func(i int) string { return c.Args[2+keys+i] })
	})
}

// arrivals are the requests that have come to the queue of a fair lock.
type arrivals struct {
	faults.FairLock
	seen map[string]bool // all members that the queue has had
}

// await waits until the newest request has a place or an end. It reports whether that was so within
// faults.Patience.
func (a *arrivals) await(t testing.TB, s *redistest.Server, f *futures.Future[*lockmgr.Lock]) bool {
	before := len(a.seen)
	for end := time.Now().Add(faults.Patience); len(a.seen) == before && !faults.Settled(f); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
		for member := range strings.SplitSeq(faults.Do(t, s, "LRANGE", a.Queue(), "0", "-1"), "\n") {
			if member != "" {
				a.seen[member] = true
			}
		}
	}
	return true
}
