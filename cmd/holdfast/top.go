package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/lockmgr"
)

func (a *app) top() *cobra.Command {
	var every time.Duration
	var asJSON bool
	var web string
	c := &cobra.Command{
		Use:   "top [PREFIX]",
		Short: "Show locks as they change",
		Long: `top shows the locks whose names begin with PREFIX, or all, and looks again every --every.

WAIT is how many processes wait. CHG/s is how often top has found another holder, for each second. A lock that
passes faster than top looks counts once a look.

Keys: arrows or j and k move; n, f, t, w and c sort by name, time held, TTL, waiting and changes; / filters
by a part of the name, and Escape shows all again; space pauses; q quits.

With --json it prints a JSON object for each look, one a line, with the time and all locks. With --web it
serves the same as a page, to read only. Who can reach the address can read the names of all locks. So only
addresses of loopback are taken, and --web 0.0.0.0:7117 is refused.`,
		Example: `  holdfast top orders:
  holdfast top --web 127.0.0.1:7117`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if every < 100*time.Millisecond {
				return errors.New("top: --every must be 100ms or more")
			}
			if asJSON && web != "" {
				return errors.New("top: --json and --web exclude each other")
			}
			if !asJSON && web == "" && !term.IsTerminal(int(os.Stdout.Fd())) {
				return &exit{exitUsage, errors.New("top: no terminal: give --json or --web")}
			}
			prefix := strings.Join(args, "")
			return a.with(looks, func(ctx context.Context, m *lockmgr.Manager) error {
				s := newSource(m, prefix)
				switch {
				case web != "":
					return serve(ctx, c.ErrOrStderr(), s, web, every)
				case asJSON:
					return stream(ctx, c.OutOrStdout(), s, every)
				}
				_, err := tea.NewProgram(&screen{ctx: ctx, source: s, every: every, sort: 'n'}, tea.WithContext(ctx)).Run()
				if err != nil && ctx.Err() == nil {
					return &exit{exitFailed, err}
				}
				return nil
			})
		},
	}
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time between two looks")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object for each look, one a line")
	c.Flags().StringVar(&web, "web", "", "serve a page at this address of loopback, such as 127.0.0.1:7117")
	return c
}

// A snapshot is what one look has found.
type snapshot struct {
	At    time.Time `json:"at"`
	Locks []topRow  `json:"locks"`
	Error string    `json:"error,omitempty"`
}

// A topRow is a row with what several looks have found.
type topRow struct {
	row
	HeldFor float64 `json:"held_s"`           // seconds; at least so long if AtLeast is set
	AtLeast bool    `json:"at_least"`         // the holder does not say since when
	Changes float64 `json:"changes_a_second"` // of holders
}

// A source looks at the locks again and again.
type source struct {
	scan  func(context.Context) ([]row, error)
	known map[string]*track
}

// A track is what is remembered of a lock.
type track struct {
	owners  string
	since   time.Time // when these owners were found
	begin   time.Time // when the lock was found
	changes int
	at      time.Time // of the last look that found it
}

func newSource(m *lockmgr.Manager, prefix string) *source {
	return &source{scan: func(ctx context.Context) ([]row, error) { return scan(ctx, m, prefix) }, known: map[string]*track{}}
}

// look looks once. One goroutine may call it at a time.
func (s *source) look(ctx context.Context, now time.Time) snapshot {
	rows, err := s.scan(ctx)
	snap := snapshot{At: now, Locks: []topRow{}}
	if err != nil {
		snap.Error = err.Error()
		return snap
	}
	for _, r := range rows {
		var owners strings.Builder
		for _, h := range r.Holders {
			owners.WriteString(h.Owner + " ")
		}
		t := s.known[r.Name]
		if t == nil {
			t = &track{begin: now, since: now, owners: owners.String()}
			s.known[r.Name] = t
		} else if t.owners != owners.String() {
			t.owners, t.since = owners.String(), now
			t.changes++
		}
		t.at = now
		top := topRow{row: r, HeldFor: r.held(now).Seconds()}
		if top.HeldFor == 0 {
			top.HeldFor, top.AtLeast = now.Sub(t.since).Seconds(), true
		}
		if seen := now.Sub(t.begin).Seconds(); seen > 0 {
			top.Changes = float64(t.changes) / seen
		}
		snap.Locks = append(snap.Locks, top)
	}
	for name, t := range s.known {
		if now.Sub(t.at) > forget {
			delete(s.known, name)
		}
	}
	return snap
}

// forget is how long a lock that is free is remembered.
const forget = time.Minute

