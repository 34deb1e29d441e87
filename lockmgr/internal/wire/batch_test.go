package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

const lease = time.Second

func tasks(ops ...*core.Op) []task {
	var out []task
	for _, op := range ops {
		out = append(out, task{op: op})
	}
	return out
}

func acquire(name string, owner uint64) *core.Op {
	return &core.Op{Verb: core.VerbAcquire, Name: name, Lease: lease, Number: owner}
}

func renewal(name string, owner uint64) *core.Op {
	return &core.Op{Verb: core.VerbRenew, Name: name, Lease: lease, Number: owner}
}

func released(name string, owners ...uint64) *core.Op {
	return &core.Op{Verb: core.VerbRelease, Name: name, OtherNumbers: owners}
}

// sent returns what a batch would send, one line for each command.
func sent(b *batch) []string {
	var out []string
	for _, c := range b.commands {
		out = append(out, fmt.Sprintf("%s%v%v", c.Script.Name, c.Keys, c.Args))
	}
	return out
}

func batchOf(tasks []task) *batch { return batchWith(&Config{Manager: "u"}, tasks) }

// clusteredBatch is the batch of a lane to a master of a cluster.
func clusteredBatch(tasks []task) *batch {
	return batchWith(&Config{Manager: "u", clustered: true}, tasks)
}

func batchWith(cfg *Config, tasks []task) *batch {
	b := newBatch(cfg)
	b.tasks = tasks
	b.build(0)
	return b
}

// rebuild replaces the tasks of a batch.
func rebuild(b *batch, tasks []task) {
	b.clear()
	b.tasks = tasks
	b.build(0)
}

// refusal returns the answer to a command that the server refused as a whole.
func refusal(kind FailureKind) Answer { return (&Failure{Kind: kind, Ran: core.No}).Answer() }

func TestBatch_PlainOperationsShareACommand(t *testing.T) {
	fenced, known := acquire("f", 7), acquire("k", 8)
	fenced.Tokens, known.OtherNumbers = 1, []uint64{9}
	longer := acquire("l", 10)
	longer.Lease = 2 * lease
	later := renewal("m", 15)
	later.Lease = 2 * lease
	b := batchOf(tasks(
		renewal("n", 14), later, renewal("o", 16),
		acquire("a", 1), released("r", 2), fenced, acquire("b", 3), released("s", 4), known, released("t", 5, 6), longer, acquire("c", 11),
		&core.Op{Verb: core.VerbTransfer, Name: "x", Lease: lease, Number: 12, OtherNumbers: []uint64{13}},
		renewal("p", 17),
	))
	require.Equal(t, []string{
		"renew[n][1000 u:14]",
		"renew[m][2000 u:15]",
		"renew[o p][1000 u:16 u:17]",
		"acquire_many[a b][1000 u:1 u:3]",
		"release_many[r s][u:2 redisson_lock__channel:{r} u:4 redisson_lock__channel:{s}]",
		"acquire[f redisson_lock_token:{f}][1000 1  u:7]",
		"acquire[k][1000 0  u:8 u:9]",
		"release[t][ u:5 u:6 redisson_lock__channel:{t}]",
		"acquire[l][2000 0  u:10]",
		"acquire[c][1000 0  u:11]",
		"transfer[x][1000 0 u:12 u:13 redisson_lock__channel:{x}]",
	}, sent(b))

	require.Equal(t, []string{"acquire[a][1000 0  u:1]", "release[b][ u:2 redisson_lock__channel:{b}]"},
		sent(batchOf(tasks(acquire("a", 1), released("b", 2)))), "an operation that shares nothing gets the script for one lock")
}

// A release after which the record stays has a script of its own.
func TestBatch_AReleaseThatKeepsIsAlone(t *testing.T) {
	keeps := released("k", 2)
	keeps.Reserve, keeps.Words, keeps.KeptAs = 1500*time.Millisecond+1, "who", 1
	require.Equal(t, []string{
		"release_many[a b][u:1 redisson_lock__channel:{a} u:3 redisson_lock__channel:{b}]",
		"reserve[k][1501 who u:1:kept u:2 redisson_lock__channel:{k}]",
	}, sent(batchOf(tasks(released("a", 1), keeps, released("b", 3)))))
}

