package clientsim

import "math/bits"

// A feature is something that a request can meet in its life. Faults live where two features meet,
// so the book counts for each pair how many runs met both. A new feature joins this list first.
type feature uint8

const (
	// Kinds of locks.
	plain feature = iota
	reader
	writer
	fair
	permits
	set

	// Ways of a grant.
	acquired    // a script took it
	passed      // from another owner of the manager, in memory: no script has recorded it before
	joined      // a reader that uses the entry of another
	reentered   // its owner had it
	upgraded    // its owner had the read side
	transferred // from another owner of the manager, when a transfer had recorded it
	unknown     // by a script whose first answer was lost
	byMessage   // a script of another manager recorded it, and the message granted it

	// Options of requests and managers.
	maxWait
	tryOnce
	fixedLease
	maxHold
	keepFor
	tokens // Fenced
	asOwner
	note
	waitContext
	takesOver
	named     // Options.Process: a manager that writes its record
	lingerOff // Options.Linger is negative
	oneInARow // Options.PassCount is 1
	acks      // Options.Replicas
	metLater  // Options.ConnectLater

	// Ways of an end.
	unlockedAtOnce
	unlockedLater
	byDo
	cancelledBefore
	cancelledAfter
	neverTaken
	closed
	extended
	lost
	forced
	killed

	// Who is there: others that want the name during the life of the request.
	nobody
	localWaiters
	waitersElsewhere
	both
	likeRedisson

	// Topology.
	oneServer
	shards
	replicas

	// Trouble of its host, or of its name.
	lostReply
	lateCopy
	cutOff
	frozen
	movedSlot
	failover
	noMemory

	allFeatures
)

var featureNames = [allFeatures]string{
	"plain", "reader", "writer", "fair", "permits", "set",
	"acquired", "passed", "joined", "re-entered", "upgraded", "after a transfer", "after an unknown answer", "by message",
	"MaxWait", "TryLock", "FixedLease", "MaxHold", "KeepFor", "Fenced", "AsOwner", "Note", "WaitContext", "TakeOver", "Process", "no Linger", "PassCount 1", "Replicas", "ConnectLater",
	"unlocked at once", "unlocked later", "by Do", "cancelled before", "cancelled after", "never taken", "closed", "extended", "lost", "forced", "killed",
	"nobody", "local waiters", "waiters elsewhere", "both", "like Redisson",
	"one server", "shards", "with replicas",
	"lost reply", "late copy", "cut", "frozen", "moved slot", "failover", "without memory",
}

func (f feature) String() string { return featureNames[f] }

// features is a set of them.
type features uint64

func featuresOf(all ...feature) (s features) {
	for _, f := range all {
		s |= 1 << f
	}
	return s
}

func (s features) has(f feature) bool { return s&(1<<f) != 0 }

func (s *features) add(f feature) { *s |= 1 << f }

// each calls do with each feature of a set.
func (s features) each(do func(feature)) {
	for ; s != 0; s &= s - 1 {
		do(feature(bits.TrailingZeros64(uint64(s))))
	}
}

// upTo returns the features from first to last.
func upTo(first, last feature) features { return features(1<<(last+1) - 1<<first) }

var (
	kindsOfLocks = upTo(plain, set)
	waysOfGrants = upTo(acquired, byMessage)
	whoIsThere   = upTo(nobody, likeRedisson)
)

// An impossible pair can't be met by one request. The table counts the pairs of apart for two
// requests for one name. Nobody can meet the pairs of unmet.
type impossible struct {
	a, b features
	why  string
}

// answers are the ends of a request, which has one of these only.
var answers = featuresOf(unlockedAtOnce, unlockedLater, cancelledBefore, cancelledAfter, neverTaken, closed, killed)

// apart are pairs of features that one request can't have, but two requests for one name can.
var apart = []impossible{
	{featuresOf(reader, set), featuresOf(plain, writer, set), "a request is for one kind of lock"},
	{featuresOf(writer), featuresOf(reader, set), "a request is for one kind of lock"},
	{waysOfGrants, waysOfGrants, "a request is granted in one way"},
	{featuresOf(joined), featuresOf(writer, set), "only readers join"},
	{featuresOf(upgraded), featuresOf(reader, set), "only a writer is upgraded"},
	{featuresOf(upgraded), featuresOf(maxWait, cancelledBefore, cancelledAfter, neverTaken), "an upgrade is a single try, and its caller takes it"},
	{featuresOf(passed, transferred), featuresOf(set), "a set does not pass in memory"},
	{answers, answers, "a request ends in one way"},
	{featuresOf(cancelledBefore), waysOfGrants | featuresOf(extended, lost, forced), "it was not granted"},
	{featuresOf(cancelledAfter, neverTaken), featuresOf(extended, lost, forced, byDo), "nobody has had it"},
	{featuresOf(neverTaken), featuresOf(set, asOwner, tryOnce), "All and Any are tried with anonymous requests for one name that wait"},
	{featuresOf(reentered), featuresOf(neverTaken), "All and Any are tried with anonymous requests for one name that wait"},
	{featuresOf(maxWait), featuresOf(tryOnce), "the options contradict each other: promise13b"},
	{featuresOf(fixedLease), featuresOf(maxHold), "the options contradict each other: promise13b"},
	{featuresOf(tryOnce), featuresOf(byDo, cancelledBefore), "there is no TryDo, and a try does not wait"},
}

// unmet are pairs that nobody can meet.
var unmet = []impossible{
	{featuresOf(oneServer), featuresOf(shards, movedSlot), "a run has one topology, and one server has no slots"},
	{featuresOf(plain), featuresOf(reader, writer, fair, permits), "a name is one kind of lock; ErrKind is tested on real servers"},
	{featuresOf(fair, permits), kindsOfLocks, "a name is one kind of lock; ErrKind is tested on real servers"},
	{featuresOf(keepFor, takesOver), featuresOf(reader, writer, fair, permits, set, joined, upgraded), "KeepFor and TakeOver are for plain locks: promise13b"},
	{featuresOf(permits), featuresOf(asOwner, tokens, reentered), "permits have no owner and no tokens: promise13b"},
	{featuresOf(joined), featuresOf(plain, fair, permits), "only readers join"},
	{featuresOf(upgraded), featuresOf(plain, fair, permits), "only a writer is upgraded"},
	{featuresOf(byMessage), featuresOf(set, permits), "sets and permits are not granted by message"},
	{featuresOf(byMessage), featuresOf(acks), "a script of another manager waits for no replica"},
	{featuresOf(joined, upgraded, reentered), featuresOf(nobody, waitersElsewhere), "the hold that it joins is there, in this process"},
	{featuresOf(nobody), featuresOf(localWaiters, waitersElsewhere, both, likeRedisson), "there is nobody, or somebody"},
}
