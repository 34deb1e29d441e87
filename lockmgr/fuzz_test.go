package lockmgr

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/lockmgr/internal/core"
)

// Targets for native fuzzing. Their seeds run with the tests; to look further:
//
//	go test ./lockmgr -run XXX -fuzz FuzzTwoNamesShareNoKey -fuzztime 60s

// FuzzTwoNamesShareNoKey: of two names that are accepted, neither's key is
// anything of the other's, a channel is never a token key, and what stands
// beside a lock is in the slot of its key. Channel and counter are shared by
// one pair only, x and {x}, which Redisson composes alike: there a message
// wakes both and tokens skip numbers, but no lock is mistaken for the other.
func FuzzTwoNamesShareNoKey(f *testing.F) {
	for _, pair := range [][2]string{
		{"a", "b"}, {"a", "a"}, {"", "a"}, {"x", "{x}"}, {"{x}", "{{x}}"}, {"a{t}b", "t"}, {"{a}b}", "a}b"},
		{"a{b", "a{b}"}, {"{}a", "a"}, {"a}b", "b"}, {"{}", "{}{x}"}, {"x}{", "x"},
		{"redisson_lock_token:{a}", "a"}, {"redisson_lock__channel:{a}", "a"}, {"redisson", "redisson_"},
		{"redisson_lock_token:a", "a"}, {"redisson_lock:orders", "orders"}, {"redisson_lock_queue:{a}", "a"},
		{"redisson_lock_timeout:x{a}", "x{a}"}, {"redisson_rwlock:{a}", "a"}, {"redisson_unlock_latch:{a}:0f", "a"},
		{"{a}:u:1:rwlock_timeout:2", "a"}, {":{a}", "a"}, {"_token:{a}", "a"}, {"\x00", "\xff"}, {"a ", "a"}, {"é", "e\u0301"},
		{strings.Repeat("x", MaxNameBytes), strings.Repeat("x", MaxNameBytes-1)},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{a, b} {
			if checkName(name) != nil {
				return
			}
			channel, counter := channelOf(name), tokenKeyOf(name)
			require.NotEqual(t, channel, counter)
			require.Equal(t, slotOf(name), slotOf(channel), "%q and its channel %q", name, channel)
			require.Equal(t, slotOf(name), slotOf(counter), "%q and its counter %q", name, counter)
		}
		require.NotContains(t, besideOf(b), a)
		require.NotContains(t, besideOf(a), b)
		require.NotEqual(t, channelOf(a), tokenKeyOf(b))
		require.NotEqual(t, channelOf(b), tokenKeyOf(a))
		if shared := a == b || a == "{"+b+"}" || b == "{"+a+"}"; !shared {
			require.NotEqual(t, channelOf(a), channelOf(b))
			require.NotEqual(t, tokenKeyOf(a), tokenKeyOf(b))
		}
	})
}

// besideOf lists what Redisson keeps beside a lock of whatever kind. It is
// written without regard to how names.go does it.
func besideOf(name string) (keys []string) {
	inBraces := name
	if !strings.Contains(name, "{") {
		inBraces = "{" + name + "}"
	}
	for _, what := range []string{"lock__channel", "lock_token", "lock_queue", "lock_timeout", "rwlock", "unlock_latch"} {
		keys = append(keys, "redisson_"+what+":"+inBraces)
	}
	return append(keys,
		"redisson_unlock_latch:"+inBraces+":00112233445566778899aabbccddeeff",
		"redisson_lock__channel:"+inBraces+":c9b5bf3a:17",
		inBraces+":c9b5bf3a:17:rwlock_timeout:1",
	)
}

