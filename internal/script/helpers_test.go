package script_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/leakcheck"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/script"
)

func TestMain(m *testing.M) {
	redistest.Parallel(8)
	leakcheck.Main(m)
}

// A wire is a client's connection to a server.
type wire struct{ *resp.Conn }

func dialWire(t testing.TB, addr string) *wire {
	t.Helper()
	c := redistest.Must(resp.Dial(addr, time.Minute))(t) // no test may hang on it
	t.Cleanup(c.Close)
	return &wire{c}
}

// do sends a command and returns its reply.
func (w *wire) do(t testing.TB, args ...string) any {
	t.Helper()
	return redistest.Must(w.Do(args...))(t)
}

// all sends commands at once and returns their replies.
func (w *wire) all(t testing.TB, commands ...[]string) []any {
	t.Helper()
	for _, c := range commands {
		w.Send(c...)
	}
	require.NoError(t, w.Flush())
	replies := make([]any, len(commands))
	for i := range replies {
		replies[i] = redistest.Must(w.Receive())(t)
	}
	return replies
}

// A scriptServer is a server on which tests run scripts without a manager. The clock of miniredis
// stands still. On a real server TTLs are rounded up to a multiple of grain. Tests use only such
// TTLs, and take less time than grain.
type scriptServer struct {
	*wire
	addr  string
	grain int64 // ms
	full  bool  // scripts that renew, look or end a hold run while the server is out of memory
}

func realScripts(t testing.TB) *scriptServer {
	return scriptsOf(t, redistest.Start(t).Unrestricted()) // tests run EVAL and change data
}

// scriptsOf returns a server on which a test runs scripts.
func scriptsOf(t testing.TB, s *redistest.Server) *scriptServer {
	return &scriptServer{wire: dialWire(t, s.Addr()), addr: s.Addr(), grain: 10_000}
}

func miniScripts(t testing.TB) *scriptServer {
	m := miniredis.RunT(t)
	m.SetTime(time.Now()) // TIME stands still, too
	return &scriptServer{wire: dialWire(t, m.Addr()), addr: m.Addr(), grain: 1}
}

// onBoth runs a test on a real server, on one that is full, and on miniredis.
func onBoth(t *testing.T, test func(t *testing.T, s *scriptServer)) {
	onReal(t, test)
	t.Run("mini", func(t *testing.T) {
		t.Parallel()
		test(t, miniScripts(t))
	})
}

// onReal is for what miniredis does not have, like INFO replication.
func onReal(t *testing.T, test func(t *testing.T, s *scriptServer)) {
	for name, full := range map[string]bool{"real": false, "full": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := realScripts(t)
			s.full = full
			test(t, s)
		})
	}
}

// scripts returns the text of each script by its name.
var scripts = sync.OnceValue(func() map[string]string {
	out := make(map[string]string)
	for _, name := range script.Names() {
		out[name] = script.Text(name)
	}
	return out
})

// eval runs a script over w, which may be another user's connection, and returns its reply as text.
func (s *scriptServer) eval(t testing.TB, w *wire, script string, keys, args []string) string {
	t.Helper()
	return s.show(s.evalRaw(t, w, script, keys, args))
}

func (s *scriptServer) evalRaw(t testing.TB, w *wire, script string, keys, args []string) any {
	t.Helper()
	switch script { // what every test of them gives
	case "acquire":
		args = slices.Insert(slices.Clip(args), 2, "") // no part in the line
	case "release":
		args = append(append([]string{""}, args...), channelName(keys[0]))
	case "force":
		args = append([]string{"000", channelName(keys[0])}, args...)
	case "inspect":
		args = append(slices.Clip(args), channelName(keys[0]), "redisson_rwlock:{"+keys[0]+"}")
	case "reserve":
		args = append(slices.Insert(slices.Clip(args), 2, args[2]+":kept"), channelName(keys[0]))
	case "transfer":
		args = append(slices.Clip(args), channelName(keys[0]))
	case "readwrite_acquire":
		args = slices.Insert(slices.Clip(args), 3, "", "{"+keys[0]+"}")
	case "readwrite_transfer":
		args = append(slices.Clip(args), "{"+keys[0]+"}", "redisson_rwlock:{"+keys[0]+"}")
	case "readwrite_release":
		want := ""
		if args[0] == "force" {
			want, args = args[0], args[1:]
		}
		args = append(append([]string{want, "{" + keys[0] + "}"}, args...), "redisson_rwlock:{"+keys[0]+"}")
	case "release_many":
		owners := args
		args = nil
		for i, key := range keys {
			args = append(args, owners[i], channelName(key))
		}
	}
	return s.run(t, w, script, keys, args)
}

