package faultproxy

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each is one frame, as a whole and byte by byte.
var frames = []string{
	"+OK\r\n", "-ERR no\r\n", ":42\r\n", "$0\r\n\r\n", "$3\r\nabc\r\n", "$4\r\n\r\n\r\n\r\n", "$-1\r\n",
	"*0\r\n", "*-1\r\n", "*2\r\n:1\r\n*2\r\n$1\r\nx\r\n_\r\n",
	"_\r\n", "#t\r\n", ",1.5\r\n", "(123456789012345678901\r\n", "!3\r\nERR\r\n", "=5\r\ntxt:x\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n*0\r\n", "~2\r\n:1\r\n~0\r\n",
	">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
	"|1\r\n+ttl\r\n:3\r\n+OK\r\n", "|1\r\n+a\r\n*1\r\n:1\r\n*2\r\n|1\r\n+b\r\n:2\r\n:1\r\n:2\r\n",
	"|1\r\n+x\r\n:1\r\n|1\r\n+y\r\n:1\r\n>2\r\n+subscribe\r\n:1\r\n",
	"*1\r\n" + strings.Repeat("*1\r\n", 200) + ":1\r\n",
}

func split(s *splitter, input []byte, chunk int) (out [][]byte) {
	for len(input) > 0 {
		n := min(chunk, len(input))
		s.write(input[:n])
		input = input[n:]
		for f := s.next(); f != nil; f = s.next() {
			out = append(out, f)
		}
	}
	return out
}

func TestSplitter_CutsFramesWhereTheyEnd(t *testing.T) {
	all := []byte(strings.Join(frames, ""))
	for _, chunk := range []int{1, 2, 3, 7, 100, len(all)} {
		var s splitter
		got := split(&s, all, chunk)
		require.Len(t, got, len(frames))
		for i, f := range frames {
			require.Equal(t, f, string(got[i]))
		}
		require.NoError(t, s.err)
		require.Empty(t, s.rest())
	}
}

func TestSplitter_LeavesWhatIsNoFrame(t *testing.T) {
	for _, bad := range []string{
		"hello\r\n", "+OK\n", "\r\n", "$x\r\n", "$-2\r\n", "$3\r\nabcde", "*-2\r\n", "*1000000000\r\n",
		"$99999999999\r\n", "%x\r\n:1\r\n", "*1\r\nx\r\n", "|1\r\n+a\r\n\x00\r\n",
	} {
		var s splitter
		got := split(&s, []byte("+OK\r\n"+bad+"+later\r\n"), 1)
		require.Len(t, got, 1, "%q", bad)
		require.ErrorIs(t, s.err, errNotRESP, "%q", bad)
		require.Equal(t, bad+"+later\r\n", string(s.rest()))
	}
}

func TestSplitter_ReadsCommands(t *testing.T) {
	s := splitter{inline: true}
	got := split(&s, []byte("*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\nPING  a\r\n\r\n*0\r\n*1\r\n:1\r\n*1\r\n+PING\r\n"), 1)
	require.Len(t, got, 6)
	for i, want := range [][]string{{"GET", "\r\n"}, {"PING", "a"}, {}, nil, nil, {"PING"}} {
		require.Equal(t, want, parseCommand(got[i]), i)
	}
}

func TestSplitter_TellsPushesFromReplies(t *testing.T) {
	for frame, want := range map[string][2]string{ // not subscribed, subscribed
		">2\r\n+invalidate\r\n*0\r\n":                                  {"push invalidate", "push invalidate"},
		"|1\r\n+a\r\n*1\r\n:1\r\n>2\r\n$9\r\nsubscribe\r\n:1\r\n":      {"push subscribe", "push subscribe"},
		"|1\r\n+a\r\n*2\r\n|1\r\n+b\r\n:2\r\n:1\r\n:2\r\n>1\r\n+x\r\n": {"push x", "push x"},
		"|1\r\n+a\r\n*2\r\n|1\r\n+b\r\n:2\r\n:1\r\n:2\r\n:1\r\n":       {"", ""},
		"*3\r\n$7\r\nmessage\r\n+c\r\n+0\r\n":                          {"", "push message"},
		"*3\r\n$11\r\nunsubscribe\r\n+c\r\n:0\r\n":                     {"", "push unsubscribe"},
		"*2\r\n$4\r\npong\r\n$0\r\n\r\n":                               {"", ""},
		"*0\r\n":                                                       {"", ""},
		"$7\r\nmessage\r\n":                                            {"", ""},
	} {
		require.Equal(t, want[0], pushKind([]byte(frame), false), "%q", frame)
		require.Equal(t, want[1], pushKind([]byte(frame), true), "%q", frame)
	}
}

// No byte is lost or made up, where it is cut does not depend on how the bytes come in, and nothing
// that comes makes the reading of commands panic.
func FuzzSplitter(f *testing.F) {
	for _, seed := range frames {
		f.Add([]byte(seed), uint8(3))
	}
	f.Add([]byte("PING\r\n*1\r\n$4\r\nPING\r\n$5\r\nab"), uint8(1))
	f.Add([]byte("|1\n+a\r\n*1\r\n:1\r\n"), uint8('Y'))
	f.Fuzz(func(t *testing.T, input []byte, chunk uint8) {
		for _, inline := range []bool{false, true} {
			whole, parts := splitter{inline: inline}, splitter{inline: inline}
			a := split(&whole, input, len(input)+1)
			b := split(&parts, input, int(chunk)+1)
			if len(a) != len(b) || (whole.err == nil) != (parts.err == nil) {
				t.Fatalf("%d frames (%v) at once, %d (%v) in parts", len(a), whole.err, len(b), parts.err)
			}
			var joined []byte
			for i, frame := range a {
				if !bytes.Equal(frame, b[i]) {
					t.Fatalf("frame %d is %q at once, %q in parts", i, frame, b[i])
				}
				if len(frame) == 0 {
					t.Fatal("an empty frame")
				}
				parseCommand(frame)
				pushKind(frame, true)
				joined = append(joined, frame...)
			}
			if rest := whole.rest(); !bytes.Equal(append(joined, rest...), input) {
				t.Fatalf("%q became %q and %q", input, joined, rest)
			}
			if whole.next() != nil {
				t.Fatal("a frame of nothing")
			}
		}
	})
}
