package clientsim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// Kinds are what may happen in a world, as a set: what goes wrong, and what callers do beyond Lock
// and Unlock.
type kinds uint64

const (
	late         kinds = 1 << iota // bytes to the server are held back, and arrive when the client has tried again elsewhere
	stall                          // all connections of a host stand still for a while
	cut                            // connections break
	partition                      // nothing gets through, and nothing new connects
	refuse                         // connections break, and new ones are refused
	stop                           // the server does not run for a while, and then does what it was sent
	restart                        // connections break, and the server has forgotten its scripts
	flush                          // the servers have forgotten all locks, but not permits
	noPerm                         // one host may not touch one name
	badKey                         // one name is no lock
	badCounter                     // one token counter is not a number
	foreign                        // one name is taken as another kind of lock
	noSubscribe                    // one host may not subscribe, ever
	far                            // one host has a round trip of more than half of a command's time-out
	slowLog                        // log handlers block for a while
	slowObserver                   // observers block
	slowCallback                   // callbacks of futures block
	force                          // forced unlocks
	abandon                        // cancels at any moment, and contexts that end
	together                       // futures.All and futures.Any
	owners                         // named owners, re-entry, deadlocks
	adopted                        // owners of anonymous locks made use of by others, deadlocks among them
	fixed                          // fixed leases
	long                           // some of them very long
	hopeless                       // some too short for the distance
	fenced                         // tokens
	closing                        // Close at any moment
	shared                         // two managers on one client, with a pool of one
	crowd                          // the servers stop just before hundreds of names are asked for
	hot                            // goroutines that lock one name again and again
	endless                        // options that are the longest Duration
	sides                          // read-write locks
	fairs                          // fair locks
	counted                        // permits
	sets                           // LockAll
	keeping                        // KeepFor
	bounded                        // MaxHold
	noting                         // Note
	telling                        // managers write who they are
	extending                      // Extend
	doing                          // Do
	contrary                       // options that contradict each other
	kill                           // processes end without a word, and others take their places
	redisson                       // a client that keeps to the layout of the records, and to nothing else
	replicated                     // replicas, and managers that wait for them
	clustered                      // two masters
	fail                           // a replica gets nothing for a while, or takes the place of its master
	move                           // a slot gets another master
	lateDial                       // Options.ConnectLater
	full                           // the servers have no memory
	limits                         // SetLimit of permits
	scarce                         // MaxWaiters and MaxLocks are small
	looking                        // Inspect, Scan and Explain
	classic                        // a cluster whose managers use classic channels
	prefixed                       // Options.Prefix
	drift                          // the clocks of servers and hosts run at different speeds
	allKinds     = 1<<iota - 1
)

var kindNames = []string{
	"late", "stall", "cut", "partition", "refuse", "stop", "restart", "flush", "noperm", "badkey", "badcounter", "foreign",
	"nosubscribe", "far", "slowlog", "slowobserver", "slowcallback", "force", "abandon", "together", "owners", "adopted", "fixed",
	"long", "hopeless", "fenced", "closing", "shared", "crowd", "hot", "endless",
	"sides", "fairs", "counted", "sets", "keeping", "bounded", "noting", "telling", "extending", "doing", "contrary", "kill", "redisson",
	"replicated", "clustered", "fail", "move", "latedial", "full", "limits",
	"scarce", "looking", "classic", "prefixed", "drift",
}

// disasters are the kinds that strike at an instant and last for a time.
const disasters = late | stall | cut | partition | refuse | stop | restart | flush | noPerm | badKey | badCounter | foreign |
	slowLog | slowObserver | kill | fail | move | full

// ofNames are the disasters that make requests for some names fail.
const ofNames = noPerm | badKey | badCounter | foreign | full

func (k kinds) String() string {
	var out []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return strings.Join(out, ",")
}

func parseKinds(text string) (k kinds, err error) {
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		i := slices.Index(kindNames, name)
		if i < 0 {
			return 0, fmt.Errorf("unknown kind %q, want some of %v", name, kindNames)
		}
		k |= 1 << i
	}
	return k, nil
}