// Each task gets its own answer, also from a shared command, and nothing of the batch before shows.
func TestAnswer_FindsItsTask(t *testing.T) {
	b := newBatch(&Config{Manager: "u"})
	for range 2 {
		b.tasks = tasks(acquire("a", 1), released("r", 2), acquire("b", 3), released("t", 5, 6), released("s", 4), acquire("c", 7))
		b.build(5)
		require.Len(t, b.commands, 3)
		refused := &Failure{Ran: core.No, Err: textError("refused")}
		b.answers[0] = Answer{Kind: Array, Array: []Answer{{}, {Kind: Int, Int: 7}, refused.Answer()}}
		b.answers[1] = Answer{Kind: Array, Array: []Answer{{Kind: Int, Int: 1}, {}}}
		b.answers[2] = Answer{Kind: Int, Int: 9}
		require.False(t, b.split(), "the failure of one lock is not that of the command")
		got := replies(b)
		require.True(t, got[0].OK)
		require.Equal(t, 7*time.Millisecond, got[2].TTL)
		require.ErrorIs(t, got[5].Err, refused.Err)
		require.Equal(t, []int64{1, 9, 0}, []int64{got[1].Subscribers, got[3].Subscribers, got[4].Subscribers})
		require.False(t, got[4].OK)
		for _, task := range b.tasks {
			require.Equal(t, time.Duration(5), task.op.Sent)
		}
		b.clear()
	}
}

// replies returns what a batch reports.
func replies(b *batch) (out []core.Reply) {
	for i := range b.tasks {
		var r core.Reply
		decode(b.tasks[i].op, b.answer(&b.tasks[i]), &r, fail)
		out = append(out, r)
	}
	return out
}

// A shared command that the server refused to run is retried lock by lock, so that a forbidden name
// costs no other its lease. One that may have run is not, nor one whose failure concerns the
// server.
func TestBatch_RefusedCommandIsSplit(t *testing.T) {
	b := batchOf(tasks(acquire("a", 1), released("r", 2), acquire("b", 3), released("s", 4), acquire("c", 5), renewal("n", 6), renewal("m", 7)))
	cut := (&Failure{Kind: Permission, Ran: core.Maybe}).Answer()
	for i, c := range b.commands {
		b.answers[i] = refusal(Permission)
		if c.Script == releaseMany {
			b.answers[i] = cut
		}
	}
	require.True(t, b.split())
	require.Equal(t, []string{
		"acquire[a][1000 0  u:1]", "acquire[b][1000 0  u:3]", "acquire[c][1000 0  u:5]", "renew[n][1000 u:6]", "renew[m][1000 u:7]",
	}, sent(b)[3:])
	b.answers[4], b.answers[6], b.answers[7] = refusal(Permission), *ints(1), Answer{Kind: Array}
	for i, want := range []Answer{{}, cut, refusal(Permission), cut, {}} {
		require.Equal(t, want, *b.answer(&b.tasks[i]), "task %d", i)
	}
	lost, renewed := replies(b)[5], replies(b)[6]
	require.True(t, lost.Ran == core.Yes && !lost.OK, "%+v", lost)
	require.True(t, renewed.Ran == core.Yes && renewed.OK, "%+v", renewed)
	require.False(t, b.split(), "only once")
	rebuild(b, tasks(acquire("a", 1), acquire("b", 3)))
	require.Len(t, b.commands, 1, "later locks share commands again")
	const text = "LOADING Redis is loading the dataset in memory"
	b = batchOf(tasks(acquire("a", 1), acquire("b", 3)))
	b.answers[0] = serverFailure(textError(text), text).Answer()
	require.False(t, b.split())
}

