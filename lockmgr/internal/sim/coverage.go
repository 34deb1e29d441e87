package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Coverage counts what has happened. An invariant proves nothing about a case that never happens.
type Coverage struct {
	Steps           uint64
	Faults          [40]uint64
	Effects         [numEffects]uint64
	Notices         [16]uint64
	Ends            [numEnds]uint64
	Phases          [6][6]uint64 // transitions, when asked for
	Reentries       uint64
	GrantedToNobody uint64
	Foreign         uint64
	Tokens          uint64
	LateRuns        uint64
	Strays          uint64
	WaitedInSilence uint64
	HeardForced     uint64
	Merged          uint64
	Hopeless        uint64
	Adopted         uint64
	JoinedByRelease uint64 // releases that joined the line
	CounterFailed   uint64
	Sets            SetCoverage
	Permits         PermitsCoverage
	Fair            FairCoverage
	Kind            core.Kind // of the run
	Keeps           uint64    // grants with KeepFor
	Reserved        uint64    // releases that left the record
	Extensions      uint64    // answers to prolongations
	Shortened       uint64    // deadlines that have moved back
	Shards          ShardCoverage
	Sharded         bool
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
	c.Steps += o.Steps
	c.Reentries += o.Reentries
	c.GrantedToNobody += o.GrantedToNobody
	c.Foreign += o.Foreign
	c.Tokens += o.Tokens
	c.LateRuns += o.LateRuns
	c.Strays += o.Strays
	c.WaitedInSilence += o.WaitedInSilence
	c.HeardForced += o.HeardForced
	c.Merged += o.Merged
	c.Hopeless += o.Hopeless
	c.Adopted += o.Adopted
	c.JoinedByRelease += o.JoinedByRelease
	c.CounterFailed += o.CounterFailed
	c.Sets.add(&o.Sets)
	c.Permits.add(&o.Permits)
	c.Fair.add(&o.Fair)
	c.Keeps += o.Keeps
	c.Reserved += o.Reserved
	c.Extensions += o.Extensions
	c.Shortened += o.Shortened
	c.Shards.add(&o.Shards)
	c.Sharded = c.Sharded || o.Sharded
	c.Kind = max(c.Kind, o.Kind)
	for i := range c.Faults {
		c.Faults[i] += o.Faults[i]
	}
	for i := range c.Effects {
		c.Effects[i] += o.Effects[i]
	}
	for i := range c.Notices {
		c.Notices[i] += o.Notices[i]
	}
	for i := range c.Ends {
		c.Ends[i] += o.Ends[i]
	}
	for i := range c.Phases {
		for j := range c.Phases[i] {
			c.Phases[i][j] += o.Phases[i][j]
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
		c.Shards.each(f)
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
	f("extension", c.Extensions)
	f("re-entry", c.Reentries)
	f("grant to nobody", c.GrantedToNobody)
	f("foreign holder", c.Foreign)
	f("token", c.Tokens)
	f("late run", c.LateRuns)
	f("record of a late acquire", c.Strays)
	f("wait for a silent server", c.WaitedInSilence)
	f("removal heard by the holder", c.HeardForced)
	f("messages merged", c.Merged)
	f("lease too short", c.Hopeless)
	f("owner adopted", c.Adopted)
	f("failed for the counter", c.CounterFailed)
	if c.Kind == core.Exclusive || c.Kind == core.ReadWrite {
		f("line joined by a release", c.JoinedByRelease)
	}
	if c.Kind == core.Several {
		c.Sets.each(f)
	}
	if c.Kind == core.Permits {
		c.Permits.each(f)
	}
	if c.Kind == core.Fair {
		c.Fair.each(f)
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