// run is evalRaw with all arguments.
func (s *scriptServer) run(t testing.TB, w *wire, script string, keys, args []string) any {
	t.Helper()
	text := scripts()[script]
	require.NotEmpty(t, text, script)
	if s.full && !regexp.MustCompile("acquire|transfer|limit").MatchString(script) {
		s.fill(t, true)
		defer s.fill(t, false)
	}
	return w.do(t, slices.Concat([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys, args)...)
}

// call runs a script with the keys and the arguments that its header asks for: see callOf and
// permitOpOf.
func (s *scriptServer) call(t testing.TB, w *wire, script, args string) string {
	t.Helper()
	if strings.HasPrefix(script, "permits") {
		return s.runPermits(t, w, script, permitOpOf("p", args))
	}
	keys, words := callOf(script, args)
	return s.eval(t, w, script, keys, words)
}

// fill sets whether the server is out of memory.
func (s *scriptServer) fill(t testing.TB, full bool) {
	t.Helper()
	s.do(t, "CONFIG", "SET", "maxmemory", map[bool]string{true: "1", false: "0"}[full])
}

// channelName returns the channel of a plain lock.
func channelName(name string) string {
	if strings.Contains(name, "{") {
		return "redisson_lock__channel:" + name
	}
	return "redisson_lock__channel:{" + name + "}"
}

// show prints a reply: nil, 1, "text", [1 "text"], !ERROR.
func (s *scriptServer) show(reply any) string {
	switch v := reply.(type) {
	case nil:
		return "nil"
	case int64:
		return strconv.FormatInt(s.round(v), 10)
	case string:
		return strconv.Quote(v)
	case resp.Error:
		return "!" + string(v)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = s.show(v[i])
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return fmt.Sprintf("%T", reply)
}

// round rounds a TTL up, to make up for the time since it was set. A little too much is rounded
// down: a script that moves a deadline by the age of another one adds some milliseconds.
func (s *scriptServer) round(n int64) int64 {
	if n > 80 && n < 100 {
		return 100 // what is left of the time that the last reader leaves a writer
	}
	if n < s.grain/2 {
		return n // not a TTL but a count, or a negative answer of PTTL
	}
	return (n + s.grain - 1 - s.grain/20) / s.grain * s.grain
}

// state prints all that a server holds, by key.
func (s *scriptServer) state(t testing.TB) map[string]string {
	t.Helper()
	var keys []string
	var reads [][]string
	for _, k := range s.do(t, "KEYS", "*").([]any) {
		key := k.(string)
		keys = append(keys, key)
		reads = append(reads, []string{"TYPE", key}, []string{"PTTL", key}, []string{"GET", key}, []string{"HGETALL", key})
	}
	out := make(map[string]string)
	replies := s.all(t, reads...)
	for i, key := range keys {
		kind, ttl, text, hash := replies[4*i].(string), s.show(replies[4*i+1]), replies[4*i+2], replies[4*i+3]
		switch kind {
		case "hash":
			flat := hash.([]any)
			var fields []string
			for i := 0; i < len(flat); i += 2 {
				fields = append(fields, fmt.Sprintf("%v=%v", flat[i], flat[i+1]))
			}
			slices.Sort(fields)
			out[key] = strings.Join(fields, " ") + " for " + ttl
		case "string":
			out[key] = fmt.Sprintf("%q for %s", text, ttl)
		default:
			out[key] = kind + " for " + ttl
		}
	}
	return out
}

// An ear is a subscriber of some channels.
type ear struct {
	*wire
	mouth *wire  // publishes on mark
	mark  string // a channel of its own
}

func listen(t testing.TB, s *scriptServer, channels ...string) *ear {
	t.Helper()
	w := dialWire(t, s.addr)
	e := &ear{w, s.wire, "ear " + w.LocalAddr()}
	for _, c := range slices.Concat(channels, []string{e.mark}) { // tests that run at once share channels
		e.do(t, "SUBSCRIBE", c)
	}
	return e
}

// heard returns the messages published since the last call, as "channel payload". It publishes on
// mark and reads until that message: a server delivers in order.
func (e *ear) heard(t testing.TB) []string {
	t.Helper()
	e.mouth.do(t, "PUBLISH", e.mark, "")
	var out []string
	for {
		reply := redistest.Must(e.Receive())(t)
		m := reply.([]any)
		require.Equal(t, "message", m[0])
		if m[1] == e.mark {
			return out
		}
		out = append(out, fmt.Sprintf("%v %v", m[1], m[2]))
	}
}
