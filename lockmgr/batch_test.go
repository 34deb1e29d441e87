package lockmgr

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

const lease = time.Second

func tasksOf(ops ...*core.Op) []task {
	var out []task
	for _, op := range ops {
		out = append(out, task{op: op})
	}
	return out
}

func acquire(name string, owner uint64) *core.Op {
	return &core.Op{Kind: core.KindAcquire, Name: name, Lease: lease, Owner: owner}
}

func release(name string, owners ...uint64) *core.Op {
	return &core.Op{Kind: core.KindRelease, Name: name, Others: owners}
}

// sent writes what a batch would send, a line a command.
func sent(b *batch) []string {
	var out []string
	for _, c := range b.commands {
		out = append(out, fmt.Sprintf("%s%v%v", c.script.name, c.keys, c.args))
	}
	return out
}

func batchOf(tasks []task) *batch {
	b := newBatch(&identity{uuid: "u"})
	b.tasks = tasks
	b.build(0)
	return b
}

func TestTheOrdinaryShareACommand(t *testing.T) {
	fenced, known := acquire("f", 7), acquire("k", 8)
	fenced.Tokens, known.Others = 1, []uint64{9}
	longer := acquire("l", 10)
	longer.Lease = 2 * lease
	b := batchOf(append(tasksOf(
		acquire("a", 1), release("r", 2), fenced, acquire("b", 3), release("s", 4), known, release("t", 5, 6), longer, acquire("c", 11),
		&core.Op{Kind: core.KindTransfer, Name: "x", Lease: lease, Owner: 12, Others: []uint64{13}},
	), task{renewal: &core.Renewal{Lease: lease, Entries: []core.RenewalEntry{{Name: "n", Owner: 14}}}}))
	require.Equal(t, []string{
		"acquire_many[a b][1000 u:1 u:3]",
		"release_many[r redisson_lock__channel:{r} s redisson_lock__channel:{s}][u:2 u:4]",
		"acquire[f redisson_lock_token:{f}][1000 1 u:7]",
		"acquire[k][1000 0 u:8 u:9]",
		"release[t redisson_lock__channel:{t}][u:5 u:6]",
		"acquire[l][2000 0 u:10]",
		"acquire[c][1000 0 u:11]",
		"transfer[x redisson_lock__channel:{x}][1000 0 u:12 u:13]",
		"renew[n][1000 u:14]",
	}, sent(b))

	require.Equal(t, []string{"acquire[a][1000 0 u:1]", "release[b redisson_lock__channel:{b}][u:2]"},
		sent(batchOf(tasksOf(acquire("a", 1), release("b", 2)))), "what is alone is sent as it is")
}

func TestASharedCommandHasABound(t *testing.T) {
	var ops []*core.Op
	for i := range 2*maxShared + 1 {
		ops = append(ops, acquire(fmt.Sprint(i), uint64(i)))
	}
	b := batchOf(tasksOf(ops...))
	require.Len(t, b.commands, 3)
	for i, keys := range []int{maxShared, maxShared, 1} {
		require.Len(t, b.commands[i].keys, keys)
	}
	require.Equal(t, "acquire", b.commands[2].script.name)
}

