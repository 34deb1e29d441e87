package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast/bench/internal/locker"
	"github.com/holdfast-go/holdfast/bench/internal/result"
)

// SetsFigures are those of sets. A pair is the lock of a set and its unlock.
var SetsFigures = []result.Figure{
	{Key: "pairs", Name: "sets", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "p50", Name: "set p50", Unit: "µs", Better: result.Lower, Chart: true},
	{Key: "p99", Name: "set p99", Unit: "µs", Better: result.Lower},
	{Key: "commands", Name: "commands", Unit: "/set", Better: result.Lower, Count: true, Chart: true},
	{Key: "bytes", Name: "bytes", Unit: "/set", Better: result.Lower, Count: true},
	{Key: "cpu", Name: "client CPU", Unit: "s/100k sets", Better: result.Lower},
	{Key: "servercpu", Name: "server CPU", Unit: "s/100k sets", Better: result.Lower},
}

// sets is uncontended with a set of Locks names in the place of each name.
func sets(ctx context.Context, b *bench) error {
	all := wholeSets{b.locker.(locker.SetLocker), map[string][]string{}}
	var names []string
	for g := range b.Goroutines {
		set := fmt.Sprintf("%s:%d", b.Name, g)
		names = append(names, set)
		all.sets[set] = namesOfSet(set, b.Locks)
	}
	return b.pairs(ctx, goroutines{all}, names)
}

// namesOfSet returns the names of a set, sorted.
func namesOfSet(set string, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s:%03d", set, i))
	}
	return names
}

// wholeSets locks the set that a name stands for.
type wholeSets struct {
	locker.SetLocker
	sets map[string][]string
}

func (w wholeSets) Lock(ctx context.Context, name string) (locker.Held, error) {
	return w.LockSet(ctx, w.sets[name])
}

// LargeSetFigures are those of largeSet.
var LargeSetFigures = []result.Figure{
	{Key: "sets", Name: "sets granted"},
	{Key: "set50", Name: "set's wait p50", Unit: "ms", Better: result.Lower, Chart: true},
	{Key: "setmax", Name: "set's longest wait", Unit: "ms", Better: result.Lower, Chart: true, Long: true},
	{Key: "small", Name: "small grants", Unit: "/s", Better: result.Higher, Chart: true},
	{Key: "small99", Name: "small wait p99", Unit: "ms", Better: result.Lower},
	{Key: "smallmax", Name: "longest small wait", Unit: "ms", Better: result.Lower, Long: true},
	{Key: "commands", Name: "commands", Unit: "/small grant", Better: result.Lower, Count: true},
}

// Each name of largeSet is wanted by as many clients, and as many callers of each.
const (
	smallClients = 2
	smallCallers = 2
)

// largeSet measures one caller that takes Locks names at once, again and again, after pauses of
// Settle. Each of these names is also taken again and again by callers of two more clients. All
// hold for Hold.
func largeSet(ctx context.Context, b *bench) error {
	names := namesOfSet(b.Name, b.Locks)
	load := b.newLoad(ctx)
	defer load.end()
	var small []*hdrhistogram.Histogram
	for client := range smallClients {
		l, err := b.open(ctx, client+1)
		if err != nil {
			return err
		}
		for range smallCallers {
			for _, name := range names {
				h := newHistogram()
				small = append(small, h)
				load.repeat(h, 0, func(ctx context.Context) (locker.Held, error) { return l.Lock(ctx, name) })
			}
		}
	}
	large := newHistogram()
	all := b.locker.(locker.SetLocker)
	load.repeat(large, b.Settle, load.noted(func(ctx context.Context) (locker.Held, error) { return all.LockSet(ctx, names) }))
	w, err := b.window(load)
	if err != nil {
		return err
	}
	grants := merged(small)
	n := float64(grants.TotalCount())
	b.serverFigures(w.cost, n)
	v := b.values
	v["sets"] = float64(large.TotalCount())
	if large.TotalCount() > 0 {
		v["set50"] = ms(time.Duration(large.ValueAtPercentile(50)))
	}
	v["setmax"] = ms(max(w.longest, time.Duration(large.Max())))
	v["small"] = n / w.took.Seconds()
	v["small99"], v["smallmax"] = ms(time.Duration(grants.ValueAtPercentile(99))), ms(time.Duration(grants.Max()))
	return nil
}