// Names are refused for a reason only: see checkName.
func TestNamesThatAreFine(t *testing.T) {
	for _, name := range []string{
		"redisson", "redisson_", "redisson_lock:orders", "redisson_lock:{orders}", "redisson_lock_token", "redisson_lock_token:orders",
		"redisson_lock__channel:orders", "redisson_lock_tokens:{a}", "my:redisson_lock_token:{a}", "x{t}y", "{x}", "{x}:timeout",
		"a:rwlock_timeout:1", "{a}:rwlock_timeout:", "{a}:rwlock_timeout:x", strings.Repeat("x", 513), strings.Repeat("x", MaxNameBytes),
	} {
		require.NoErrorf(t, checkName(name), "%.100q", name)
	}
	for _, name := range []string{"a", "x{t}y", "{x}", "redisson_lock:orders"} {
		for _, key := range besideOf(name) {
			require.ErrorIs(t, checkName(key), ErrInvalidName, "%q", key)
		}
	}
	for _, name := range []string{"", "{}", "a{b", "a}b", "{}a", "{a", "}{", "}a", "redisson_lock_token:{}", strings.Repeat("x", MaxNameBytes+1)} {
		require.ErrorIsf(t, checkName(name), ErrInvalidName, "%.100q", name)
	}
}

// slotOf is a key's slot as the cluster specification has it: CRC-16/XMODEM of
// the key, or of what is between the first "{" and the first "}" after it if
// that is not empty. It is written without regard to how names.go does it.
func slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}

func TestSlotsAreThoseOfTheSpecification(t *testing.T) {
	for key, slot := range map[string]uint16{"123456789": 12739, "foo": 12182, "{foo}bar": 12182, "foo{bar}{zap}": 5061} {
		require.Equal(t, slot, slotOf(key), key)
	}
}

// FuzzLeasesAreRoundedUp: a record never ends before the lease that was asked
// for, nor a millisecond after it.
func FuzzLeasesAreRoundedUp(f *testing.F) {
	for _, d := range []time.Duration{MinLease, MinLease + 1, 30 * time.Second, 30*time.Second - 1, 10500 * time.Microsecond, MaxLease, MaxLease - 1} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		if d < MinLease || d > MaxLease {
			return
		}
		ms, err := strconv.ParseInt(millis(d), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Duration(ms)*time.Millisecond, d)
		require.Less(t, time.Duration(ms-1)*time.Millisecond, d)
	})
}

// A builder makes replies of any shape out of bytes, as the client hands them
// over: a text is set for texts only, items for arrays only.
type builder struct{ rest []byte }

func (b *builder) next() byte {
	if len(b.rest) == 0 {
		return 0
	}
	c := b.rest[0]
	b.rest = b.rest[1:]
	return c
}

// number prefers what is near a limit.
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

func (b *builder) reply(depth int) answer {
	switch kind := b.next() % 6; {
	case kind == 0:
		return answer{}
	case kind == 1:
		return answer{kind: answerInt, n: b.number()}
	case kind == 2:
		return answer{kind: answerText, text: b.text()}
	case kind <= 4 && depth < 4:
		a := answer{kind: answerArray, array: []answer{}}
		for range b.next() % 8 {
			a.array = append(a.array, b.reply(depth+1))
		}
		return a
	default:
		text := b.text()
		ran, final, err := readServerError(textError(text), text)
		return answer{kind: answerError, ran: ran, final: final, err: err}
	}
}

// FuzzOnlyAGrantIsAGrant gives replies of any shape to every question. What
// holds for a single one of them: OK if and only if it has the shape that the
// script's header gives for success; a refusal if and only if it has that of a
// refusal; and of everything else it is unknown whether the script ran, with
// an error of a known kind.
func FuzzOnlyAGrantIsAGrant(f *testing.F) {
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
		for _, kind := range []core.Kind{core.KindAcquire, core.KindTransfer, core.KindRelease} {
			for _, tokens := range []int64{0, 1, 5} {
				if kind != core.KindRelease || tokens == 0 {
					checkReply(t, &a, &core.Op{ID: 7, Name: "a", Kind: kind, Tokens: tokens})
				}
			}
		}
		for n := range 4 {
			checkRenewed(t, &a, &core.Renewal{Entries: make([]core.RenewalEntry, n)})
		}
	})
}