// Each task gets its own answer, whatever it shared a command with, and the
// memory of the batch before does not show.
func TestAnswersFindTheirTasks(t *testing.T) {
	b := newBatch(&identity{uuid: "u"})
	for range 2 {
		b.tasks = tasksOf(acquire("a", 1), release("r", 2), acquire("b", 3), release("t", 5, 6), release("s", 4), acquire("c", 7))
		b.build(5)
		require.Len(t, b.commands, 3)
		refused := errors.New("refused")
		b.answers[0] = answer{kind: answerArray, array: []answer{{}, {kind: answerInt, n: 7}, {kind: answerError, ran: core.No, err: refused}}}
		b.answers[1] = answer{kind: answerArray, array: []answer{{kind: answerInt, n: 1}, {}}}
		b.answers[2] = answer{kind: answerInt, n: 9}
		require.False(t, b.split(), "one lock that fails is not the command that failed")
		var got []core.Reply
		for i, task := range b.tasks {
			a := b.answer(i)
			got = append(got, a.reply(task.op))
		}
		require.True(t, got[0].OK)
		require.Equal(t, 7*time.Millisecond, got[2].TTL)
		require.Equal(t, refused, got[5].Err)
		require.Equal(t, []int64{1, 9, 0}, []int64{got[1].Subscribers, got[3].Subscribers, got[4].Subscribers})
		require.False(t, got[4].OK)
		for _, task := range b.tasks {
			require.Equal(t, time.Duration(5), task.op.Sent)
		}
		b.clear()
	}
}

// What the server refused to run as a whole is tried one by one; what may have
// run is not.
func TestARefusedCommandIsSplit(t *testing.T) {
	b := batchOf(tasksOf(acquire("a", 1), release("r", 2), acquire("b", 3), release("s", 4), acquire("c", 5)))
	denied, cut := error(&ServerError{Kind: ErrPermission, Err: errors.New("NOPERM")}), error(&ServerError{Kind: ErrPermission, Err: errors.New("ACL failure in script")})
	b.answers[0] = answer{kind: answerError, ran: core.No, err: denied}
	b.answers[1] = answer{kind: answerError, ran: core.Maybe, err: cut}
	require.True(t, b.split())
	require.Equal(t, []string{"acquire[a][1000 0 u:1]", "acquire[b][1000 0 u:3]", "acquire[c][1000 0 u:5]"}, sent(b)[2:])
	b.answers[3] = answer{kind: answerError, ran: core.No, err: denied}
	for i, want := range []error{nil, cut, denied, cut, nil} {
		require.Equal(t, want, b.answer(i).err, "task %d", i)
	}
	require.False(t, b.split(), "only once")
}

func renewal(names ...string) *core.Renewal {
	r := &core.Renewal{Lease: lease}
	for i, name := range names {
		r.Entries = append(r.Entries, core.RenewalEntry{Name: name, Owner: uint64(i)})
	}
	return r
}

// A renewal that was refused as a whole is tried for each lease, so that a
// forbidden name costs no other its lease.
func TestARefusedRenewalIsSplit(t *testing.T) {
	r, fine := renewal("a", "b", "c"), renewal("d", "e")
	b := batchOf([]task{{renewal: r}, {op: acquire("x", 9)}, {renewal: fine}})
	denied := error(&ServerError{Kind: ErrPermission, Err: errors.New("NOPERM")})
	b.answers[0] = answer{kind: answerError, ran: core.No, err: denied}
	b.answers[2] = answer{kind: answerArray}
	require.True(t, b.split())
	require.Equal(t, []string{"renew[a][1000 u:0]", "renew[b][1000 u:1]", "renew[c][1000 u:2]"}, sent(b)[3:])
	b.answers[3] = answer{kind: answerArray}
	b.answers[4] = answer{kind: answerError, ran: core.No, err: denied}
	b.answers[5] = answer{kind: answerArray, array: []answer{{kind: answerInt, n: 1}}}
	require.False(t, b.split(), "only once")
	require.Same(t, r, b.renewed(0).Renewal)
	require.Equal(t, core.Yes, r.Entries[0].Ran)
	require.NoError(t, r.Entries[0].Err)
	require.Equal(t, core.No, r.Entries[1].Ran)
	require.Equal(t, denied, r.Entries[1].Err)
	require.True(t, r.Entries[2].Lost)
	b.renewed(2)
	for _, e := range fine.Entries {
		require.Equal(t, core.Yes, e.Ran)
		require.NoError(t, e.Err)
	}
}

