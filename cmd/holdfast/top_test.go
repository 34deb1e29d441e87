//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
)

// top --json prints a snapshot a look, and counts changes of holders.
func TestTop_JSON(t *testing.T) {
	w := newWorld(t)
	l, err := w.m.Lock(t.Context(), "a")
	require.NoError(t, err)
	p := w.start("top", "--json", "--every", "100ms")
	printed := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(p.out.String(), text) }, patient, 5*time.Millisecond, text)
	}
	printed(l.HolderID())
	require.NoError(t, l.Unlock(t.Context()))
	l, err = w.m.Lock(t.Context(), "a")
	require.NoError(t, err)
	printed(l.HolderID())
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.wait(), p.err.String())
	var last snapshot
	changed := false
	for line := range strings.Lines(p.out.String()) {
		require.NoError(t, json.Unmarshal([]byte(line), &last))
		require.Empty(t, last.Error)
		changed = changed || len(last.Locks) == 1 && last.Locks[0].Changes > 0
	}
	require.True(t, changed)
	require.Len(t, last.Locks, 1)
}

// Without a terminal top says at once what to give, also if there is no server.
func TestTop_WithoutATerminal(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"top"}, {"--redis", "redis://127.0.0.1:1", "top", "orders:"}} {
		code, out, text := w.run(args...)
		require.Equal(t, 64, code)
		require.Empty(t, out)
		require.Equal(t, "holdfast: top: no terminal: give --json or --web\n", text)
	}
}

// A source remembers what it found.
func TestSource(t *testing.T) {
	var rows []row
	var failing error
	s := &source{known: map[string]*track{}, scan: func(context.Context) ([]row, error) { return rows, failing }}
	begin := time.Now()
	at := func(seconds int) snapshot { return s.look(t.Context(), begin.Add(time.Duration(seconds)*time.Second)) }
	rows = []row{{Name: "a", Holders: []holder{{Owner: "1"}}}}
	at(0)
	got := at(10).Locks[0]
	require.EqualValues(t, 10, got.HeldFor)
	require.True(t, got.AtLeast)
	require.Zero(t, got.Changes)
	rows[0].Holders[0].Owner = "2"
	got = at(20).Locks[0]
	require.Zero(t, got.HeldFor)
	require.EqualValues(t, 0.05, got.Changes)
	rows[0].Holders[0].Since = &begin
	got = at(30).Locks[0]
	require.EqualValues(t, 30, got.HeldFor)
	require.False(t, got.AtLeast)
	failing = errors.New("away")
	require.Equal(t, "away", at(40).Error)
	failing, rows = nil, nil
	require.Empty(t, at(50).Locks)
	require.Len(t, s.known, 1)
	at(120)
	require.Empty(t, s.known)
}

