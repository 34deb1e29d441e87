package sim

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
	"github.com/holdfast-go/holdfast/lockmgr/internal/sim/agenda"
)

const ms = time.Millisecond

// settings are the properties of a seed's world. They are drawn once.
type settings struct {
	// calm reports whether nothing goes wrong, so that the strictest invariants apply: how soon a
	// free lock finds its next holder, how long a run may be.
	calm  bool
	nodes int
	names int
	// faults are the kinds that may occur. Of a thousand commands or messages, each kind of fault
	// hits often.
	faults Faults
	often  int
	quiet  time.Duration // mean time between two disasters

	latency time.Duration // the longest round trip of a command without a fault
	timeout time.Duration // of a command, at the client
	stale   time.Duration // how far the server's clock may lag behind the true time

	// The workload.
	think     time.Duration // mean time between two requests of one manager
	hold      time.Duration // a typical time to hold a lock
	explicit  int           // percent of requests with a named owner
	fixed     int           // percent with a fixed lease
	extends   int           // percent of the grants that are extended
	fenced    int           // percent with a token
	impatient int           // percent with a deadline, a cancel or one try only
	foreign   bool          // another library's client takes part
	long      int           // percent of the fixed leases that are many times Config.Lease
	hopeless  int           // percent of requests with a lease shorter than a round trip
	together  int           // how many names a caller asks for at a time; zero means one
	adopt     int           // percent of requests as the owner of a request without a named owner
	readers   int           // percent of requests for the shared side, if the kind has one

	// With sets: how many there are, how many requests in percent are for one, and which of the
	// single names are read-write locks.
	sets      int
	whole     int
	readWrite []bool
	others    int // percent of the foreign holders that take a name as another kind of lock

	// With fair locks: whether clients of Redisson take part, and how many of them in percent wait
	// for a short time.
	redisson bool
	givesUp  int
	told     bool // managers ask for grants by message

	// With permits: how many there are, and how many requests in percent want several.
	limit, many int

	keeps int // percent of requests with KeepFor

	// With several shards: how many, and whether the first one hangs now and then in a calm world.
	shards int
	hangs  bool

	core core.Config
}

func drawSettings(r *agenda.Rand, allow Faults) settings {
	var s settings
	s.nodes = 2 + r.Below(3)
	s.names = 1 + r.Below(1+r.Below(4))
	s.calm = r.Percent(25)
	lease := r.LogBetween(50*ms, 30*time.Second)
	if s.calm {
		lease = r.Between(10*time.Second, 30*time.Second)
	}
	lease = lease.Truncate(ms) // the servers' unit
	if r.Percent(15) {
		s.hopeless = r.Below(12)
	}
	s.latency = r.LogBetween(ms/2, min(lease/20, 20*ms))
	if s.hopeless > 0 {
		s.latency = min(lease/20, 20*ms)
	}
	s.timeout = r.Between(lease/12, lease/4)
	margin := r.Between(2*ms, max(2*ms, min(lease/10, 20*ms)))
	if s.hopeless > 0 {
		margin = 2 * ms
	}
	s.stale = margin - margin/50 - ms
	s.think = r.LogBetween(s.latency, 20*s.latency)
	if !s.calm && r.Percent(40) {
		s.think = r.LogBetween(s.latency, lease) // slow enough to see leases end
	}
	s.quiet = r.LogBetween(8*s.think, 200*s.think)
	s.hold = r.LogBetween(s.latency/4, lease)
	s.explicit = r.Below(2) * r.Below(100)
	s.fixed = r.Below(2) * r.Below(100)
	s.extends = r.Below(2) * r.Below(40)
	s.fenced = r.Below(2) * r.Below(100)
	s.impatient = r.Below(2) * r.Below(60)
	s.long = r.Below(2) * r.Below(20)
	if r.Percent(30) {
		s.adopt = r.Below(40)
	}
	if s.calm {
		if r.Percent(25) {
			s.faults = Force
		}
		if r.Percent(75) {
			s.hold = r.LogBetween(s.latency/4, 20*s.latency)
		}
	} else {
		s.foreign = r.Percent(15)
		for f := Faults(1); f <= Forbid; f <<= 1 {
			if r.Percent(30) {
				s.faults |= f
			}
		}
		s.often = 1 + r.Below(200)
		if r.Percent(7) {
			s.drawMany(r, lease)
		} else if s.faults&Forbid != 0 && r.Percent(20) {
			// Requests are so slow that a record which can't be released expires before the end.
			s.names, s.foreign = 1, false
			s.faults &= Forbid | MessageLost | Slow | Drift
			s.think, s.hold, s.quiet = r.Between(lease/32, lease/4), r.Between(lease/64, lease/8), r.Between(lease, 4*lease)
			s.fenced, s.impatient, s.often = 30+r.Below(40), 50, 1+r.Below(20)
		}
	}
	if s.faults&Silence != 0 {
		s.impatient = max(s.impatient, 30)
	}
	if s.faults&WrongCounter != 0 && s.fenced == 0 {
		s.fenced = 1 + r.Below(99)
	}
	s.faults &= allow
	if s.faults&Persist != 0 {
		// A record that lost its TTL gets the TTL of the next script, which may be shorter than an
		// earlier holder's longer lease.
		s.fixed, s.extends, s.hopeless = 0, 0, 0
	}
	s.core = core.Config{
		Lease:            lease,
		Margin:           margin,
		RetryTime:        r.LogBetween(100*ms, 10*time.Second),
		SuspectTime:      r.LogBetween(50*ms, 5*time.Second),
		PassCount:        1 + r.Below(8),
		PassTime:         r.LogBetween(5*ms, time.Second),
		BackTime:         r.Between(4*s.latency, 20*s.latency),
		ShareEvery:       time.Duration(r.Below(2)) * r.LogBetween(100*ms, 2*time.Second),
		BlindPause:       r.Between(4*s.latency, 20*s.latency),
		FarPause:         r.Between(20*s.latency, 100*s.latency),
		PollSoon:         r.LogBetween(ms, 50*ms),
		RecordEvery:      time.Duration(r.Below(2)) * r.LogBetween(ms, 20*ms),
		TrustSubscribers: r.Percent(60),
		Linger:           time.Duration(r.Below(2)) * r.LogBetween(ms, 2*time.Second),
		PollMax:          r.LogBetween(50*ms, 10*time.Second),
		PollBlind:        r.LogBetween(10*ms, time.Second),
		MaxLocks:         64,
		Notices:          r.Percent(20),
	}
	if s.calm {
		s.core.Notices = true // one of them reports a stand back
		// A poll must not hide that a wake-up got lost.
		s.core.PollMax, s.core.PollBlind, s.core.PollSoon, s.core.ShareEvery = time.Minute, time.Minute, time.Minute, 0
	} else if r.Percent(3) {
		s.core.MaxLocks = 1
	}
	return s
}