// settings are what one seed's world is like. They are drawn once.
type settings struct {
	kinds    kinds
	managers int
	names    int
	life     time.Duration // until faults and new requests end
	requests int
	strikes  int // disasters

	lease, timeout, retry   time.Duration // as in lockmgr.Options
	linger, passTime        time.Duration
	forget                  bool
	rate                    float64 // how fast the clocks of servers run, by that of the hosts
	passCount               int
	maxWaiters, maxLocks    int           // zero: the defaults
	keepAlive, writeTimeout time.Duration // of the client
	latency                 []time.Duration
	hold                    time.Duration // a typical hold
	silent                  time.Duration // the longest silence

	kindOf   []feature // of each name
	home     []int     // the only machine that uses a name; -1: all do
	servers  int
	replicas int           // of each server
	acks     int           // of Options.Replicas
	ackTime  time.Duration // its time-out
	lag      time.Duration // of replicas
}

func drawSettings(seed uint64, only, off kinds) settings {
	r := stream(seed, 1)
	s := settings{
		managers: 2 + r.IntN(3),
		names:    1 + r.IntN(1+r.IntN(6)),
		life:     logBetween(r, 10*sec, 90*sec),
		requests: 30 + r.IntN(60),
	}
	// Few kinds at a time, as each excuses some effects of others.
	for range r.IntN(4) {
		s.kinds |= pick(r, disasters)
	}
	if r.IntN(4) == 0 {
		s.kinds |= late
	}
	for k := kinds(1); k < allKinds; k <<= 1 {
		in := 4
		switch k {
		case noSubscribe, far, slowCallback, endless, shared, scarce:
			in = 12
		case sides, keeping, fixed, fenced:
			in = 3
		case replicated, clustered, contrary, telling, lateDial, looking, prefixed:
			in = 8
		case hot, crowd:
			in = 16
		}
		if k&disasters == 0 && r.IntN(in) == 0 {
			s.kinds |= k
		}
	}
	if s.kinds&(fail|move|kill) != 0 { // these seldom meet one another, a cancel, or an owner that reads
		s.kinds |= []kinds{0, abandon | together, owners | sides, kill}[r.IntN(4)]
	}
	if s.kinds&limits != 0 {
		s.kinds |= counted
	}
	if s.kinds&hot != 0 && seed%2 == 0 { // what is passed on in memory is forced open, too
		s.kinds |= force
	}
	s.strikes = 1 + r.IntN(10)
	s.lease = logBetween(r, 300*ms, 30*sec).Truncate(ms)
	s.timeout = min(2*sec, s.lease/10)
	if r.IntN(3) == 0 {
		s.timeout = logBetween(r, s.lease/20, s.lease/4)
	}
	s.retry = 5 * sec
	if r.IntN(2) == 0 {
		s.retry = logBetween(r, 200*ms, 10*sec)
	}
	s.linger = []time.Duration{0, 0, -1, 50 * ms, time.Minute}[r.IntN(5)]
	s.passCount = []int{0, 0, 1, 3}[r.IntN(4)]
	s.keepAlive = []time.Duration{500 * ms, sec, 2 * sec, 3 * sec}[r.IntN(4)]
	s.writeTimeout = []time.Duration{500 * ms, sec, 2 * sec}[r.IntN(3)]
	s.hold = logBetween(r, ms, 2*s.lease)
	s.silent = logBetween(r, s.timeout, 6*s.retry+10*sec)

	if s.kinds&crowd != 0 { // else each name is tried too often
		s.retry = min(s.retry, max(10*s.timeout, 200*ms))
	}

	// Kinds are switched off after all draws above, so that these stay the same.
	if only != 0 {
		s.kinds = only
	}
	s.kinds &^= off
	if s.kinds&(noSubscribe|shared) != 0 {
		s.life = min(s.life, 20*sec) // waiters without messages poll: a fifth of the time of all seeds
	}
	if s.kinds&noPerm != 0 {
		s.names += 3 // so that there are others in a batch
	}
	if s.kinds&endless != 0 {
		if r.IntN(2) == 0 {
			s.linger = math.MaxInt64
		} else {
			s.passTime = math.MaxInt64
		}
	}
	if s.kinds&far != 0 {
		// Connecting takes two ways there and back, and has to end in time.
		s.timeout, s.writeTimeout = min(s.timeout, 400*ms), max(s.writeTimeout, sec)
	}
	if s.kinds&scarce != 0 {
		s.maxWaiters, s.maxLocks = 1+r.IntN(8), 1+r.IntN(4)
	}
	s.drawNames(r)
	s.drawServers(r)
	for range s.managers {
		s.latency = append(s.latency, logBetween(r, 50*time.Microsecond, min(s.timeout/10, 50*ms)))
	}
	if s.kinds&far != 0 {
		s.latency[0] = s.timeout * time.Duration(25+r.IntN(8)) / 100
	}
	s.forget = r.IntN(2) == 0
	if s.rate = 1; s.kinds&drift != 0 { // by 1 % at most, which is what leases allow for
		s.rate += []float64{-0.01, 0.01, 0.02*r.Float64() - 0.01}[r.IntN(3)]
	}
	return s
}