// Once a server has refused a script because of its slots, no two locks share
// one.
func TestLocksOfAClusterShareNothing(t *testing.T) {
	b := batchOf(tasksOf(acquire("a", 1), acquire("b", 2), release("r", 3), release("s", 4)))
	const text = "CROSSSLOT Keys in request don't hash to the same slot"
	ran, final, err := readServerError(errors.New(text), text)
	require.Equal(t, core.No, ran)
	require.ErrorIs(t, err, ErrTopology)
	for i := range b.answers {
		b.answers[i] = answer{kind: answerError, ran: ran, final: final, err: err}
	}
	require.True(t, b.split())
	require.Len(t, b.commands, 6)
	b.clear()
	many := make([]string, 5*maxBatch)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	b.tasks = append(tasksOf(acquire("a", 1), acquire("b", 2), release("r", 3), release("s", 4)), task{renewal: renewal(many...)}, task{op: acquire("c", 5)})
	b.build(0)
	require.Equal(t, []string{
		"acquire[a][1000 0 u:1]", "acquire[b][1000 0 u:2]",
		"release[r redisson_lock__channel:{r}][u:3]", "release[s redisson_lock__channel:{s}][u:4]",
		"renew[0][1000 u:0]",
	}, sent(b)[:5])
	require.Len(t, b.answers, 5+len(many))
	require.Equal(t, "acquire[c][1000 0 u:5]", sent(b)[4+len(many)])
	require.False(t, b.split(), "nothing is left to be split")
	b.clear()
	require.LessOrEqual(t, cap(b.commands), 4*maxBatch)
}

// With all of a full batch to be sent again there is room for it.
func TestAFullBatchCanBeSplit(t *testing.T) {
	var ops []*core.Op
	for i := range maxBatch {
		ops = append(ops, acquire(fmt.Sprint(i), uint64(i)))
	}
	b := batchOf(tasksOf(ops...))
	for i := range b.answers {
		b.answers[i] = answer{kind: answerError, ran: core.No, err: ErrPermission}
	}
	require.True(t, b.split())
	require.Len(t, b.commands, maxBatch/maxShared+maxBatch)
	require.Len(t, b.answers, len(b.commands))
	b.tasks = b.tasks[:3]
	b.build(0)
	require.Len(t, b.commands, 1)
}

// A reply of another length says nothing about any of its locks.
func TestAnAnswerOutOfStep(t *testing.T) {
	for _, a := range []answer{
		{}, {kind: answerInt, n: 1}, {kind: answerText, text: "OK"},
		{kind: answerArray, array: make([]answer, 1)}, {kind: answerArray, array: make([]answer, 3)},
	} {
		b := batchOf(tasksOf(acquire("a", 1), acquire("b", 2)))
		b.answers[0] = a
		for i := range b.tasks {
			got := b.answer(i)
			require.Equal(t, core.Maybe, got.ran)
			require.ErrorIs(t, got.err, ErrServer)
			r := got.reply(b.tasks[i].op)
			require.False(t, r.OK)
		}
	}
}

// A server that serves nobody is not asked for each lock.
func TestATroubledServerIsNotAskedOneByOne(t *testing.T) {
	b := batchOf(tasksOf(acquire("a", 1), acquire("b", 3)))
	const text = "LOADING Redis is loading the dataset in memory"
	ran, final, err := readServerError(errors.New(text), text)
	b.answers[0] = answer{kind: answerError, ran: ran, final: final, err: err}
	require.False(t, b.split())
}

// The memory of a batch is used again, that of its tasks is theirs.
func TestACallKeepsItsWords(t *testing.T) {
	b := newBatch(&identity{uuid: "u"})
	words := []string{"PEXPIRE", "app:x", "1000"}
	b.tasks = []task{{call: &call{command: command{args: words}}}}
	b.build(0)
	b.clear()
	b.tasks = tasksOf(acquire("a", 1))
	b.build(0)
	require.Equal(t, []string{"PEXPIRE", "app:x", "1000"}, words)
}