// The screen sorts, filters, scrolls and fits its size.
func TestScreen(t *testing.T) {
	s := &screen{ctx: t.Context(), every: time.Second, sort: 'n'}
	require.Contains(t, s.text(), "looking")
	s.Update(tea.WindowSizeMsg{Width: 100, Height: 10})
	snap := snapshot{At: time.Now()}
	for i := range 50 {
		snap.Locks = append(snap.Locks, topRow{HeldFor: float64(i), Changes: float64(50 - i), row: row{
			Name: fmt.Sprintf("lock-%02d", i), Kind: "plain", TTL: int64(i * 1000), Waiting: int64(i % 7), Holders: []holder{{Owner: "x\x1b[31m"}},
		}})
	}
	s.Update(snap)
	lines := func() []string {
		all := strings.Split(s.text(), "\n")
		require.LessOrEqual(t, len(all), 10)
		for _, line := range all {
			require.NotContains(t, line, "\x1b[31m")
		}
		return all
	}
	key := func(keys ...string) {
		for _, k := range keys {
			msg := tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
			switch k {
			case "enter":
				msg = tea.KeyPressMsg{Code: tea.KeyEnter}
			case "ctrl+j":
				msg = tea.KeyPressMsg{Code: 'j', Mod: tea.ModCtrl}
			case "esc":
				msg = tea.KeyPressMsg{Code: tea.KeyEscape}
			case "backspace":
				msg = tea.KeyPressMsg{Code: tea.KeyBackspace}
			case "pgdown":
				msg = tea.KeyPressMsg{Code: tea.KeyPgDown}
			case "down":
				msg = tea.KeyPressMsg{Code: tea.KeyDown}
			}
			s.Update(msg)
		}
	}
	require.Contains(t, lines()[2], "lock-00")
	require.Contains(t, lines()[0], "locks 50")
	key("down")
	require.Contains(t, lines()[2], "lock-01")
	for range 30 {
		key("pgdown")
	}
	require.Contains(t, lines()[2], "lock-49")
	key("g", "f")
	require.Contains(t, lines()[2], "lock-49")
	key("c")
	require.Contains(t, lines()[2], "lock-00")
	key("w")
	require.Contains(t, lines()[2], "lock-06")
	key("/", "4", "2", "enter")
	require.Contains(t, lines()[2], "lock-42")
	require.NotContains(t, s.text(), "lock-41")
	require.Contains(t, lines()[0], `locks 1 of 50`)
	require.Contains(t, lines()[0], `names with "42"`)
	key(" ")
	require.Contains(t, lines()[0], "PAUSED")
	s.Update(snapshot{Error: "server\x1b[31maway"})
	require.Contains(t, s.text(), "lock-42", "what was found before stays")
	require.Contains(t, lines()[len(lines())-1], "away")
	require.Contains(t, lines()[0], `names with "42"`)
	key("/", "backspace", "0")
	require.Contains(t, lines()[len(lines())-1], "/40_", "what is typed is seen, also while the server is away")
	require.Contains(t, lines()[2], "lock-40")
	key("esc")
	require.Contains(t, lines()[0], "  locks 50")
	key("/", "4", "2", "enter", "j", "esc")
	require.Contains(t, lines()[0], "  locks 50")
	key("/", "4", "2", "ctrl+j", "3") // ctrl+j is an Enter that was typed before top read keys one by one
	require.Contains(t, lines()[0], `names with "42"`)
	key("esc")
	_, cmd := s.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	require.Nil(t, cmd, "Escape does not quit")
	for _, size := range [][2]int{{1, 1}, {20, 3}, {300, 100}} {
		s.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		s.text()
	}
	_, quit := s.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	require.IsType(t, tea.QuitMsg{}, quit())
}

// A table fits its width, as far as its numbers do. A pid is kept.
func TestTable(t *testing.T) {
	ended := time.Now().Add(-time.Hour)
	rows := []row{
		{Name: "orders:42", Kind: "plain", Holders: []holder{{Owner: "x", Program: "billing-service", Host: "web-3.eu-west-1.example.com", PID: 4194304, Note: "invoice 42", Kept: true, Ended: &ended}}, Count: 3},
		{Name: strings.Repeat("日本", 50), Kind: "plain", Holders: []holder{{Owner: strings.Repeat("0", 36)}}, Count: 1},
		{Name: "nightly", Kind: "plain", Holders: []holder{{Owner: strings.Repeat("0", 36), Kept: true}}, Count: 1},
	}
	whole := strings.Join(table(0, listed(rows, time.Now())), "\n")
	for _, text := range []string{"orders:42  ", "billing-service@web-3.eu-west-1.example.com, pid 4194304, ended 1h0m ago and 2 more  ", rows[1].Name, "  invoice 42"} {
		require.Contains(t, whole, text)
	}
	for width := 1; width < 300; width++ {
		for i, line := range table(width, listed(rows, time.Now())) {
			require.LessOrEqual(t, ansi.StringWidth(line), width, line)
			if width >= 65 && i == 1 {
				require.Contains(t, line, ", pid 4194304", width)
			}
			if width >= 80 && i == 2 {
				require.Regexp(t, "^日.*本 +plain", line)
			}
			if width >= 110 {
				require.Equal(t, i == 0, strings.Contains(line, "NOTE"))
			}
		}
	}
}
