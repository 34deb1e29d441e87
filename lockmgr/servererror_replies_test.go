package lockmgr_test

import (
	"context"
	"crypto/sha1"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/futures"
	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// Errors that a real server seldom returns, or that other versions word differently.
func TestServerError_Replies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reply string // "": none at all
		kind  error
		clean bool // the script can't have left anything behind
	}{
		{"-LOADING Redis is loading the dataset in memory", lockmgr.ErrUnavailable, true},
		{"-TRYAGAIN Multiple keys request during rehashing of slot", lockmgr.ErrUnavailable, true},
		{"-BUSY Valkey is busy running a script.", lockmgr.ErrUnavailable, true},
		{"-NOAUTH Authentication required.", lockmgr.ErrPermission, true},
		{"-NOPERM User locker has no permissions to run the 'evalsha' command", lockmgr.ErrPermission, true},
		{"-NOPERM User locker has no permissions to run the 'hset' command script: f00, on @user_script:1.", lockmgr.ErrPermission, false},
		{"-ERR ACL failure in script: User locker has no permissions to run the 'hset' command script: f00, on @user_script:1.", lockmgr.ErrPermission, false},
		{"-ERR The user executing the script can't run this command or subcommand script: f00, on @user_script:1.", lockmgr.ErrPermission, false},
		{"-ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", lockmgr.ErrPermission, false},
		{"-ERR Script attempted to access a non local key in a cluster node script: f00, on @user_script:1.", lockmgr.ErrUnavailable, true},
		{"-ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing of the slot script: f00, on @user_script:1.", lockmgr.ErrUnavailable, true},
		{"-READONLY You can't write against a read only replica. script: f00, on @user_script:1.", lockmgr.ErrReadOnly, true},
		{"-OOM command not allowed when used memory > 'maxmemory'. script: f00, on @user_script:1.", lockmgr.ErrOutOfMemory, true},
		{"-WRONGTYPE Operation against a key holding the wrong kind of value", lockmgr.ErrWrongType, true},
		{"", lockmgr.ErrUnavailable, false},
	}
	for _, tt := range tests {
		t.Run(strings.Split(tt.reply, ":")[0], func(t *testing.T) {
			t.Parallel()
			var healed atomic.Bool
			addr := fakeServer(t, func(args []string) string {
				switch {
				case !healed.Load() && tt.reply == "":
					return ""
				case !healed.Load():
					return tt.reply + "\r\n"
				case scriptBySHA(args[1]) == "acquire":
					return "_\r\n"
				}
				return ":0\r\n"
			})
			options := lockmgr.Options{Lease: 4 * time.Second, CommandTimeout: 4 * slow}
			if tt.reply == "" {
				options = lockmgr.Options{Lease: 200 * time.Millisecond} // every command times out
			}
			m := dialTroubled(t, addr, options)
			_, err := m.TryLock(faults.Patient(t), "a")
			requireServerError(t, tt.kind, err)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's context has not ended")
			said, _, _ := strings.Cut(strings.TrimPrefix(tt.reply[min(1, len(tt.reply)):], "ERR "), " script: f00, on @user_script:")
			require.Contains(t, err.Error(), said)
			require.NotContains(t, err.Error(), "@user_script")
			if tt.clean {
				awaitAtRest(t, m)
				require.EqualValues(t, 1, m.Stats().Scripts)
			} else {
				faults.Eventually(t, func() bool { return m.Stats().Scripts > 1 }, "the manager sends no release")
			}
			healed.Store(true)
			if tt.reply == "" {
				return // the missing replies would shift all later ones
			}
			awaitAtRest(t, m) // a refusal that arrives later would fail the next request
			mustUnlock(t, mustLock(t, m, "a"))
		})
	}
}

