package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/resp"
	lua "github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// shapes makes replies of bytes: any bytes make one, and it is well-formed. (On one that is not,
// the client gives up its connection, or panics: that is beyond what a lock manager can do about
// it.)
type shapes struct{ data []byte }

func (s *shapes) next() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *shapes) text() string {
	n := min(int(s.next()%32), len(s.data))
	b := s.data[:n]
	s.data = s.data[n:]
	return string(b)
}

func (s *shapes) line() string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s.text()) }

var errorCodes = []string{
	"", "ERR", "NOSCRIPT", "NOPERM", "WRONGTYPE", "OOM", "READONLY", "LOADING", "BUSY", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1",
	"NOAUTH", "MISCONF", "UNKILLABLE", "ERR ACL failure in script:", "TRYAGAIN",
}

func (s *shapes) integer() int64 {
	some := []int64{0, 1, -1, -2, 2, 30000, 1 << 53, -1 << 63, 1<<63 - 1, 18446744073710, 9223372036855}
	if i := int(s.next()); i < 200 {
		return some[i%len(some)]
	}
	var b [8]byte
	copy(b[:], s.text())
	return int64(binary.LittleEndian.Uint64(b[:]))
}

func (s *shapes) reply(depth int) string {
	many := func(head string, each int) string {
		n := int(s.next() % 4)
		out := fmt.Sprintf("%s%d\r\n", head, n)
		for range n * each {
			out += s.reply(depth + 1)
		}
		return out
	}
	bulk := func(head, text string) string { return fmt.Sprintf("%s%d\r\n%s\r\n", head, len(text), text) }
	kind := s.next() % 16
	if depth > 4 {
		kind %= 12
	}
	switch kind {
	case 1:
		return "$-1\r\n"
	case 2:
		return "*-1\r\n"
	case 3:
		return fmt.Sprintf(":%d\r\n", s.integer())
	case 4:
		return "+" + s.line() + "\r\n"
	case 5:
		return bulk("$", s.text())
	case 6:
		return "-" + strings.TrimSpace(errorCodes[s.next()%16]+" "+s.line()) + "\r\n"
	case 7:
		return "," + []string{"0", "1.5", "-inf", "nan", "1e400"}[s.next()%5] + "\r\n"
	case 8:
		return "#" + []string{"t", "f"}[s.next()%2] + "\r\n"
	case 9:
		return "(" + strconv.FormatInt(s.integer(), 10) + "00000000000000000000\r\n"
	case 10:
		return bulk("=", "txt:"+s.text())
	case 11:
		return bulk("!", errorCodes[s.next()%16]+" "+s.text())
	case 12:
		return many("*", 1)
	case 13:
		return many("%", 2)
	case 14:
		return many("~", 1)
	case 15:
		return many("|", 2) + s.reply(depth+1)
	}
	return "_\r\n"
}

// grants tells whether a reply to acquire says that the lock is ours.
func grants(reply string, fenced bool) bool {
	if reply[0] == '|' {
		return true // it may: the value is behind attributes of any shape
	}
	if !fenced {
		return reply == "_\r\n" || reply == "$-1\r\n" || reply == "*-1\r\n"
	}
	text := ""
	switch reply[0] {
	case '+':
		text = reply[1 : len(reply)-2]
	case '$', '=':
		_, text, _ = strings.Cut(reply, "\r\n")
		text = strings.TrimSuffix(text, "\r\n")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > 0
}

// Whatever a server answers: nobody holds what was not granted, everything ends, errors are of a
// kind that can be matched, and nothing panics. Lies are told of one script, a few times; then the
// server is honest. All in fake time.
func FuzzReplies(f *testing.F) {
	texts := map[string]string{}
	for _, kind := range scripts {
		texts[kind] = lua.Text(kind)
	}
	for kind := range byte(8) { // each script, fenced or not
		for shape := range byte(16) {
			f.Add([]byte{kind | (1+shape%7)<<3, shape, 3, 8, 3, 10, 4, 1, '7', 9, 5, 2, 7})
		}
	}
	for kind := range byte(8) { // a number as text, where one is expected and where not
		f.Add([]byte{kind | 1<<3, 4, 1, '7'})
		f.Add([]byte{kind | 2<<3, 5, 1, '7', 5, 1, '7'})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 {
			return
		}
		synctest.Test(t, func(t *testing.T) { lie(t, texts, data) })
	})
}

func lie(t *testing.T, texts map[string]string, data []byte) {
	script, fenced, times := scripts[data[0]&3], data[0]&4 != 0, int(data[0]>>3&7)
	lies := &shapes{data: data[1:]}
	granted, calls, token := false, 0, 0
	p := newPeer(texts, func(kind string, args []string) string {
		calls++
		withToken := strings.Contains(strings.Join(args, " "), "redisson_lock_token")
		if kind == script && times > 0 {
			times--
			reply := lies.reply(0)
			granted = granted || kind == "acquire" && grants(reply, withToken)
			return reply
		}
		switch kind {
		case "acquire":
			granted = true
			if withToken {
				token += 100
				return string(resp.Append(nil, strconv.Itoa(token)))
			}
			return "_\r\n"
		case "transfer":
			if withToken {
				token += 100
				return string(resp.Append(nil, []any{int64(0), strconv.Itoa(token)}))
			}
		case "renew":
			return "*0\r\n"
		}
		return ":0\r\n"
	})
	m, err := lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{"peer:0"}, DialCtxFn: p.dial}, lockmgr.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var opts []lockmgr.LockOption
	if fenced {
		opts = append(opts, lockmgr.Fenced())
	}
	first, second := m.LockAsync("a", opts...), m.LockAsync("a", opts...)
	for _, f := range []interface {
		Await(context.Context) (*lockmgr.Lock, error)
	}{first, second} {
		l, err := f.Await(limit)
		if limit.Err() != nil {
			t.Fatalf("no end to it: %q", data)
		}
		if err != nil {
			requireTyped(t, err)
			continue
		}
		p.mu.Lock()
		if !granted {
			t.Errorf("a lock that nobody granted: %q", data)
		}
		p.mu.Unlock()
		if fenced && l.Token() <= 0 {
			t.Errorf("a fenced lock with the token %d", l.Token())
		}
		time.Sleep(11 * time.Second) // renewed once
		if l.Remaining() > 30*time.Second {
			t.Errorf("a lease of 30 s has %v left", l.Remaining())
		}
		requireTyped(t, l.Unlock(limit))
		if l.Valid() {
			t.Error("valid after Unlock")
		}
	}
	requireTyped(t, m.Close(limit))
	if calls > 2000 {
		t.Fatalf("%d scripts for two locks: %q", calls, data)
	}
}