// stream prints snapshots until ctx ends.
func stream(ctx context.Context, w io.Writer, s *source, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		snap := s.look(ctx, time.Now())
		if ctx.Err() != nil {
			return nil
		}
		if err := encode(w, snap); err != nil {
			return &exit{exitFailed, err}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// A screen is the view in the terminal.
type screen struct {
	ctx    context.Context
	source *source
	every  time.Duration

	snap          snapshot
	looked        bool
	width, height int
	sort          rune
	filter        string
	typing        bool // the filter
	paused        bool
	first         int // the row at the top
}

// lookNow says that it is time to look.
type lookNow struct{}

func (s *screen) Init() tea.Cmd { return s.lookCmd }

func (s *screen) lookCmd() tea.Msg { return s.source.look(s.ctx, time.Now()) }

func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case lookNow:
		if s.paused {
			return s, s.later()
		}
		return s, s.lookCmd
	case snapshot:
		if msg.Error != "" { // keep what was found before
			s.snap.Error, s.snap.At = msg.Error, msg.At
		} else {
			s.snap = msg
		}
		s.looked = true
		return s, s.later()
	case tea.PasteMsg:
		if s.typing {
			s.filter += msg.Content
			s.first = 0
		}
	case tea.KeyPressMsg:
		return s, s.key(msg)
	}
	return s, nil
}

func (s *screen) later() tea.Cmd {
	return tea.Tick(s.every, func(time.Time) tea.Msg { return lookNow{} })
}

// key handles a key.
func (s *screen) key(k tea.KeyPressMsg) tea.Cmd {
	text := k.String()
	if text == "ctrl+c" {
		return tea.Quit
	}
	if s.typing {
		switch text {
		case "enter", "ctrl+j": // the second was typed before top read keys one by one
			s.typing = false
		case "esc":
			s.typing, s.filter = false, ""
		case "backspace":
			if r := []rune(s.filter); len(r) > 0 {
				s.filter = string(r[:len(r)-1])
			}
		default:
			s.filter += k.Text // empty for keys that are no characters
		}
		s.first = 0
		return nil
	}
	switch text {
	case "q":
		return tea.Quit
	case "esc":
		s.filter = ""
	case "n", "f", "t", "w", "c":
		s.sort = rune(text[0])
	case "/":
		s.typing = true
	case "space":
		s.paused = !s.paused
	case "down", "j":
		s.first++
	case "up", "k":
		s.first--
	case "pgdown":
		s.first += s.room()
	case "pgup":
		s.first -= s.room()
	case "home", "g":
		s.first = 0
	}
	s.first = max(0, min(s.first, len(s.rows())-1))
	return nil
}

// rows returns what is shown, in order.
func (s *screen) rows() []topRow {
	var rows []topRow
	for _, r := range s.snap.Locks {
		if strings.Contains(r.Name, s.filter) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		switch s.sort {
		case 'f':
			return cmp.Compare(b.HeldFor, a.HeldFor)
		case 't':
			return cmp.Compare(a.TTL, b.TTL)
		case 'w':
			return cmp.Compare(b.Waiting, a.Waiting)
		case 'c':
			return cmp.Compare(b.Changes, a.Changes)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rows
}

// room is how many rows fit on the screen.
func (s *screen) room() int { return max(1, s.height-4) }

var sortNames = map[rune]string{'n': "name", 'f': "time held", 't': "TTL", 'w': "waiting", 'c': "changes"}

func (s *screen) View() tea.View {
	v := tea.NewView(s.text())
	v.AltScreen = true
	return v
}

// text returns what the screen shows.
func (s *screen) text() string {
	if s.width == 0 || !s.looked {
		return "looking…"
	}
	rows := s.rows()
	s.first = max(0, min(s.first, len(rows)-1))
	var b strings.Builder
	line := func(text string) { b.WriteString(ansi.Truncate(text, s.width, "…") + "\n") }
	waiting := int64(0)
	for _, r := range s.snap.Locks {
		waiting += max(0, r.Waiting)
	}
	state, of, with := "", "", ""
	if s.paused {
		state = "PAUSED  "
	}
	if s.filter != "" {
		of, with = fmt.Sprintf("%d of ", len(rows)), fmt.Sprintf(", names with %q", s.filter)
	}
	line(fmt.Sprintf("holdfast  %s  %slocks %s%d, waiting %d, sorted by %s%s", s.snap.At.Format(time.TimeOnly), state, of, len(s.snap.Locks), waiting, sortNames[s.sort], with))
	shownRows := rows[s.first:min(len(rows), s.first+s.room())]
	texts := [][]string{{"NAME", "KIND ", "HELD BY", "FOR   ", "TTL   ", "WAIT", "CHG/s", "NOTE"}} // at least so wide, so that they seldom move
	for _, r := range shownRows {
		held := age(time.Duration(r.HeldFor * float64(time.Second)))
		switch {
		case r.idle():
			held = "-"
		case r.AtLeast:
			held = "≥" + held
		}
		texts = append(texts, []string{shown(r.Name), r.kind(), r.holders(), held, r.ttl(), r.waiting(), fmt.Sprintf("%.2g", r.Changes), r.note()})
	}
	for i, text := range table(s.width, texts) {
		if i == 0 {
			text = "\x1b[7m" + text + strings.Repeat(" ", max(0, s.width-ansi.StringWidth(text))) + "\x1b[0m"
		}
		line(text)
	}
	for range s.room() - len(shownRows) {
		b.WriteString("\n")
	}
	switch {
	case s.typing:
		line("/" + said(s.filter) + "_")
	case s.snap.Error != "":
		line("! " + said(s.snap.Error))
	default:
		line("sort: n name f held t TTL w waiting c changes  / filter  space pause  q quit")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