// The server is no Redis, or a proxy rewrites replies. No strange reply may count as a grant, make
// anything panic, be asked for again and again, or leave anything behind.
func TestServerError_StrangeReplies(t *testing.T) {
	t.Parallel()
	strange := []string{
		"+OK", "+QUEUED", "$0\r\n", "$3\r\nabc", "$1\r\n0", "$2\r\n-5", "$20\r\n99999999999999999999", "$4\r\n1e10",
		"*1\r\n:0", "*1\r\n:2", "*1\r\n:-1", "*1\r\n:9223372036854775807", "*2\r\n:1\r\n:1", "*3\r\n:1\r\n:2\r\n:3",
		"*1\r\n_", "*2\r\n_\r\n_", "*2\r\n:0\r\n$1\r\nx", "*2\r\n$1\r\n0\r\n$1\r\n5", "*1\r\n*1\r\n*0",
		"%1\r\n+a\r\n:1", "~1\r\n:2", ",1.5", ",inf", "#t", "#f", "(12345678901234567890123", "=5\r\ntxt:x",
		"!9\r\nERR blobs", "-", "-ERR", "-ERR unknown command 'EVALSHA'", "-NEVERHEARD of it",
	}
	// Replies that are good for another script, or for other arguments.
	null, number, text, pair, empty := "_", ":0", "$1\r\n7", "*2\r\n:0\r\n$1\r\n7", "*0"
	for _, tt := range []struct {
		script  string
		fenced  bool
		strange []string
	}{
		{"acquire", false, []string{text, pair, empty}},
		{"acquire", true, []string{null, pair, empty}},
		{"transfer", false, []string{text, pair, empty}},
		{"transfer", true, []string{number, text, empty}},
		{"renew", false, []string{null, number, text, pair}},
		{"release", false, []string{text, pair, empty}},
	} {
		t.Run(fmt.Sprintf("%s fenced=%v", tt.script, tt.fenced), func(t *testing.T) {
			t.Parallel()
			lies := append(slices.Clone(strange), tt.strange...)
			switch tt.script {
			case "acquire": // an array of one number is a refusal
				lies = slices.DeleteFunc(lies, func(lie string) bool { return strings.HasPrefix(lie[1:], "1\r\n:") })
			case "release": // an array of two says that somebody was told
				lies = slices.DeleteFunc(lies, func(lie string) bool { return strings.HasPrefix(lie, "*2\r\n:1\r\n:") })
			}
			told := make([]atomic.Int64, len(lies))
			addr := fakeServer(t, func(args []string) string {
				script, fenced := scriptBySHA(args[1]), strings.Contains(strings.Join(args, " "), "redisson_lock_token")
				if script == tt.script && fenced == tt.fenced {
					i, _ := strconv.Atoi(args[3]) // the name is the number of a lie
					told[i].Add(1)
					return lies[i] + "\r\n"
				}
				reply := map[string]string{"acquire": null, "transfer": number, "renew": empty, "release": number}[script]
				if fenced {
					reply = map[string]string{"acquire": text, "transfer": pair}[script]
				}
				return reply + "\r\n"
			})
			var opts []lockmgr.LockOption
			if tt.fenced {
				opts = append(opts, lockmgr.Fenced())
			}
			lease := 10 * time.Second
			if tt.script == "renew" || tt.script == "release" {
				lease = 3 * time.Second // because these tests take that long
			}
			// All at once, because most of the time goes to waiting for leases to end.
			managers := make([]*lockmgr.Manager, len(lies))
			first, second := make([]*futures.Future[*lockmgr.Lock], len(lies)), make([]*futures.Future[*lockmgr.Lock], len(lies))
			for i := range lies {
				managers[i] = dialTroubled(t, addr, lockmgr.Options{Lease: lease, CommandTimeout: slow})
				first[i], second[i] = managers[i].LockAsync(strconv.Itoa(i), opts...), managers[i].LockAsync(strconv.Itoa(i), opts...)
				if tt.script != "acquire" && tt.script != "transfer" {
					second[i].Cancel()
				}
			}
			for i, lie := range lies {
				l, err := first[i].Await(faults.Patient(t))
				if tt.script == "acquire" {
					require.Error(t, err, "%q", lie)
					_, err = second[i].Await(faults.Patient(t))
					require.Error(t, err, "%q", lie)
					continue
				}
				require.NoError(t, err, "%q", lie)
				switch tt.script {
				case "transfer":
					// The other request gets the lock all the same, unless it needs a token.
					require.NoError(t, l.Unlock(ctx), "%q", lie)
					l, err = second[i].Await(faults.Patient(t))
					if err == nil {
						require.Equal(t, tt.fenced, l.Token() > 0, "%q", lie)
						// On a busy machine the first run may have ended before, without a
						// transfer.
						if managers[i].Stats().Passes > 0 {
							faults.Eventually(t, func() bool { return told[i].Load() > 0 }, "%q", lie)
						}
						require.NoError(t, l.Unlock(ctx), "%q", lie)
					}
				case "renew":
					faults.AwaitLost(t, l)
					require.ErrorIs(t, l.Unlock(faults.Patient(t)), lockmgr.ErrLeaseLost, "%q", lie)
				case "release":
					require.Error(t, l.Unlock(faults.Patient(t)), "%q", lie)
				}
			}
			for i, lie := range lies {
				awaitAtRest(t, managers[i])
				require.Less(t, told[i].Load(), int64(50), "%q is asked for again and again", lie)
				require.Positive(t, told[i].Load(), "%q is never asked for", lie)
			}
		})
	}
}