// drawNames draws what kind of lock each name is.
func (s *settings) drawNames(r *rand.Rand) {
	from := []feature{plain}
	for kind, k := range map[feature]kinds{reader: sides, fair: fairs, permits: counted} {
		if s.kinds&k != 0 {
			from = append(from, kind, kind)
		}
	}
	slices.Sort(from)
	if s.kinds&(sets|owners) != 0 {
		s.names = max(s.names, 2)
	}
	for range s.names {
		s.kindOf = append(s.kindOf, from[r.IntN(len(from))])
		home := -1
		if r.IntN(4) == 0 {
			home = r.IntN(s.managers)
		}
		s.home = append(s.home, home)
	}
}

// drawServers draws servers and replicas.
func (s *settings) drawServers(r *rand.Rand) {
	if s.servers = 1; s.kinds&(clustered|move) == 0 {
		s.kinds &^= classic
	} else {
		s.kinds |= clustered
		s.servers = 2
		s.kinds &^= shared // a client of a cluster that is closed while it dials leaves that connection open
	}
	if s.kinds&(replicated|fail) != 0 {
		s.kinds |= replicated
		s.replicas = 1 + r.IntN(2)
		s.acks = r.IntN(s.replicas + 1)
		s.lag = logBetween(r, 100*time.Microsecond, 5*ms)
		s.ackTime = min(sec, s.lease/10)
	}
}

func (s *settings) String() string {
	return fmt.Sprintf("kinds=[%v] managers=%d names=%d life=%v requests=%d strikes=%d lease=%v timeout=%v retry=%v linger=%v pass=%d forget=%v "+
		"keepalive=%v+%v rate=%v latency=%v hold=%v replicas=%d acks=%d of=%v", s.kinds, s.managers, s.names, s.life, s.requests, s.strikes, s.lease, s.timeout, s.retry,
		s.linger, s.passCount, s.forget, s.keepAlive, s.writeTimeout, s.rate, s.latency, s.hold, s.replicas, s.acks, s.kindOf)
}

// stream returns a generator for one purpose of a seed, so that what one goroutine draws does not
// depend on how many others have drawn before.
func stream(seed, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed*0x9e3779b97f4a7c15+purpose, purpose*0xd1342543de82ef95+seed))
}

// pick returns one kind of a set.
func pick(r *rand.Rand, from kinds) kinds {
	for {
		if k := kinds(1) << r.IntN(len(kindNames)); k&from != 0 {
			return k
		}
	}
}

// logBetween draws from lo to hi, small and large ones alike.
func logBetween(r *rand.Rand, lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	d := float64(lo) * math.Pow(float64(hi)/float64(lo), r.Float64())
	return min(max(time.Duration(d), lo), hi)
}
