//go:build unix

package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/resp"
)

// hostile has characters of each kind that a terminal obeys or that deceive a reader, and bytes
// that are no UTF-8.
const hostile = "\x1b[2J\x1b]0;t\a\b\r\n\t\x7f\u0085\u009b31m\u200e\u202e\u2066\u2028\u200b\ufeff\x9b31m\xff"

// requireShowable requires that an output has lines of characters that can be shown, and nothing
// else.
func requireShowable(t *testing.T, out string, of ...string) {
	t.Helper()
	require.True(t, utf8.ValidString(out), "%q: %q", of, out)
	i := strings.IndexFunc(out, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' })
	require.Negative(t, i, "%q: %q", of, out)
}

// requireJSON requires lines of JSON, and returns them.
func requireJSON[T any](t *testing.T, out string) (all []T) {
	t.Helper()
	for line := range strings.Lines(out) {
		var one T
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		all = append(all, one)
	}
	return all
}

// plant writes records as another program might: all texts are hostile. It returns the names.
func (w *world) plant() (names []string) {
	do := func(args ...string) {
		_, err := w.Do(args...)
		require.NoError(w.t, err, args)
	}
	manager := uuid.New()
	record, err := json.Marshal(map[string]any{
		"program": "p" + hostile, "host": "h" + hostile, "pid": 7,
		"holds": map[string]any{"1": map[string]any{"since": time.Now().UnixMilli() - 5000, "note": "n" + hostile}},
	})
	require.NoError(w.t, err)
	do("SET", "holdfast:manager:"+hex.EncodeToString(manager[:8]), string(record))
	// Redisson's IDs have any number after the UUID. Scan wants no more than that form.
	unknown := uuid.NewString()
	kept, err := json.Marshal(map[string]any{"program": "p" + hostile, "host": "h" + hostile, "note": "n" + hostile, "ended": 1})
	require.NoError(w.t, err)
	do("HSET", "kept"+hostile, manager.String()+":9:kept", string(kept))
	do("HSET", "known"+hostile, manager.String()+":1", "1")
	do("HSET", "mode"+hostile, "mode", "m"+hostile, manager.String()+":1", "1", unknown+":2:"+hostile, "1")
	do("HSET", "read"+hostile, "mode", "read", unknown+":2:"+hostile, "1", unknown+":3:"+hostile, "1")
	do("SET", "redisson_lock_token:{known"+hostile+"}", "12"+hostile)
	do("HSET", "fair"+hostile, unknown+":4:f"+hostile, "1")
	do("RPUSH", "redisson_lock_queue:{fair"+hostile+"}", "q"+hostile)
	do("ZADD", "redisson_lock_timeout:{fair"+hostile+"}", "1", "q"+hostile)
	do("SET", "permits"+hostile, "3")
	do("ZADD", "{permits"+hostile+"}:timeout", "9223372036854775807", string(manager[:8])+"\x00\x00\x00\x00\x00\x00\x00\x01")
	names = append(names, "kept"+hostile, "known"+hostile, "mode"+hostile, "read"+hostile, "fair"+hostile, "permits"+hostile)
	// These are no locks, and tell so.
	do("SET", "text"+hostile, hostile)
	do("HSET", "hash"+hostile, hostile, hostile)
	do("ZADD", "{odd"+hostile+"}:timeout", "1", hostile)
	do("SET", "odd"+hostile, hostile)
	return append(names, "text"+hostile, "hash"+hostile, "odd"+hostile)
}

// What others wrote reaches no terminal as it is, in whatever output.
func TestOutputs_AreSafeToShow(t *testing.T) {
	w := newWorld(t)
	names := w.plant()
	calls := [][]string{{"ls"}, {"ls", "--json"}, {"check", "c" + hostile}}
	for _, name := range names {
		calls = append(calls, []string{"show", name}, []string{"show", "--json", name}, []string{"run", "-n", name, "--", "true"},
			[]string{"run", "-n", "--shared", name, "--", "true"}, []string{"run", "-n", "--fair", name, "--", "true"}, []string{"run", "-n", "--permits", "2", name, "--", "true"},
			[]string{"limit", name}, []string{"limit", name, "3"},
			[]string{"break", "--yes", name}, []string{"break", "--yes", name}, []string{"limit", "--forget", name}, []string{"limit", name})
	}
	calls = append(calls, []string{hostile}, []string{"ls", "--" + hostile}, []string{"--redis", "redis://u:secret" + hostile + "@" + hostile, "ls"},
		[]string{"top", "--web", hostile}, []string{"top", "--every", hostile}, []string{"run", "a", "--", "x" + hostile}, []string{"run", hostile}, []string{"limit", "a", hostile})
	requireAllCommands(t, calls, "man")
	for _, args := range calls {
		_, out, text := w.run(args...)
		requireShowable(t, out, args...)
		requireShowable(t, text, args...)
		if len(args) > 1 && args[1] == "--json" {
			requireJSON[row](t, out)
		}
	}
}

// JSON loses nothing of a name and an ID: what it can't have is in base64 beside.
func TestOutputs_JSONLosesNothing(t *testing.T) {
	w := newWorld(t)
	want := w.plant()[:6]
	_, out, _ := w.run("ls", "--json")
	var names, owners []string
	for _, r := range requireJSON[row](t, out) {
		require.NotEqual(t, string(r.NameBytes), r.Name)
		names = append(names, string(r.NameBytes))
		for _, h := range r.Holders {
			owners = append(owners, string(h.OwnerBytes))
		}
	}
	for _, name := range names {
		require.Contains(t, want, name)
	}
	require.Contains(t, strings.Join(owners, " "), ":2:"+hostile)
	_, err := w.Do("HSET", "fine\u202e", uuid.NewString()+":1", "1")
	require.NoError(t, err)
	_, out, _ = w.run("show", "--json", "fine\u202e")
	require.Equal(t, "fine\u202e", requireJSON[row](t, out)[0].Name)
	require.NotContains(t, out, "base64")
}

// So it is in top, on the screen, as JSON and as a page.
func TestOutputs_TopIsSafeToShow(t *testing.T) {
	w := newWorld(t)
	w.plant()
	p := w.start("top", "--json")
	require.Eventually(t, func() bool { return strings.Contains(p.out.String(), "\n") }, patient, 5*time.Millisecond)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.wait()
	requireShowable(t, p.out.String())
	snap := requireJSON[snapshot](t, p.out.String())[0]
	require.GreaterOrEqual(t, len(snap.Locks), 4)

	p = w.start("top", "--web", "127.0.0.1:0")
	var url string
	require.Eventually(t, func() bool { url = strings.TrimSpace(p.err.String()); return strings.HasPrefix(url, "http://") }, patient, 5*time.Millisecond)
	answer, err := http.Get(url + "locks.json")
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	requireShowable(t, string(body))
	requireJSON[snapshot](t, string(body))

	s := &screen{ctx: t.Context(), every: time.Second, sort: 'n', snap: snap, looked: true}
	s.source = &source{known: map[string]*track{}, scan: func(context.Context) ([]row, error) { return nil, nil }}
	for i := range snap.Locks { // as the scan had them
		r := &snap.Locks[i]
		r.Name = string(r.NameBytes)
		for j := range r.Holders {
			r.Holders[j].Note, r.Holders[j].Program, r.Holders[j].Host = hostile, hostile, hostile
		}
	}
	safe := func() {
		t.Helper()
		requireShowable(t, strings.NewReplacer("\x1b[7m", "", "\x1b[0m", "").Replace(s.text()))
	}
	s.Update(tea.WindowSizeMsg{Width: 400, Height: 40})
	safe()
	for i := range snap.Locks { // holders that are known by their ID only
		for j := range snap.Locks[i].Holders {
			snap.Locks[i].Holders[j] = holder{Owner: hostile}
		}
	}
	safe()
	s.Update(tea.KeyPressMsg{Code: '/', Text: "/"})
	s.Update(tea.PasteMsg{Content: hostile})
	safe()
	s.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	safe()
	s.Update(snapshot{Error: hostile})
	safe()
}

// A server that is hostile itself speaks through errors and through check.
func TestOutputs_OfAHostileServer(t *testing.T) {
	w := newWorld(t)
	words := strings.NewReplacer("\r", "", "\n", "").Replace(hostile) // which end a reply
	calls := [][]string{
		{"ls"}, {"ls", "--json"}, {"show", "a"}, {"show", "--json", "a"}, {"break", "--yes", "a"}, {"limit", "a"}, {"limit", "a", "3"}, {"limit", "--forget", "a"},
		{"check"}, {"run", "-n", "a", "--", "true"}, {"run", "-n", "--permits", "2", "a", "--", "true"},
	}
	requireAllCommands(t, calls, "man", "top")
	for name, answer := range map[string]func(args []string) string{
		"refuses all": func([]string) string { return "-ERR " + words + "\r\n" },
		"refuses":     greeting("-ERR " + words + "\r\n"),
		"forbids":     greeting("-NOPERM " + words + "\r\n"),
		"loads":       greeting("-LOADING " + words + "\r\n"),
		"moves":       greeting("-MOVED 1 " + words + "\r\n"),
		"texts":       greeting(string(resp.Append(nil, hostile))),
		"lists":       greeting(string(resp.Append(nil, []any{"0", []any{hostile, hostile}}))),
		"statuses":    greeting("+" + words + "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := fake(t, answer)
			var all []*process
			for _, args := range calls {
				all = append(all, w.start(append([]string{"--redis", "redis://" + addr}, args...)...))
			}
			for _, p := range all {
				p.wait()
				requireShowable(t, p.out.String(), p.Args...)
				requireShowable(t, p.err.String(), p.Args...)
			}
		})
	}
}

