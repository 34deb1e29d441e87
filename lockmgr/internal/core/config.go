package core

import "time"

// Forever means no deadline.
const Forever = time.Duration(1<<63 - 1)

// Config holds the numbers that the rules need. The shell fills every field;
// the core has no defaults of its own.
type Config struct {
	// Lease is the lease of a hold that the watchdog renews. A renewal falls
	// due Lease/3 after the send of the last confirmed script.
	Lease time.Duration
	// Margin is subtracted from every lease, in addition to 1 % for clock drift:
	// Redis counts whole milliseconds and reads its clock once per script.
	Margin time.Duration
	// RetryTime is how long tries may go on failing before waiting requests
	// fail. It does not limit waiting for a lock that others hold.
	RetryTime time.Duration
	// SuspectTime is how long after a command's time-out the machine looks for
	// the record that it may have left. A command that runs later still leaves a
	// record that ends with its lease.
	SuspectTime time.Duration

	// PassCount and PassTime bound a run of grants in a row, unless the
	// manager knows that no others wait.
	PassCount int
	PassTime  time.Duration
	// BackTime is the longest pause after a run if nobody is heard to use it.
	// Up to as much again is added at random.
	BackTime time.Duration
	// ShareEvery is how long a manager may keep the lock from processes that it
	// does not hear. Then it pauses for BlindPause, for those that poll, or for
	// FarPause if there are subscribers, as these may be far away. Zero: no such
	// pauses.
	ShareEvery           time.Duration
	BlindPause, FarPause time.Duration
	// RecordEvery is the least time between two transfers of one lock.
	RecordEvery time.Duration
	// TrustSubscribers says that the number of subscribers that a script
	// reports counts all of them.
	TrustSubscribers bool

	// Linger is how long a subscription outlives its last waiter.
	Linger time.Duration
	// PollMax caps the wait between two tries while subscribed. PollBlind caps
	// it while not subscribed, and where the holder's release is published
	// elsewhere. PollSoon is the wait while few names are not subscribed. It is
	// below BlindPause, so that a poll falls into a pause of others.
	PollMax, PollBlind, PollSoon time.Duration

	// MaxLocks bounds the names known at one time.
	MaxLocks int
	// Notices asks for Notice effects.
	Notices bool
	// Seed starts the generator of jitter.
	Seed uint64
}

// usable is the part of a lease that may be trusted, counted from the send.
func (c *Config) usable(lease time.Duration) time.Duration {
	return lease - lease/100 - c.Margin
}

// tick is the time after which a watched lease falls due for renewal.
func (c *Config) tick() time.Duration { return c.Lease / 3 }

// later returns at + d, or Forever if that overflows.
func later(at, d time.Duration) time.Duration {
	if d > Forever-at {
		return Forever
	}
	return at + d
}

// jitter is a splitmix64 generator: the core must be a function of its inputs.
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
