package wire

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Targets for native fuzzing. Their seeds run with the tests; to look further:
//
//	go test ./lockmgr/internal/wire -run '^$' -fuzz FuzzAnswer_OnlyAGrantIsAGrant -fuzztime 60s

// FuzzLease_IsRoundedUp checks that a record never ends before the lease that was asked for, nor a
// millisecond or more after it.
func FuzzLease_IsRoundedUp(f *testing.F) {
	const longest = 100 * 365 * 24 * time.Hour
	for _, d := range []time.Duration{10 * time.Millisecond, 10*time.Millisecond + 1, 30 * time.Second, 30*time.Second - 1, 10500 * time.Microsecond, longest, longest - 1} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		if d < time.Millisecond || d > longest {
			return
		}
		ms, err := strconv.ParseInt(millis(d), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Duration(ms)*time.Millisecond, d)
		require.Less(t, time.Duration(ms-1)*time.Millisecond, d)
	})
}

// A builder makes replies of any shape from bytes, as the client returns them: only a text has a
// Text, and only an array has items.
type builder struct{ rest []byte }

func (b *builder) next() byte {
	if len(b.rest) == 0 {
		return 0
	}
	c := b.rest[0]
	b.rest = b.rest[1:]
	return c
}

// number returns a number that is likely to be near a limit of its type.
func (b *builder) number() int64 {
	switch c := b.next(); {
	case c < 200:
		return int64(int8(c))
	case c < 220:
		return int64(c) << 56
	case c < 240:
		return 1<<63 - 1 - int64(c-220)
	default:
		return -1<<63 + int64(c-240)
	}
}

func (b *builder) text() string {
	n := min(int(b.next()), len(b.rest))
	s := string(b.rest[:n])
	b.rest = b.rest[n:]
	return s
}

func (b *builder) reply(depth int) Answer {
	switch kind := b.next() % 6; {
	case kind == 0:
		return Answer{}
	case kind == 1:
		return Answer{Kind: Int, Int: b.number()}
	case kind == 2:
		return Answer{Kind: Text, Text: b.text()}
	case kind <= 4 && depth < 4:
		a := Answer{Kind: Array, Array: []Answer{}}
		for range b.next() % 8 {
			a.Array = append(a.Array, b.reply(depth+1))
		}
		return a
	default:
		text := b.text()
		return serverFailure(textError(text), text).Answer()
	}
}

// FuzzAnswer_OnlyAGrantIsAGrant decodes replies of any shape for every verb. A reply must count as
// a success if and only if it has the shape that the script's header gives for success, and
// likewise for a refusal. Any other reply must have an error of a known kind, and must not say that
// the script ran.
func FuzzAnswer_OnlyAGrantIsAGrant(f *testing.F) {
	for _, seed := range []string{
		"", "\x01\x05", "\x01\xff", "\x02\x017", "\x02\x010", "\x02\x02-5", "\x02\x041e10", "\x02\x1499999999999999999999",
		"\x03\x00", "\x03\x02\x01\x00\x02\x017", "\x03\x02\x01\x00\x02\x010", "\x03\x02\x01\x00\x00", "\x03\x03\x01\x01\x01\x02\x01\x03",
		"\x03\x02\x02\x010\x02\x015", "\x03\x01\x03\x01\x03\x00", "\x03\x01\x01\x80", "\x03\x02\x01\x02\x01\x01", "\x03\x02\x01\x02\x01\x02",
		"\x05\x09WRONGTYPE", "\x05\x0aWRONGTYPE ", "\x05\x06NOPERM", "\x05\x00", "\x02\x06NOPERM", "\x05\x08OK grant",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &builder{data}
		a := b.reply(0)
		for _, verb := range []core.Verb{core.VerbAcquire, core.VerbTransfer, core.VerbRelease} {
			for _, tokens := range []int64{0, 1, 5} {
				if verb != core.VerbRelease || tokens == 0 {
					checkReply(t, &a, &core.Op{ID: 7, Name: "a", Verb: verb, Tokens: tokens})
				}
			}
		}
		for n := range 4 {
			checkRenewed(t, &a, n)
		}
	})
}

