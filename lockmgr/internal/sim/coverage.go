package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Coverage counts what has happened. An invariant proves nothing about a case that never happens. A
// tag is the name of what should happen in a large run.
type Coverage struct {
	Steps           uint64
	Faults          [40]uint64
	Effects         [numEffects]uint64
	Notices         [16]uint64
	Ends            [numEnds]uint64
	Phases          [6][6]uint64 // transitions, when asked for
	Extensions      uint64       `counts:"extension"` // answers to prolongations
	Shortened       uint64       // deadlines that have moved back
	Reentries       uint64       `counts:"re-entry"`
	GrantedToNobody uint64       `counts:"grant to nobody"`
	Foreign         uint64       `counts:"foreign holder"`
	Tokens          uint64       `counts:"token"`
	LateRuns        uint64       `counts:"late run"`
	Strays          uint64       `counts:"record of a late acquire"`
	WaitedInSilence uint64       `counts:"wait for a silent server"`
	HeardForced     uint64       `counts:"removal heard by the holder"`
	Merged          uint64       `counts:"messages merged"`
	Hopeless        uint64       `counts:"lease too short"`
	Adopted         uint64       `counts:"owner adopted"`
	CounterFailed   uint64       `counts:"failed for the counter"`
	JoinedByRelease uint64       // releases that joined the line
	Keeps           uint64       // grants with KeepFor
	Reserved        uint64       // releases that left the record
	Sets            SetCoverage
	Permits         PermitsCoverage
	Fair            FairCoverage
	Shards          ShardCoverage
	Sharded         bool
	Kind            core.Kind // of the run
}

// The effects, the five scripts first.
const (
	eRun     = 0
	eGranted = iota + 5
	eFailed
	eExtended
	eLost
	eUnlocked
	eSubscribe
	eUnsubscribe
	eClosed
	numEffects
)

var effectNames = [numEffects]string{
	"", "acquire", "transfer", "release", "renew", "", "granted", "failed", "extended", "lost", "unlocked", "subscribe", "unsubscribe",
	"closed",
}

// How a request can end without a lock.
const (
	endError = iota
	endCancelled
	endTimeout
	endOnce
	endDeadlock
	endClosed
	endOverloaded
	endNotFenced
	numEnds
)

var endNames = [numEnds]string{"error", "cancelled", "timed out", "once", "deadlock", "closed", "overloaded", "not fenced"}

var phaseNames = [6]string{"idle", "asking", "waiting", "held", "passing", "releasing"}

// Add adds another run's counts.
func (c *Coverage) Add(o *Coverage) {
	c.Sharded, c.Kind = c.Sharded || o.Sharded, max(c.Kind, o.Kind)
	addCounts(reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem())
}

// addCounts adds all counts of a value to those of another one.
func addCounts(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Uint64:
		to.SetUint(to.Uint() + from.Uint())
	case reflect.Array:
		for i := range to.Len() {
			addCounts(to.Index(i), from.Index(i))
		}
	case reflect.Struct:
		for i := range to.NumField() {
			addCounts(to.Field(i), from.Field(i))
		}
	}
}

// tagged calls f with the name and the value of each field that has a tag.
func tagged(counts any, f func(name string, n uint64)) {
	v := reflect.ValueOf(counts)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("counts"); name != "" {
			f(name, v.Field(i).Uint())
		}
	}
}

// phases returns the phase of each name in this manager.
func (n *node) phases() []string {
	out := make([]string, len(n.w.names))
	for i, l := range n.w.names {
		out[i] = n.m.Phase(l.key)
	}
	return out
}

func (n *node) countPhases(was, is []string) {
	for i := range was {
		if was[i] != is[i] {
			n.w.cover.Phases[phaseIndex(was[i])][phaseIndex(is[i])]++
		}
	}
}

func phaseIndex(name string) int {
	for i, p := range phaseNames {
		if p == name {
			return i
		}
	}
	panic(name)
}

// each calls f with the name and the count of everything that should happen in a large run.
func (c *Coverage) each(f func(name string, n uint64)) {
	for i, name := range faultNames {
		if i < ofOneServer || c.Sharded {
			f("fault "+name, c.Faults[i])
		}
	}
	if c.Sharded {
		tagged(c.Shards, f)
		return // the other cases are those of each kind
	}
	for i, name := range effectNames {
		if name != "" {
			f("effect "+name, c.Effects[i])
		}
	}
	for what := core.Refused; what <= core.Unreleased; what++ {
		f("notice "+what.String(), c.Notices[what])
	}
	for i, name := range endNames {
		f("end "+name, c.Ends[i])
	}
	for _, p := range possible {
		f("phase "+phaseNames[p[0]]+"→"+phaseNames[p[1]], c.Phases[p[0]][p[1]])
	}
	if c.Keeps > 0 {
		f("grant with KeepFor", c.Keeps)
		f("record left by a release", c.Reserved)
	}
	tagged(*c, f)
	switch c.Kind {
	case core.Exclusive, core.ReadWrite:
		f("line joined by a release", c.JoinedByRelease)
	case core.Several:
		tagged(c.Sets, f)
	case core.Permits:
		tagged(c.Permits, f)
	case core.Fair:
		tagged(c.Fair, f)
	}
}

// possible are the changes of phase that one step can make, by index into phaseNames.
var possible = [][2]int{
	{0, 1}, {0, 2}, {0, 5},
	{1, 0}, {1, 2}, {1, 3}, {1, 5},
	{2, 0}, {2, 1}, {2, 5},
	{3, 0}, {3, 1}, {3, 4}, {3, 5},
	{4, 1}, {4, 3}, {4, 5},
	{5, 0}, {5, 1}, {5, 2}, {5, 3}, {5, 4},
}

func (c *Coverage) String() string {
	var b strings.Builder
	col := 0
	c.each(func(name string, n uint64) {
		fmt.Fprintf(&b, "%-32s%10d", name, n)
		if col++; col%3 == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteString("    ")
		}
	})
	for i := range c.Phases {
		for j, n := range c.Phases[i] {
			if n > 0 && !slices.Contains(possible, [2]int{i, j}) {
				fmt.Fprintf(&b, "\nphase %s→%s %d", phaseNames[i], phaseNames[j], n)
			}
		}
	}
	return b.String()
}

// Missing returns the names of cases that have happened fewer than ten times.
func (c *Coverage) Missing() []string {
	var out []string
	rules := kinds[c.Kind]
	c.each(func(name string, n uint64) {
		if n < 10 && !rules.never(name) && !rules.spared().has(name) {
			out = append(out, fmt.Sprintf("%s (%d)", name, n))
		}
	})
	return out
}