// The release of a set that was refused because of a name is sent for each name, so that a
// forbidden name keeps no other. Nothing else of a set is split, and no release for another reason:
// the answer to the whole release tells a loss.
func TestBatch_RefusedReleaseOfASetIsSplit(t *testing.T) {
	set := func(v core.Verb) *core.Op { return setOp(v, 1, []string{"a", "b"}) }
	b := batchOf(tasks(set(core.VerbRelease), set(core.VerbAcquire), set(core.VerbRenew)))
	b.answers[0], b.answers[1], b.answers[2] = refusal(Permission), refusal(Permission), refusal(Permission)
	require.True(t, b.split())
	require.Len(t, b.commands, 5)
	require.Equal(t, []string{"a"}, b.commands[3].Keys)
	require.Equal(t, []string{"b"}, b.commands[4].Keys)
	require.False(t, b.split(), "only once")
	for i, want := range []core.Ran{core.Maybe, core.No, core.No} {
		require.Equal(t, want, replies(b)[i].Ran, "task %d", i)
	}
	for _, b := range []*batch{batchOf(tasks(set(core.VerbRelease))), clusteredBatch(tasks(set(core.VerbRelease)))} {
		b.answers[0] = (&Failure{Kind: Unavailable, Ran: core.No, OnlyThis: true}).Answer()
		require.False(t, b.split())
		b.answers[0] = refusal(Topology)
		require.False(t, b.split())
	}
}

// Once a server has refused a script because of its slots, no two locks share one.
func TestBatch_LocksOfAClusterShareNothing(t *testing.T) {
	b := batchOf(tasks(acquire("a", 1), acquire("b", 2), released("r", 3), released("s", 4)))
	const text = "CROSSSLOT Keys in request don't hash to the same slot"
	f := serverFailure(textError(text), text)
	require.Equal(t, core.No, f.Ran)
	require.Equal(t, Topology, f.Kind)
	fill(b.answers, f.Answer())
	require.True(t, b.split())
	require.Len(t, b.commands, 6)
	rebuild(b, tasks(acquire("a", 1), acquire("b", 2), released("r", 3), released("s", 4), renewal("n", 5), renewal("o", 6)))
	require.Equal(t, []string{
		"acquire[a][1000 0  u:1]", "acquire[b][1000 0  u:2]",
		"release[r][ u:3 redisson_lock__channel:{r}]", "release[s][ u:4 redisson_lock__channel:{s}]",
		"renew[n][1000 u:5]", "renew[o][1000 u:6]",
	}, sent(b))
	fill(b.answers, Answer{Kind: Array})
	require.True(t, replies(b)[5].OK)
	require.False(t, b.split(), "nothing is left to be split")
}

// In a cluster those operations share a command that are alike and in one slot.
func TestBatch_LocksOfASlotShareACommand(t *testing.T) {
	longer := acquire("{x}l", 9)
	longer.Lease = 2 * lease
	b := clusteredBatch(tasks(
		acquire("{x}a", 1), acquire("{y}a", 2), acquire("{x}b", 3), renewal("{x}n", 4), released("{x}r", 5), acquire("{x}c", 6),
		renewal("{y}n", 7), longer, renewal("{x}o", 8), acquire("{y}b", 10),
	))
	require.Equal(t, []string{
		"acquire_many[{x}a {x}b {x}c][1000 u:1 u:3 u:6]",
		"acquire_many[{y}a {y}b][1000 u:2 u:10]",
		"renew[{x}n {x}o][1000 u:4 u:8]",
		"release[{x}r][ u:5 redisson_lock__channel:{x}r]",
		"renew[{y}n][1000 u:7]",
		"acquire[{x}l][2000 0  u:9]",
	}, sent(b))
	b.answers[0] = Answer{Kind: Array, Array: []Answer{{}, {Kind: Int, Int: 7}, (&Failure{Ran: core.No}).Answer()}}
	b.answers[1] = Answer{Kind: Array, Array: []Answer{{Kind: Int, Int: 8}, {}}}
	b.answers[2] = *ints(2) // the second is lost
	b.answers[4] = Answer{Kind: Array}
	b.answers[5] = Answer{Kind: Int, Int: 9}
	got := replies(b)
	require.Equal(t, []bool{true, false, false, true, true, false}, []bool{got[0].OK, got[2].OK, got[5].OK, got[9].OK, got[3].OK, got[8].OK})
	require.Equal(t, []time.Duration{7 * time.Millisecond, 8 * time.Millisecond, 9 * time.Millisecond}, []time.Duration{got[2].TTL, got[1].TTL, got[7].TTL})
	require.True(t, got[6].OK)

	var ops []*core.Op
	for i := range 2*maxShared + 1 {
		ops = append(ops, acquire(fmt.Sprintf("{x}%d", i), uint64(i)))
	}
	rebuild(b, tasks(ops...))
	require.Len(t, b.commands, 3, "nothing joins a command of the batch before, and each command has a bound")
	require.Equal(t, "acquire", b.commands[2].Script.Name)
}