func checkReply(t *testing.T, a *Answer, op *core.Op) {
	r := Decode(op, a, fail)
	require.Same(t, op, r.Op)
	require.Equal(t, op.ID, r.ID)

	token := func(a Answer) bool {
		n, err := strconv.ParseInt(a.Text, 10, 64)
		return a.Kind == Text && err == nil && n > 0
	}
	elsewhere := a.Kind == Array && len(a.Array) == 1 && a.Array[0].Kind == Int
	var granted, refused bool
	switch {
	case op.Verb == core.VerbAcquire && op.Tokens == 0:
		granted, refused = a.Kind == Nil, a.Kind == Int || elsewhere
	case op.Verb == core.VerbAcquire:
		granted, refused = token(*a), a.Kind == Int || elsewhere
	case op.Verb == core.VerbTransfer && op.Tokens == 0:
		granted, refused = a.Kind == Int, a.Kind == Nil
	case op.Verb == core.VerbTransfer:
		granted = a.Kind == Array && len(a.Array) == 2 && a.Array[0].Kind == Int && token(a.Array[1])
		refused = a.Kind == Nil
	default:
		told := a
		if a.Kind == Array && len(a.Array) == 2 && a.Array[1].Kind == Int { // a manager of the line was told
			told = &a.Array[0]
		}
		granted, refused = told.Kind == Int || told.Kind == Text && strings.Contains(told.Text, " "), a.Kind == Nil // a text is why nobody was told
	}
	if op.Verb != core.VerbAcquire && op.Tokens == 0 && a.Kind == Failed && a.Failure.Kind == WrongType {
		refused = true // the key holds no lock, so not ours
	}
	require.Equal(t, granted, r.OK, "%+v", a)
	require.Equal(t, granted || refused, r.Ran == core.Yes, "%+v", a)
	require.Equal(t, granted && op.Tokens > 0, r.Token > 0, "%+v", a)
	if !granted && !refused {
		var e failureError
		require.ErrorAs(t, r.Err, &e)
		requireTyped(t, e.Failure)
		require.True(t, a.Kind == Failed || r.Ran == core.Maybe && r.Final, "%+v", a)
	}
}

// checkRenewed takes a for the answer to a renewal of n leases.
func checkRenewed(t *testing.T, a *Answer, n int) {
	good := a.Kind == Array
	last := 0
	exceptions := map[int]string{}
	for _, x := range a.Array {
		at, text, ok := x.readException()
		good = good && ok && at > last && at <= n
		last = at
		exceptions[at-1] = text
	}
	for i := range n {
		op := &core.Op{Verb: core.VerbRenew}
		one := exception(a, i, n)
		var r core.Reply
		decode(op, &one, &r, fail)
		text, excepted := exceptions[i]
		switch {
		case !good:
			if one.Failure.Kind != WrongType { // the key holds no lock, so not ours
				require.NotEqual(t, core.Yes, r.Ran, "%+v", a)
			}
			require.False(t, r.OK)
		case excepted && text != "":
			require.False(t, r.OK)
			requireTyped(t, one.Failure)
		default:
			require.Equal(t, core.Yes, r.Ran, "%+v", a)
			require.Equal(t, !excepted, r.OK)
			require.NoError(t, r.Err)
		}
	}
}

// requireTyped checks that a failure is of a known kind, has an error and does not claim that the
// command ran.
func requireTyped(t *testing.T, f *Failure) {
	require.NotNil(t, f)
	require.LessOrEqual(t, f.Kind, Topology)
	require.Error(t, f.Err)
	require.NotEqual(t, core.Yes, f.Ran)
}

// FuzzError_TextsAreTyped checks that each error text of a server becomes a failure of a known kind
// with that text. The command counts as "did not run" only for the words that servers send before
// they write anything. It never counts as done.
func FuzzError_TextsAreTyped(f *testing.F) {
	for word := range serverCodes {
		f.Add(word)
		f.Add(word + " some text")
		f.Add(word + " some text script: f00, on @user_script:1.")
		f.Add(strings.ToLower(word) + " some text")
		f.Add("ERR " + word)
	}
	for _, text := range []string{
		"", " ", "ERR", "ERR unknown command 'EVALSHA'", "NOSCRIPT No matching script.", "MOVED 1 127.0.0.1:1", "ASK 1 :0",
		"ERR ACL failure in script: User locker has no permissions to run the 'hset' command script: f00",
		"ERR The user executing the script can't run this command or subcommand",
		"NOPERM User locker has no permissions to run the 'evalsha' command", "EXECABORT", "\x00", "\r\n-OK", "OOM", "NOPERMscript",
	} {
		f.Add(text)
	}
	neverRan := strings.Fields("NOAUTH WRONGPASS WRONGTYPE OOM READONLY MISCONF NOREPLICAS LOADING BUSY MASTERDOWN CLUSTERDOWN TRYAGAIN CROSSSLOT MOVED ASK")
	f.Fuzz(func(t *testing.T, text string) {
		said := textError(text)
		e := serverFailure(said, text)
		requireTyped(t, e)
		require.Equal(t, said, e.Err)
		word, _, _ := strings.Cut(text, " ")
		known := false
		for _, w := range neverRan {
			known = known || w == word
		}
		deniedAsAWhole := word == "NOPERM" && !strings.Contains(text, "script")
		require.Equal(t, known || deniedAsAWhole, e.Ran == core.No, "%q", text)
		if e.Kind == Unknown {
			require.True(t, e.Final, "an unknown error is not retried soon")
		}
	})
}
