package core

import "time"

// Forever means no deadline.
const Forever = time.Duration(1<<63 - 1)

// Config has the parameters of the rules. See Defaults.
type Config struct {
	// Lease is the lease of a hold that the watchdog renews. A renewal is due Lease/3 after the
	// send of the last confirmed script.
	Lease time.Duration
	// Margin is subtracted from every lease, in addition to 1 % for clock drift: Redis counts whole
	// milliseconds and reads its clock once per script.
	Margin time.Duration
	// RetryTime is how long commands may go on failing before waiting requests fail. RetryTime does
	// not limit waiting for a lock that others hold.
	RetryTime time.Duration
	// SuspectTime is how long after a command's time-out the machine looks for the record that the
	// command may have left. A command that runs later leaves a record that ends with its lease.
	SuspectTime time.Duration

	// PassCount and PassTime bound a run of grants in a row, unless the manager knows that no other
	// process waits.
	PassCount int
	PassTime  time.Duration
	// BackTime is how long a pause after a run goes on while nobody is heard. The usual pause for a
	// client that was never heard is BackTime at most, plus a random time of no more than the
	// pause.
	BackTime time.Duration
	// ShareEvery is how long a manager may keep the lock from processes that the manager does not
	// hear. After ShareEvery the manager pauses for BlindPause, which is enough for processes that
	// poll, or for FarPause if there are subscribers, who may be far away. If ShareEvery is zero,
	// the manager makes no long pauses.
	ShareEvery           time.Duration
	BlindPause, FarPause time.Duration
	// RecordEvery is the least time between two transfers of one entry.
	RecordEvery time.Duration
	// TrustSubscribers is set if the number of subscribers that a script reports includes all
	// subscribers.
	TrustSubscribers bool

	// GatherAfter is how long a request for several permits waits before gathering. GatherTime is
	// how long that request gathers the first time; zero means that sets do not gather either. See
	// gatherTime.
	GatherAfter, GatherTime time.Duration
	// ForgetPermits makes releases remove the counter of a name whose permits are all free, if the
	// counter is the limit of the newest request.
	ForgetPermits bool

	// PlaceTime is for how long a place in the queue of a fair lock lasts if the manager does not
	// move the deadline. A manager in a line asks again after two fifths of PlaceTime. A manager
	// that was told has its turn for as long: line.lua has the two fifths as a number.
	PlaceTime time.Duration
	// GrantLease is the longest lease of a grant by message: see grants. GrantSecret is known to
	// this manager and the server only. If GrantSecret is empty, there are no grants by message.
	GrantLease  time.Duration
	GrantSecret string

	// Linger is how long a subscription outlives its last waiter.
	Linger time.Duration
	// PollMax caps the time between two tries while subscribed, PollBlind while not subscribed.
	// PollSoon caps the time while only a few names lack a subscription. PollSoon is below
	// BlindPause, so that a poll falls into a pause of another process.
	PollMax, PollBlind, PollSoon time.Duration

	// MaxLocks bounds the names that are not idle. All names together are at most twice as many.
	MaxLocks int
	// Sharded is set if the replies come from several servers: see Reply.Shard. The server of a
	// name is known once an operation about the name has been sent: see Sent.
	Sharded bool
	// Notices asks for Notice effects.
	Notices bool
	// Seed is the seed of the random numbers.
	Seed uint64
}

// Defaults returns the parameters of a manager of a single server without options. Defaults has no
// GatherTime, GrantSecret, Notices and Seed.
func Defaults() Config {
	return Config{
		Lease: 30 * time.Second, Margin: 2 * time.Millisecond,
		RetryTime: 5 * time.Second, SuspectTime: 4 * time.Second,
		PassCount: 32, PassTime: 100 * time.Millisecond, BackTime: 5 * time.Millisecond,
		ShareEvery: time.Second, BlindPause: 20 * time.Millisecond, FarPause: 125 * time.Millisecond,
		RecordEvery: time.Millisecond, TrustSubscribers: true, GatherAfter: time.Second,
		PlaceTime: 5 * time.Second, GrantLease: 2 * time.Second, Linger: 2 * time.Second,
		PollMax: 5 * time.Second, PollBlind: time.Second, PollSoon: 10 * time.Millisecond,
		MaxLocks: 1 << 20,
	}
}

// usable returns the part of a lease that may be trusted, counted from the send.
func (c *Config) usable(lease time.Duration) time.Duration {
	return lease - lease/100 - c.Margin
}

// leaseFor returns the least lease, in whole milliseconds, whose usable part is d: a time x plus
// x/99, less 1 %, is x.
func (c *Config) leaseFor(d time.Duration) time.Duration {
	d += c.Margin
	return wholeMs(d + d/99)
}

// wholeMs returns d in whole milliseconds, not less than d. The server counts leases in
// milliseconds.
func wholeMs(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// tick returns the time after which a watched lease is due for renewal.
func (c *Config) tick() time.Duration { return c.Lease / 3 }

// shareDue returns after how much of ShareEvery the lock is given back: the run that is under way
// and the release still follow.
func (c *Config) shareDue() time.Duration { return c.ShareEvery / 4 * 3 }

// later returns at + d, or Forever on overflow.
func later(at, d time.Duration) time.Duration {
	if d > Forever-at {
		return Forever
	}
	return at + d
}

// jitter is a splitmix64 generator of random numbers. The core has its own generator because the
// core must be a function of its inputs.
type jitter uint64

// upTo returns a duration in [0, d).
func (j *jitter) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	*j += 0x9e3779b97f4a7c15
	z := uint64(*j)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return time.Duration((z ^ z>>31) % uint64(d))
}
