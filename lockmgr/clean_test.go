package lockmgr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/faults"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/resp"
	"github.com/holdfast-go/holdfast/lockmgr"
)

// hostileText has what a terminal obeys, what turns text round, what is no text, and what looks like
// another line.
const hostileText = "X\x1b[2J\x7f\u0085\u009b31m\u202e\u2066\u200f\xff\x9b\ty\r\nlevel=ERROR msg=forged\x00"

// requireClean fails if a text has a character that can't be shown, except for line ends, or a line
// that hostileText begins.
func requireClean(t *testing.T, what, text string) {
	t.Helper()
	odd := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
	require.Falsef(t, strings.ContainsFunc(text, odd), "%s: %q", what, text)
	require.Equal(t, text, strings.ToValidUTF8(text, "?"), what)
	require.NotContains(t, text, "\nlevel", what)
}

// hostileServer answers to each command with an error in words that it chooses.
func hostileServer(t *testing.T, words string) string {
	return rawServer(t, func(c net.Conn) {
		resp.Serve(c, func([]string) string { return "-" + strings.ReplaceAll(words, "\r\n", " ") + "\r\n" })
	})
}

// Whatever names, records and a server say, all that the library writes for a person can be shown.
func TestTexts_OfOthersAreClean(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t).Unrestricted()
	var lines lockedBuffer
	m := must(lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{s.Addr()}}, lockmgr.Options{
		Logger:  slog.New(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Process: lockmgr.Process{Program: strings.ToValidUTF8(hostileText, "?"), Host: strings.ToValidUTF8(hostileText, "?")},
	}))(t)
	t.Cleanup(func() { _ = m.Close(ctx) })
	c := faults.Patient(t)
	errs := map[string]error{}

	// Names.
	name := "app:" + hostileText
	held := mustLock(t, m, name, lockmgr.Note(strings.ToValidUTF8(hostileText, "?")))
	_, errs["held"] = m.TryLock(c, name)
	errs["explained"] = m.Explain(c, errs["held"])
	_, errs["set"] = m.TryLockAll(c, lockmgr.All(name, "b"))
	_, errs["set of two kinds"] = m.TryLockAll(c, lockmgr.Set{Names: []string{name}, Shared: []string{name}})
	_, errs["bad name"] = m.TryLock(c, name+"{")
	_, errs["bad permit"] = m.Permits(name, 1).Return(c, hostileText)
	o := m.NewOwner()
	again := mustLock(t, m, "two"+name, lockmgr.AsOwner(o))
	_, errs["deadlock"] = m.LockAll(c, lockmgr.All("two"+name, "c"), lockmgr.AsOwner(o))
	mustUnlock(t, again)

	// Records of others.
	manager := "0a0a0a0a-0a0a-4a0a-8a0a-0a0a0a0a0a0a"
	record := must(json.Marshal(map[string]any{
		"program": hostileText, "host": hostileText, "holds": map[string]any{"1": map[string]any{"since": time.Now().UnixMilli(), "note": hostileText}},
	}))(t)
	faults.Do(t, s, "SET", "holdfast:manager:0a0a0a0a0a0a4a0a", string(record))
	for key, fields := range map[string][]string{
		"app:told": {manager + ":1", "1"}, "app:untold": {hostileText, hostileText}, "app:mode": {"mode", hostileText, hostileText, "1"},
		"app:dead": {manager + ":" + hostileText, "1"},
	} {
		faults.Do(t, s, append([]string{"HSET", key}, fields...)...)
		_, errs["of "+key] = m.TryLock(c, key)
		errs["explained "+key] = m.Explain(c, errs["of "+key])
		info := mustInspect(t, m, key)
		requireClean(t, key, info.Mode)
		for _, h := range info.Holders {
			requireClean(t, key, h.String())
			requireClean(t, key, h.Process.String())
			requireClean(t, key, h.Note)
		}
	}
	faults.Do(t, s, "SET", "app:string", hostileText)
	_, errs["of a string"] = m.Lock(c, "app:string")
	_, errs["permits of a string"] = m.Permits("app:string", 1).TryAcquire(c, 1)
	own := mustInspect(t, m, name)
	requireClean(t, "own", own.Holders[0].String())

	// A loss.
	faults.Do(t, s, "DEL", name)
	errs["lost"] = held.Unlock(c)

	// Replies of a server.
	hostile := hostileServer(t, "ERR "+hostileText)
	_, errs["dial"] = lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{hostile}}, lockmgr.Options{RetryTime: time.Second})
	_, errs["seeds"] = lockmgr.Dial(rueidis.ClientOption{InitAddress: []string{hostile, hostileServer(t, "NOPERM "+hostileText)}}, lockmgr.Options{})
	_, errs["sentinel"] = lockmgr.DialURL("redis://"+hostile+"?master_set=main", lockmgr.Options{})
	for _, kind := range []error{lockmgr.ErrServer, lockmgr.ErrUnavailable, lockmgr.ErrPermission, lockmgr.ErrTopology} {
		errs["server "+kind.Error()] = &lockmgr.LockError{Op: "lock", Name: name, Err: &lockmgr.ServerError{Addr: hostileText, Kind: kind, Err: errors.New(hostileText)}}
	}
	report := lockmgr.Report{Missing: []lockmgr.Permission{{Rule: "+x", For: "y", Nodes: []string{hostileText}}}}
	requireClean(t, "report", report.String())

	for what, err := range errs {
		require.Error(t, err, what)
		requireClean(t, what, err.Error())
		requireClean(t, what, fmt.Sprintf("%+v", err))
		t.Logf("%s: %v", what, err)
	}

	// A release that is refused.
	mustLock(t, m, name+"kept")
	faults.Do(t, s, "ACL", "SETUSER", "default", "-hdel")
	requireClean(t, "close", m.Close(c).Error())
	for _, line := range []string{"commands fail", "lock lost", "release not confirmed"} {
		require.Contains(t, lines.String(), line)
	}
	requireClean(t, "log", lines.String())
}