// fake starts a server that answers each command with what answer returns, and returns its address.
func fake(t *testing.T, answer func(args []string) string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go resp.Serve(c, answer)
		}
	}()
	return l.Addr().String()
}

// greeting answers the commands of a new connection as a server does, and all others with a reply.
func greeting(reply string) func(args []string) string {
	return func(args []string) string {
		if text, ok := resp.Greet(args); ok {
			return text
		}
		return reply
	}
}

// The page says of a holder what ls says.
func TestPage_SaysWhoAsLs(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: there is no node to run the functions of the page, so its words are not tested")
	}
	since, ended := time.Now().Add(-3*time.Hour-time.Minute), time.Now().Add(-time.Hour-time.Minute)
	process := holder{Owner: "x", Program: "billing", Host: "web-3", PID: 411}
	running, kept, bare := process, process, holder{Owner: "x", Kept: true}
	running.Since = &since
	kept.Kept, kept.Since, kept.Ended = true, &since, &ended
	holders := []holder{process, running, kept, bare, {Owner: "x"}}
	text, err := json.Marshal(holders)
	require.NoError(t, err)
	_, script, _ := strings.Cut(string(page), "  const age = ")
	script, _, _ = strings.Cut(script, "  const kind = ")
	out, err := exec.Command(node, "-e", "const age = "+script+"console.log(JSON.stringify("+string(text)+".map(who)))").CombinedOutput()
	require.NoError(t, err, string(out))
	var got, want []string
	require.NoError(t, json.Unmarshal(out, &got))
	for _, h := range holders {
		want = append(want, (&row{Holders: []holder{h}, Count: 1}).holders())
	}
	require.Equal(t, "kept by billing@web-3, pid 411, ended 1h1m ago after 2h0m", want[2])
	require.Equal(t, want, got)
}

// The page writes no text of others but through its function clean, which removes what has no
// glyph.
func TestPage_CleansTexts(t *testing.T) {
	for line := range strings.Lines(string(page)) {
		if strings.Contains(line, "textContent") && !strings.Contains(line, `$("state")`) && !strings.Contains(line, `= "`) {
			require.Contains(t, line, "textContent = clean(", line)
		}
	}
	require.NotContains(t, string(page), "innerHTML")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: there is no node to run the function clean of the page, so its result is not tested")
	}
	_, script, _ := strings.Cut(string(page), "const clean = ")
	script, _, _ = strings.Cut(script, "\n")
	text, err := json.Marshal("a" + hostile + "b é日本")
	require.NoError(t, err)
	out, err := exec.Command(node, "-e", "const clean = "+script+"process.stdout.write(clean("+string(text)+"))").CombinedOutput()
	require.NoError(t, err, string(out))
	requireShowable(t, strings.ReplaceAll(string(out), "\n", "\x00"))
	require.True(t, strings.HasPrefix(string(out), "a\uFFFD") && strings.HasSuffix(string(out), "b é日本"), string(out))
}