// While a slot is being moved, some of its keys are at the new master. A command for keys of both
// masters is refused, and split. What the master refuses because of the whole slot is not.
func TestBatch_SlotThatIsMoving(t *testing.T) {
	b := clusteredBatch(tasks(acquire("{x}a", 1), acquire("{y}a", 2), acquire("{x}b", 3), acquire("{y}b", 4), renewal("{z}a", 5), renewal("{z}b", 6)))
	for i, text := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "MOVED 1 b:1", "NOPERM No permissions to access a key"} {
		b.answers[i] = serverFailure(textError(text), text).Answer()
	}
	require.True(t, b.split())
	require.Equal(t, []string{"acquire[{x}a][1000 0  u:1]", "acquire[{x}b][1000 0  u:3]", "renew[{z}a][1000 u:5]", "renew[{z}b][1000 u:6]"}, sent(b)[3:])
	b.answers[5], b.answers[6] = Answer{Kind: Array}, Answer{Kind: Array}
	for _, i := range []int{1, 3} {
		require.True(t, b.answer(&b.tasks[i]).Failure.Elsewhere, "each of its locks goes to the other master")
	}
	for _, i := range []int{0, 2, 4, 5} {
		require.Nil(t, b.answer(&b.tasks[i]).Failure, "task %d has a new answer", i)
	}
	require.False(t, b.split())
}

// A command that its master has refused is sent by the client, for each lock by itself.
func TestBatch_NothingSharesACommandAnywhere(t *testing.T) {
	b := batchWith(&Config{Manager: "u", clustered: true, detour: true}, tasks(acquire("{x}a", 1), acquire("{x}b", 2)))
	require.Len(t, b.commands, 2)
}

// A reply of the wrong length answers none of its locks.
func TestAnswer_OutOfStep(t *testing.T) {
	for _, a := range []Answer{
		{}, {Kind: Int, Int: 1}, {Kind: Text, Text: "OK"},
		{Kind: Array, Array: make([]Answer, 1)}, {Kind: Array, Array: make([]Answer, 3)},
	} {
		b := batchOf(tasks(acquire("a", 1), acquire("b", 2)))
		b.answers[0] = a
		for i, r := range replies(b) {
			require.Equal(t, core.Maybe, r.Ran)
			require.Equal(t, Unknown, b.answer(&b.tasks[i]).Failure.Kind)
			require.False(t, r.OK)
		}
	}
}

// A batch reuses its own memory, never that of a caller's command.
func TestBatch_CallKeepsItsWords(t *testing.T) {
	words := []string{"PEXPIRE", "app:x", "1000"}
	b := batchOf([]task{{call: &call{command: Command{Args: words}}}})
	rebuild(b, tasks(acquire("a", 1)))
	require.Equal(t, []string{"PEXPIRE", "app:x", "1000"}, words)
}