// drawMany makes a world in which each manager holds many locks for long, and a fault hits one of
// them, or all.
func (s *settings) drawMany(r *agenda.Rand, lease time.Duration) {
	s.names = 5 + r.Below(5)
	s.hold = r.Between(lease/2, 2*lease)
	s.together = 2 + r.Below(s.names-1)
	s.think = r.Between(lease/8, lease)
	s.quiet = r.Between(lease/8, lease)
	s.foreign = false
	s.often = 1 + r.Below(20)
	s.fixed /= 4
	s.faults = s.faults&^(Pause|Slow) | []Faults{Forbid, Forbid, Forbid, Silence, RefusedFinal}[r.Below(5)]
}

// drawSides chooses what a world has whose locks are not exclusive.
func (s *settings) drawSides(r *agenda.Rand, k core.Kind) {
	if k == core.Exclusive {
		return
	}
	s.readers = 10 + r.Below(85)
	if r.Percent(30) { // few names, so that many share one
		s.names = 1
		s.think = r.LogBetween(s.latency/4, 4*s.latency)
	}
}

// kindOf returns the kind of a single name in a world whose locks are of kind k.
func (s *settings) kindOf(name int, k core.Kind) core.Kind {
	switch {
	case k != core.Several:
		return k
	case s.readWrite[name]:
		return core.ReadWrite
	}
	return core.Exclusive
}

// longest is the longest lease that anybody asks for, in leases of the watchdog.
const longest = 12

// maxLease is the longest lease that anybody asks for in this world.
func (s *settings) maxLease() time.Duration {
	if s.fixed > 0 && s.long > 0 {
		return longest * s.core.Lease
	}
	return 2 * s.core.Lease
}

// undisturbed reports whether nothing happens that could change who is next.
func (s *settings) undisturbed() bool { return s.calm && s.faults == 0 && s.keeps == 0 }

func (s *settings) String() string {
	c := &s.core
	several := ""
	if s.sets > 0 {
		several = fmt.Sprintf("\nsets=%d readwrite=%v readers=%d%% whole=%d%% gather=%v/%v", s.sets, s.readWrite, s.readers, s.whole, c.GatherAfter, c.GatherTime)
	}
	if s.limit > 0 {
		several = fmt.Sprintf("\nlimit=%d many=%d%% gather=%v/%v", s.limit, s.many, c.GatherAfter, c.GatherTime)
	}
	if s.keeps > 0 {
		several += fmt.Sprintf("\nkeeps=%d%%", s.keeps)
	}
	if s.shards > 0 {
		several += fmt.Sprintf("\nshards=%d hangs=%v", s.shards, s.hangs)
	}
	if s.limit > 0 {
		several += fmt.Sprintf(" place=%v", c.PlaceTime)
	} else if c.PlaceTime > 0 {
		several = fmt.Sprintf("\nplace=%v redisson=%v givesup=%d%% told=%v grant=%v", c.PlaceTime, s.redisson, s.givesUp, s.told, c.GrantLease)
	}
	return fmt.Sprintf("nodes=%d names=%d calm=%v faults=[%v] often=%d‰ latency≤%v timeout=%v think=%v hold=%v "+
		"explicit=%d%% fixed=%d%% extends=%d%% fenced=%d%% impatient=%d%% foreign=%v long=%d%% hopeless=%d%% adopt=%d%%\nlease=%v margin=%v retry=%v suspect=%v pass=%d/%v back=%v record=%v "+
		"trust=%v linger=%v poll=%v/%v maxlocks=%d",
		s.nodes, s.names, s.calm, s.faults, s.often, s.latency, s.timeout, s.think, s.hold, s.explicit, s.fixed, s.extends, s.fenced, s.impatient,
		s.foreign, s.long, s.hopeless, s.adopt, c.Lease, c.Margin, c.RetryTime, c.SuspectTime, c.PassCount, c.PassTime, c.BackTime, c.RecordEvery,
		c.TrustSubscribers, c.Linger, c.PollMax, c.PollBlind, c.MaxLocks) + several
}