// scripts are the texts of the scripts by their names.
var scripts = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, name := range script.Names() {
		out[name] = script.Text(name)
	}
	return out
})

// scriptBySHA returns the name of the script that an EVALSHA calls.
func scriptBySHA(sha string) string {
	for name, text := range scripts() {
		if fmt.Sprintf("%x", sha1.Sum([]byte(text))) == sha {
			return name
		}
	}
	return ""
}

// Scripts may vanish from the server at any moment.
func TestServerError_ScriptsFlushed(t *testing.T) {
	s, m, _ := startServer(t, lockmgr.Options{})
	var users, flusher sync.WaitGroup
	var stop atomic.Bool
	w := must(resp.Dial(s.Addr(), faults.Patience))(t)
	defer w.Close()
	flushes := 0
	flusher.Go(func() {
		for ; !stop.Load(); flushes++ {
			if _, err := w.Do("SCRIPT", "FLUSH"); err != nil {
				return
			}
		}
	})
	for i := range 50 {
		users.Go(func() {
			for range 40 {
				l, err := m.Lock(ctx, fmt.Sprint("name", i%20), lockmgr.Fenced())
				if err == nil {
					err = l.Unlock(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	users.Wait()
	stop.Store(true)
	flusher.Wait()
	require.Greater(t, flushes, 10)
	require.Zero(t, m.Stats().Losses)
	awaitAtRest(t, m)
}

// A user who may not call EVAL needs the scripts on the server already. A user who may not call
// SCRIPT LOAD brings them there by EVAL.
func TestServerError_ScriptsNotLoaded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	setUser(t, s, "mute", "+@all", "-eval", "-script", "~*", "&*")
	setUser(t, s, "speaker", "+@all", "-script", "~*", "&*")
	mute := dialAs(t, s.Addr(), "mute", lockmgr.Options{Lease: time.Second, CommandTimeout: slow})
	speaker := dialAs(t, s.Addr(), "speaker", lockmgr.Options{})
	requireServerError(t, lockmgr.ErrPermission, errOf(mute.TryLock(faults.Patient(t), "a")))
	for _, m := range []*lockmgr.Manager{speaker, mute} {
		mustUnlock(t, mustLock(t, m, "a"))
	}
}

// fakeServer starts a server that runs until the end of the test. It answers the commands of
// resp.Greet. answer returns the reply to any other command in RESP, or "" for no reply.
func fakeServer(t testing.TB, answer func(args []string) string) (addr string) {
	return rawServer(t, func(c net.Conn) {
		_ = c.SetDeadline(time.Time{}) // the managers close their connections
		resp.Serve(c, func(args []string) string {
			if reply, ok := resp.Greet(args); ok {
				return reply
			}
			return answer(args)
		})
	})
}