func checkReply(t *testing.T, a *answer, op *core.Op) {
	r := a.reply(op)
	require.Same(t, op, r.Op)
	require.Equal(t, op.ID, r.ID)

	token := func(a answer) bool {
		n, err := strconv.ParseInt(a.text, 10, 64)
		return a.kind == answerText && err == nil && n > 0
	}
	elsewhere := a.kind == answerArray && len(a.array) == 1 && a.array[0].kind == answerInt
	var granted, refused bool
	switch {
	case op.Kind == core.KindAcquire && op.Tokens == 0:
		granted, refused = a.kind == answerNil, a.kind == answerInt || elsewhere
	case op.Kind == core.KindAcquire:
		granted, refused = token(*a), a.kind == answerInt || elsewhere
	case op.Kind == core.KindTransfer && op.Tokens == 0:
		granted, refused = a.kind == answerInt, a.kind == answerNil
	case op.Kind == core.KindTransfer:
		granted = a.kind == answerArray && len(a.array) == 2 && a.array[0].kind == answerInt && token(a.array[1])
		refused = a.kind == answerNil
	default:
		granted, refused = a.kind == answerInt || a.kind == answerText, a.kind == answerNil
	}
	if op.Kind != core.KindAcquire && op.Tokens == 0 && a.kind == answerError && errors.Is(a.err, ErrWrongType) {
		refused = true // what is at the key is not ours
	}
	require.Equal(t, granted, r.OK, "%+v", a)
	require.Equal(t, granted || refused, r.Ran == core.Yes, "%+v", a)
	require.Equal(t, granted && op.Tokens > 0, r.Token > 0, "%+v", a)
	if !granted && !refused {
		requireTyped(t, r.Err)
		require.True(t, a.kind == answerError || r.Ran == core.Maybe && r.Final, "%+v", a)
	}
}

func checkRenewed(t *testing.T, a *answer, batch *core.Renewal) {
	ev := a.renewed(batch)
	require.Same(t, batch, ev.Renewal)
	good := a.kind == answerArray
	last := 0
	exceptions := map[int]string{}
	for _, x := range a.array {
		n, text, ok := x.exception()
		good = good && ok && n > last && n <= len(batch.Entries)
		last = n
		exceptions[n-1] = text
	}
	for i, e := range batch.Entries {
		text, exception := exceptions[i]
		switch {
		case !good:
			require.NotEqual(t, core.Yes, e.Ran, "%+v", a)
			require.False(t, e.Lost, "a reply that is not understood loses nothing")
			requireTyped(t, e.Err)
		case exception && text != "":
			require.NotEqual(t, core.Yes, e.Ran, "%+v", a)
			require.False(t, e.Lost)
			requireTyped(t, e.Err)
		default:
			require.Equal(t, core.Yes, e.Ran, "%+v", a)
			require.Equal(t, exception, e.Lost)
			require.NoError(t, e.Err)
		}
	}
}

// requireTyped checks that users can tell what kind of error they have, and
// that it can be printed.
func requireTyped(t *testing.T, err error) *ServerError {
	var e *ServerError
	require.ErrorAs(t, err, &e)
	require.Contains(t, []error{ErrPermission, ErrWrongType, ErrOutOfMemory, ErrReadOnly, ErrUnavailable, ErrTopology, ErrServer}, e.Kind)
	require.ErrorIs(t, err, e.Kind)
	require.Contains(t, err.Error(), e.Kind.Error())
	return e
}

// FuzzErrorTextsAreTyped: whatever a server says instead of an answer becomes
// an error of a known kind that has its words, and the command counts as "did
// not run" only for the words that servers say before they run anything. It
// never counts as done.
func FuzzErrorTextsAreTyped(f *testing.F) {
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
		ran, final, err := readServerError(said, text)
		e := requireTyped(t, err)
		require.ErrorIs(t, err, said)
		require.Contains(t, err.Error(), text)
		require.NotEqual(t, core.Yes, ran)
		word, _, _ := strings.Cut(text, " ")
		known := false
		for _, w := range neverRan {
			known = known || w == word
		}
		deniedAsAWhole := word == "NOPERM" && !strings.Contains(text, "script")
		require.Equal(t, known || deniedAsAWhole, ran == core.No, "%q", text)
		if e.Kind == ErrServer {
			require.True(t, final, "what is not understood is not repeated at once")
		}
	})
}
